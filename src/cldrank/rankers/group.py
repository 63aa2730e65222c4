"""`GroupRanker`: what rankers that are made of others share: members, their weights, and how these are saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

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
class GroupRanker(Ranker):
    """Several rankers of the same features, each with a weight.

    shares   what the description calls the weights

    >>> from cldrank.rankers import BlendRanker, BordaRanker
    >>> issubclass(BlendRanker, GroupRanker), issubclass(BordaRanker, GroupRanker)
    (True, True)
    """

    shares: ClassVar[str]
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

    def to_state(self) -> tuple[Config, Weights]:
        """The states of all members."""
        config: Config = {"members": [], self.shares: list(self.weights)}
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
        shares = member(config, cls.shares, list)
        if not all(isinstance(share, int | float) and not isinstance(share, bool) for share in shares):
            raise DataError(f"the {cls.shares} must be numbers, not {shares!r}.")
        return cls(feature_names=feature_names, provenance=provenance, members=members, weights=shares)

    def _parts(self) -> list[str]:
        return [f"{len(self.members)} members"]
