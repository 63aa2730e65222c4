"""Examination propensities: how likely each position is looked at."""

from cldrank.propensity.propensities import Propensities

__all__ = ["Propensities"]
