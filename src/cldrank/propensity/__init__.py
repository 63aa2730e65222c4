"""Examination propensities: how likely each position is looked at, given or estimated from a log.

>>> import cldrank as cr
>>> cr.propensity.AllPairs(depth=5)
AllPairs(depth=5)
"""

from cldrank.propensity.adjacent_chain import AdjacentChain
from cldrank.propensity.affine_clicks import AffineClicks
from cldrank.propensity.all_pairs import AllPairs
from cldrank.propensity.attraction import AttractionCheck, check_attraction
from cldrank.propensity.click_through import ClickThrough
from cldrank.propensity.comparison import Agreement, Comparison, agreement, applicable, compare, default_estimators
from cldrank.propensity.confounding import Confounding
from cldrank.propensity.dual_learning import DualLearning
from cldrank.propensity.estimator import PropensityEstimator
from cldrank.propensity.goodness import Goodness
from cldrank.propensity.logged import Logged, logged_probability
from cldrank.propensity.misspecification import distortion, misspecified_powers, misspecify
from cldrank.propensity.pivot import Pivot
from cldrank.propensity.propensities import Propensities
from cldrank.propensity.randomised import Randomised
from cldrank.propensity.refusal import impressions_needed
from cldrank.propensity.regression_em import RegressionEM
from cldrank.propensity.segmented import BySegment, SegmentPropensities
from cldrank.propensity.swap import Swap
from cldrank.propensity.trust_bias import TrustBias

__all__ = [
    "AdjacentChain",
    "AffineClicks",
    "Agreement",
    "AllPairs",
    "AttractionCheck",
    "BySegment",
    "ClickThrough",
    "Comparison",
    "Confounding",
    "DualLearning",
    "Goodness",
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
    "compare",
    "default_estimators",
    "distortion",
    "impressions_needed",
    "logged_probability",
    "misspecified_powers",
    "misspecify",
]
