"""Experiments: simulate × estimate × seed → a table of results that survives whatever stops the run, and a report."""

from cldrank.experiment.report import save_report

__all__ = ["save_report"]
