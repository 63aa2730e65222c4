"""Examination propensities: how likely each position is looked at, given or estimated from a log.

>>> import cldrank as cr
>>> cr.propensity.AllPairs(depth=5)
AllPairs(depth=5)
"""

from cldrank.propensity.affine_clicks import AffineClicks
from cldrank.propensity.checks.agreement import agreement, applicable, compare_estimators
from cldrank.propensity.checks.attraction import check_attraction
from cldrank.propensity.checks.refusal import impressions_needed
from cldrank.propensity.click_through import ClickThrough
from cldrank.propensity.envelope import Envelope
from cldrank.propensity.estimator import PropensityEstimator, estimators
from cldrank.propensity.harvesting.adjacent_chain import AdjacentChain
from cldrank.propensity.harvesting.all_pairs import AllPairs
from cldrank.propensity.harvesting.pivot import Pivot
from cldrank.propensity.interventions.logged import Logged, logged_probability
from cldrank.propensity.interventions.randomised import Randomised
from cldrank.propensity.interventions.swap import Swap
from cldrank.propensity.modelled.dual_learning import DualLearning
from cldrank.propensity.modelled.regression_em import RegressionEM
from cldrank.propensity.modelled.trust_bias import TrustBias
from cldrank.propensity.propensities import Propensities
from cldrank.propensity.segment_propensities import SegmentPropensities
from cldrank.propensity.segmented import BySegment

__all__ = [
    "AdjacentChain",
    "AffineClicks",
    "AllPairs",
    "BySegment",
    "ClickThrough",
    "DualLearning",
    "Envelope",
    "Logged",
    "Pivot",
    "Propensities",
    "PropensityEstimator",
    "Randomised",
    "RegressionEM",
    "SegmentPropensities",
    "Swap",
    "TrustBias",
    "agreement",
    "applicable",
    "check_attraction",
    "compare_estimators",
    "estimators",
    "impressions_needed",
    "logged_probability",
]
