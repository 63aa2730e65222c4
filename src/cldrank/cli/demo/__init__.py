"""`cldrank demo`: a week's work on synthetic data, from a click log to a ranker that ships, each step a command."""

from __future__ import annotations

from cldrank.cli.demo.command import demo

__all__ = ["demo"]
