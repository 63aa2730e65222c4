"""Estimators: one method per file, all with scikit-learn's habits, each leaving a ranker behind."""

from __future__ import annotations

from cldrank.estimators.affine_ips import AffineIPS
from cldrank.estimators.base import Estimator, NotFittedError
from cldrank.estimators.cld import CLD
from cldrank.estimators.cld_pair import CLDPair
from cldrank.estimators.heckman import HeckmanRank
from cldrank.estimators.ips import IPS
from cldrank.estimators.naive import Naive
from cldrank.estimators.oracle import Oracle
from cldrank.estimators.pijd import PIJD
from cldrank.estimators.policy_aware_ips import PolicyAwareIPS
from cldrank.estimators.rank_agg import RankAgg
from cldrank.estimators.svm_rank import SVMRank

__all__ = [
    "CLD",
    "IPS",
    "PIJD",
    "AffineIPS",
    "CLDPair",
    "Estimator",
    "HeckmanRank",
    "Naive",
    "NotFittedError",
    "Oracle",
    "PolicyAwareIPS",
    "RankAgg",
    "SVMRank",
]
