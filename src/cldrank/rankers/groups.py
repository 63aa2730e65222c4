"""Rankers made of others: `BordaRanker` by votes, `BlendRanker` by a weighted sum, and `blended`, which prefers a
ranker of the members' own kind where it can.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.arguments import shortened
from cldrank.errors import DataError, UsageError
from cldrank.rankers.base import Config, Floats, Ranker, Weights, finite_scores, member
from cldrank.rankers.linear_ranker import LinearRanker
from cldrank.rankers.network_ranker import NetworkRanker
from cldrank.rankers.tree_ranker import TreeRanker
from cldrank.wording import kind_of, listed

_LARGEST = 1e280  # times the candidates of any query, added up over any number of members, it is still finite
_LEAF = -1
_MEMBERS: dict[str, type[Ranker]] = {kind.kind: kind for kind in (LinearRanker, NetworkRanker, TreeRanker)}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class GroupRanker(Ranker):
    """Several rankers of the same features, each with a weight.

    >>> from cldrank.rankers import BlendRanker, BordaRanker
    >>> issubclass(BlendRanker, GroupRanker), issubclass(BordaRanker, GroupRanker)
    (True, True)
    """

    members: Sequence[Ranker]
    weights: Sequence[float]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "members", tuple(self.members))
        if not self.members or len(self.members) != len(self.weights):
            raise DataError(f"there are {len(self.weights)} weights for {len(self.members)} members.")
        _check_weights(self.weights)
        object.__setattr__(self, "weights", tuple(map(float, self.weights)))
        if any(ranker.feature_names != self.feature_names for ranker in self.members):
            raise DataError("all members must know the same features.")

    def to_state(self) -> tuple[Config, Weights]:
        """The states of all members."""
        config: Config = {"members": [], "weights": list(self.weights)}
        weights: Weights = {}
        for index, ranker in enumerate(self.members):
            own, arrays = ranker.to_state()
            config["members"].append({"kind": ranker.kind, **own})
            weights |= {f"{index}.{name}": values for name, values in arrays.items()}
        return config, weights

    @classmethod
    def from_state(cls, config: Config, weights: Weights, **parts: Any) -> Self:
        """The ranker with these members."""
        described = member(config, "members", list)
        members = []
        for index, own in enumerate(described):
            if not isinstance(own, dict) or str(own.get("kind")) not in _MEMBERS:
                raise DataError(f"member {index + 1} must be of the kind {listed(_MEMBERS, 'or')}.")
            kind = _MEMBERS[own["kind"]]
            names = [name for name in weights if name.startswith(f"{index}.")]
            arrays = {name.removeprefix(f"{index}."): weights.pop(name) for name in names}
            members.append(kind.from_state(own, arrays, feature_names=parts["feature_names"]))
        if weights:
            raise DataError(f"there is an array {min(weights)!r}, which belongs to no member.")
        return cls(members=members, weights=member(config, "weights", list), **parts)

    def _parts(self) -> list[str]:
        return [f"{len(self.members)} members"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class BordaRanker(GroupRanker):
    """Borda count: score = Σ weight * candidates of the query that the member ranks below. It depends on the query.

    >>> from cldrank import scaling
    >>> unscaled = scaling.fit(None, [[1, 1]])
    >>> members = [LinearRanker(feature_names="ab", scaling=unscaled, coefficients=c) for c in ([1, 0], [0, 1])]
    >>> BordaRanker(feature_names="ab", members=members, weights=(2, 1)).predict([[3, 1], [2, 2], [1, 3]])
    array([4., 3., 2.])
    """

    kind = "borda"
    by_row = False

    def score_rows(
        self, table: NDArray[Any], offsets: IntArray | None = None, *, device: str | None = None, first_query: int = 0
    ) -> NDArray[np.float64]:
        """The votes of each row among those of its query; how ties are broken depends on the index of the query."""
        spans = np.array([0, len(table)]) if offsets is None else offsets
        sizes = np.repeat(np.diff(spans), np.diff(spans))
        total = np.zeros(len(table))
        for ranker, weight in zip(self.members, self.weights, strict=True):
            scores = ranker.score_rows(table, offsets, device=device)
            total += weight * (sizes - segments.descending_ranks(scores, spans, first_query))
        return total


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class BlendRanker(GroupRanker):
    """score = Σ weight * score of the member.

    >>> from cldrank import scaling
    >>> unscaled = scaling.fit(None, [[1, 1]])
    >>> members = [LinearRanker(feature_names="ab", scaling=unscaled, coefficients=c) for c in ([1, 0], [0, 1])]
    >>> BlendRanker(feature_names="ab", members=members, weights=(2, 1)).predict([[3, 1], [2, 2]])
    array([7., 6.])
    """

    kind = "blend"

    def score_rows(self, table: NDArray[Any], offsets: IntArray | None = None, *, device: str | None = None) -> Floats:
        """The score of each row; queries do not matter."""
        total = np.zeros(len(table))
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused below
            for ranker, weight in zip(self.members, self.weights, strict=True):
                total += weight * ranker.score_rows(table, offsets, device=device)
        return finite_scores(total)


def blended(members: Sequence[Ranker], weights: Sequence[float]) -> Ranker:
    """The ranker whose score is Σ weight * score of the member; those of weight 0 are left out.

    Linear rankers with the same scaling are merged into a linear ranker, and trees into a single list. The provenance
    is that of the last member.

    >>> from cldrank import scaling
    >>> unscaled = scaling.fit(None, [[1, 1]])
    >>> members = [LinearRanker(feature_names="ab", scaling=unscaled, coefficients=c) for c in ([1, 0], [0, 1])]
    >>> blended(members, (2, 1)).coefficients
    array([2., 1.])
    """
    if groups := [ranker for ranker in members if isinstance(ranker, GroupRanker)]:
        raise UsageError(f"{kind_of(groups[0])} cannot be a part of a blend; linear rankers, networks and trees can.")
    _check_weights(weights)
    rankers = [ranker for ranker, weight in zip(members, weights, strict=True) if weight]
    shares = np.array([float(weight) for weight in weights if weight])
    if len({ranker.feature_names for ranker in rankers}) > 1:
        raise DataError("all members must know the same features.")
    if len(rankers) == 1:
        return rankers[0]
    kept = ("feature_names", "provenance", "trained_on", "ranges")
    parts: dict[str, Any] = {name: getattr(rankers[-1], name) for name in kept}
    if all(isinstance(ranker, TreeRanker) for ranker in rankers):
        return TreeRanker(content=_joined_trees(rankers, shares), **parts)
    if all(isinstance(ranker, LinearRanker) for ranker in rankers) and _have_one_scaling(rankers):
        return _added(rankers, shares, **parts)
    return BlendRanker(members=rankers, weights=tuple(shares), **parts)


def _check_weights(weights: Sequence[Any]) -> None:
    numbers = [weight for weight in weights if isinstance(weight, int | float) and not isinstance(weight, bool)]
    if numbers != list(weights) or not all(0 <= weight <= _LARGEST for weight in numbers) or not any(numbers):
        raise DataError(f"weights must be from 0 to {_LARGEST:g}, and not all 0, not {shortened(weights)}.")


def _have_one_scaling(rankers: Sequence[Any]) -> bool:
    first = rankers[0].scaling
    return all(
        ranker.scaling.rule == first.rule
        and all(np.array_equal(ranker.scaling.parameters[name], values) for name, values in first.parameters.items())
        for ranker in rankers
    )


def _added(rankers: Sequence[Any], weights: NDArray[np.float64], **parts: Any) -> LinearRanker:
    """Coefficients and intercepts, added up."""
    coefficients = weights @ np.array([ranker.coefficients for ranker in rankers])
    intercept = float(weights @ [ranker.intercept for ranker in rankers])
    return LinearRanker(coefficients=coefficients, intercept=intercept, scaling=rankers[-1].scaling, **parts)


def _joined_trees(rankers: Sequence[Any], weights: NDArray[np.float64]) -> bytes:
    """The file of all trees in order, their leaves and gains times the weight."""
    whole = json.loads(rankers[-1].content)
    trees: list[dict[str, Any]] = []
    for ranker, weight in zip(rankers, weights, strict=True):
        for tree in ranker.trees:
            leaf = np.array(tree["left_children"]) == _LEAF
            values = np.array(tree["split_conditions"])
            scaled = {
                "split_conditions": np.where(leaf, weight * values, values),
                "base_weights": weight * np.array(tree["base_weights"]),
                "loss_changes": weight * np.array(tree["loss_changes"]),
            }
            numbers = {name: own.astype(np.float32).astype(np.float64).tolist() for name, own in scaled.items()}
            trees.append({**tree, **numbers, "id": len(trees)})
    model = whole["learner"]["gradient_booster"]["model"]
    model["trees"] = trees
    model["gbtree_model_param"]["num_trees"] = str(len(trees))
    model["tree_info"] = [0] * len(trees)
    model["iteration_indptr"] = list(range(len(trees) + 1))
    return json.dumps(whole).encode()
