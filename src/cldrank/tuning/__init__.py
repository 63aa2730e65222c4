"""Tuning: parameters chosen by the clicks on held-out queries, which anybody with a click log has, without labels."""

from typing import TYPE_CHECKING, Any

from cldrank.tuning.grid import grid
from cldrank.tuning.search import tune
from cldrank.tuning.space import Range, default_space
from cldrank.tuning.trials import Trial, Tuned

if TYPE_CHECKING:
    from cldrank.tuning.per_query import PerQuery as PerQuery

__all__ = ["PerQuery", "Range", "Trial", "Tuned", "default_space", "grid", "tune"]


def __getattr__(name: str) -> Any:
    if name == "PerQuery":  # it is one of scikit-learn's own, which nothing else here needs
        from cldrank.tuning.per_query import PerQuery

        return PerQuery
    raise AttributeError(f"module 'cldrank.tuning' has no attribute {name!r}")
