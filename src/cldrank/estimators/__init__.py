"""Estimators: one method a file, all with scikit-learn's habits, each leaving a ranker behind."""

from __future__ import annotations

from cldrank.estimators.base import Estimator, NotFittedError
from cldrank.estimators.oracle import Oracle
from cldrank.estimators.svm_rank import SVMRank

__all__ = ["Estimator", "NotFittedError", "Oracle", "SVMRank"]
