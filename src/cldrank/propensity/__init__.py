"""Examination propensities: how likely each position is looked at, given or estimated from a log.

>>> import cldrank as cr
>>> cr.propensity.AllPairs(depth=5)
AllPairs(depth=5)
"""

from cldrank.propensity.affine_clicks import AffineClicks, TrustBias
from cldrank.propensity.behaviour import AfterClick, Behaviour
from cldrank.propensity.envelope import Envelope
from cldrank.propensity.estimator import PropensityEstimator, estimators
from cldrank.propensity.harvesting import AdjacentChain, AllPairs, Pivot
from cldrank.propensity.identifiability import Requirement, impressions_needed
from cldrank.propensity.modelled_relevance import DualLearning, RegressionEM
from cldrank.propensity.propensities import Propensities
from cldrank.propensity.randomised import ClickThrough, Logged, Randomised, logged_probability
from cldrank.propensity.segment_propensities import BySegment, SegmentPropensities

__all__ = [
    "AdjacentChain", "AffineClicks", "AfterClick", "AllPairs", "Behaviour", "BySegment", "ClickThrough",
    "DualLearning", "Envelope", "Logged", "Pivot", "Propensities", "PropensityEstimator", "Randomised",
    "RegressionEM", "Requirement", "SegmentPropensities", "TrustBias", "estimators", "impressions_needed",
    "logged_probability",
]  # fmt: skip
