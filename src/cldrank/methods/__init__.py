"""Methods: what to learn from. One method per file, with scikit-learn's conventions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cldrank.errors import NotFittedError
from cldrank.methods.method import Method
from cldrank.methods.registry import method_named, methods

if TYPE_CHECKING:  # for type checkers; at run time a method is found by its file
    from cldrank.methods.affine_ips import AffineIPS as AffineIPS
    from cldrank.methods.bayes_ips import BayesIPS as BayesIPS
    from cldrank.methods.cld import CLD as CLD
    from cldrank.methods.cld_pair import CLDPair as CLDPair
    from cldrank.methods.heckman import HeckmanRank as HeckmanRank
    from cldrank.methods.intervention_aware import InterventionAware as InterventionAware
    from cldrank.methods.ips import IPS as IPS
    from cldrank.methods.naive import Naive as Naive
    from cldrank.methods.oracle import Oracle as Oracle
    from cldrank.methods.pijd import PIJD as PIJD
    from cldrank.methods.policy_aware_ips import PolicyAwareIPS as PolicyAwareIPS
    from cldrank.methods.rank_agg import RankAgg as RankAgg
    from cldrank.methods.svm_rank import SVMRank as SVMRank

__all__ = ["Method", "NotFittedError", "method_named", "methods"]


def __getattr__(name: str) -> Any:
    for kind in methods().values():
        if kind.__name__ == name:
            return kind
    raise AttributeError(f"module 'cldrank.methods' has no attribute {name!r}")
