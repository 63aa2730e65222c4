"""Tuning: parameters chosen by the clicks on held-out queries, by what somebody with a click log and no labels has."""

from cldrank.tuning.results import Trial, Tuned
from cldrank.tuning.search import tune
from cldrank.tuning.space import Range, default_space

__all__ = ["Range", "Trial", "Tuned", "default_space", "tune"]
