"""`BordaRanker`: several rankers vote on the order of each query's candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.errors import DataError
from cldrank.rankers.base import Config, Ranker, Weights, member, split_weights
from cldrank.rankers.linear import LinearRanker
from cldrank.rankers.network import NetworkRanker
from cldrank.rankers.provenance import Provenance
from cldrank.rankers.trees import TreeRanker
from cldrank.wording import kind_of, listed

_LARGEST = 1e280  # times the candidates of any query, added up over any number of members, it is still finite
_MEMBERS: dict[str, type[Ranker]] = {kind.kind: kind for kind in (LinearRanker, NetworkRanker, TreeRanker)}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class BordaRanker(Ranker):
    """Borda count: score = Σ weight * candidates of the query that the member ranks below. It depends on the query.

    >>> from cldrank import scaling
    >>> one = scaling.fit(None, [[1, 1]])
    >>> members = [LinearRanker(feature_names="ab", scaling=one, coefficients=c) for c in ([1, 0], [0, 1])]
    >>> BordaRanker(feature_names="ab", members=members, weights=(2, 1)).predict([[3, 1], [2, 2], [1, 3]])
    array([4., 3., 2.])
    """

    kind = "borda"
    by_row = False
    members: Sequence[Ranker]
    weights: Sequence[float]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "members", tuple(self.members))
        if any(weight > _LARGEST for weight in self.weights):
            raise DataError(f"the weights must be at most {_LARGEST:g}, or scores would be infinite.")
        object.__setattr__(self, "weights", tuple(float(weight) for weight in self.weights))
        if not self.members or len(self.members) != len(self.weights):
            raise DataError(f"there are {len(self.weights)} weights for {len(self.members)} members.")
        if not all(np.isfinite(weight) and weight >= 0 for weight in self.weights) or not any(self.weights):
            raise DataError(f"the weights must be at least 0, and one above it, not {self.weights}.")
        for ranker in self.members:
            if ranker.feature_names != self.feature_names:
                raise DataError("all members must know the same features.")

    def score_rows(
        self,
        table: NDArray[Any],
        offsets: IntArray | None = None,
        *,
        block_rows: int | None = None,
        device: str | None = None,
        first_query: int = 0,
    ) -> NDArray[np.float64]:
        """The votes of each row among those of its query; ties depend on the number of the query among all."""
        spans = np.array([0, len(table)]) if offsets is None else offsets
        sizes = np.repeat(np.diff(spans), np.diff(spans))
        total = np.zeros(len(table))
        for ranker, weight in zip(self.members, self.weights, strict=True):
            scores = ranker.score_rows(table, offsets, block_rows=block_rows, device=device)
            total += weight * (sizes - segments.descending_ranks(scores, spans, first_query))
        return total

    def to_state(self) -> tuple[Config, Weights]:
        """The states of all members."""
        config: Config = {"members": [], "votes": list(self.weights)}
        weights: Weights = {}
        for index, ranker in enumerate(self.members):
            if ranker.kind not in _MEMBERS:
                raise DataError(f"{kind_of(ranker)} cannot be saved as a member of others.")
            own, arrays = ranker.to_state()
            config["members"].append({"kind": ranker.kind, **own})
            weights |= {f"{index}.{name}": values for name, values in arrays.items()}
        return config, weights

    @classmethod
    def from_state(
        cls, config: Config, weights: Weights, *, feature_names: tuple[str, ...], provenance: Provenance
    ) -> Self:
        """The ranker with these members."""
        described = member(config, "members", list)
        parts = split_weights(weights, [str(index) for index in range(len(described))])
        members = []
        for index, own in enumerate(described):
            if not isinstance(own, dict) or str(own.get("kind")) not in _MEMBERS:
                raise DataError(f"member {index + 1} must be of the kind {listed(_MEMBERS, 'or')}.")
            kind = _MEMBERS[own["kind"]]
            members.append(
                kind.from_state(own, parts[str(index)], feature_names=feature_names, provenance=Provenance())
            )
        votes = member(config, "votes", list)
        if not all(isinstance(vote, int | float) and not isinstance(vote, bool) for vote in votes):
            raise DataError(f"the votes must be numbers, not {votes!r}.")
        return cls(feature_names=feature_names, provenance=provenance, members=members, weights=votes)

    def _parts(self) -> list[str]:
        return [f"{len(self.members)} members"]
