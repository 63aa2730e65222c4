"""Tuning: parameters chosen by the clicks on held-out queries, without labels."""

from cldrank.tuning.search import Lead, Trial, Tuned, tune
from cldrank.tuning.space import Range, default_space

__all__ = ["Lead", "Range", "Trial", "Tuned", "default_space", "tune"]
