"""Methods: what is learned from. One method per file, found by its file, with scikit-learn's habits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cldrank.estimators.method import Method
from cldrank.estimators.registry import method_named, methods

if TYPE_CHECKING:  # for type checkers; at run time a method is found by its file
    from cldrank.estimators.affine_ips import AffineIPS as AffineIPS
    from cldrank.estimators.bayes_ips import BayesIPS as BayesIPS
    from cldrank.estimators.cld import CLD as CLD
    from cldrank.estimators.cld_pair import CLDPair as CLDPair
    from cldrank.estimators.heckman import HeckmanRank as HeckmanRank
    from cldrank.estimators.intervention_aware import InterventionAware as InterventionAware
    from cldrank.estimators.ips import IPS as IPS
    from cldrank.estimators.naive import Naive as Naive
    from cldrank.estimators.oracle import Oracle as Oracle
    from cldrank.estimators.pijd import PIJD as PIJD
    from cldrank.estimators.policy_aware_ips import PolicyAwareIPS as PolicyAwareIPS
    from cldrank.estimators.rank_agg import RankAgg as RankAgg
    from cldrank.estimators.svm_rank import SVMRank as SVMRank
    from cldrank.models.not_fitted import NotFittedError as NotFittedError

__all__ = ["Method", "NotFittedError", "method_named", "methods"]


def __getattr__(name: str) -> Any:
    if name == "NotFittedError":
        from cldrank.models.not_fitted import NotFittedError

        return NotFittedError
    for kind in methods().values():
        if kind.__name__ == name:
            return kind
    raise AttributeError(f"module 'cldrank.estimators' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *(kind.__name__ for kind in methods().values())])
