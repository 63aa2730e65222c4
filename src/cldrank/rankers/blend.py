"""Weighted sums of rankers: one ranker of the same kind where there is such, a `BlendRanker` otherwise."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.errors import DataError, UsageError
from cldrank.rankers.base import Ranker, finite_scores
from cldrank.rankers.group import GroupRanker
from cldrank.rankers.linear import LinearRanker
from cldrank.rankers.network import Layer, NetworkRanker
from cldrank.rankers.tree_file import parsed_trees
from cldrank.rankers.trees import TreeRanker
from cldrank.scaling import Scaling
from cldrank.wording import kind_of

_LEAF = -1


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class BlendRanker(GroupRanker):
    """score = Σ weight * score of the member.

    >>> from cldrank import scaling
    >>> one = scaling.fit(None, [[1, 1]])
    >>> members = [LinearRanker(feature_names="ab", scaling=one, coefficients=c) for c in ([1, 0], [0, 1])]
    >>> BlendRanker(feature_names="ab", members=members, weights=(2, 1)).predict([[3, 1], [2, 2]])
    array([7., 6.])
    """

    kind = "blend"
    shares = "weights"

    def score_rows(
        self,
        table: NDArray[Any],
        offsets: IntArray | None = None,
        *,
        block_rows: int | None = None,
        device: str | None = None,
    ) -> NDArray[np.float64]:
        """One score per row; queries do not matter. Linear members compute on the CPU, whatever the device."""
        total = np.zeros(len(table))
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused below
            for ranker, weight in zip(self.members, self.weights, strict=True):
                where = None if isinstance(ranker, LinearRanker) else device
                total += weight * ranker.score_rows(table, offsets, block_rows=block_rows, device=where)
        return finite_scores(total)


def blended(members: Sequence[Ranker], weights: Sequence[float]) -> Ranker:
    """The ranker whose score is Σ weight * score of the member; those of weight 0 are left out.

    Linear rankers with the same scaling become one linear ranker, networks alike one network as wide as both, trees
    one list of trees. What it remembers of its origin is that of the last member.

    >>> from cldrank import scaling
    >>> one = scaling.fit(None, [[1, 1]])
    >>> members = [LinearRanker(feature_names="ab", scaling=one, coefficients=c) for c in ([1, 0], [0, 1])]
    >>> blended(members, (2, 1)).coefficients
    array([2., 1.])
    """
    for one in members:
        check_blendable(one)
    used = [(one, float(weight)) for one, weight in zip(members, weights, strict=True) if weight]
    rankers, shares = [one for one, _ in used], np.array([weight for _, weight in used])
    if not rankers or not (np.isfinite(shares).all() and (shares > 0).all()):
        raise DataError(f"the weights of a blend must be at least 0, and one above it, not {tuple(weights)}.")
    if len({one.feature_names for one in rankers}) > 1:
        raise DataError("all members must know the same features.")
    if len(rankers) == 1:
        return rankers[0]
    parts: dict[str, Any] = {name: getattr(rankers[-1], name) for name in ("feature_names", "provenance", "trained_on")}
    if all(isinstance(one, TreeRanker) for one in rankers):
        return TreeRanker(content=_joined_trees(rankers, shares), **parts)
    scalings = [getattr(one, "scaling", None) for one in rankers]
    if _same_scaling(scalings):
        parts["scaling"] = scalings[-1]
        if all(isinstance(one, LinearRanker) for one in rankers):
            return _added(rankers, shares, parts)
        if _are_alike(rankers):
            return NetworkRanker(layers=_side_by_side(rankers, shares), **parts)
        del parts["scaling"]
    return BlendRanker(members=rankers, weights=tuple(shares), **parts)


def check_blendable(ranker: Ranker) -> None:
    """Refuse a ranker that cannot be a part of a blend."""
    if not isinstance(ranker, LinearRanker | NetworkRanker | TreeRanker):
        raise UsageError(
            f"{kind_of(ranker)} cannot be blended with another ranker; linear models, plain networks and trees can."
        )


def _same_scaling(scalings: Sequence[Scaling | None]) -> bool:
    first = scalings[0]
    return first is not None and all(
        one is not None
        and one.rule == first.rule
        and all(np.array_equal(one.parameters[name], values) for name, values in first.parameters.items())
        for one in scalings
    )


def _added(rankers: Sequence[Any], weights: NDArray[np.float64], parts: dict[str, Any]) -> LinearRanker:
    """Coefficients and intercepts, added up."""
    coefficients = weights @ np.array([one.coefficients for one in rankers])
    return LinearRanker(
        coefficients=coefficients, intercept=float(weights @ [one.intercept for one in rankers]), **parts
    )


def _are_alike(rankers: Sequence[Any]) -> bool:
    """Whether all are networks of the same layers, two of them linear at least, the last one among these."""
    if not all(isinstance(one, NetworkRanker) for one in rankers):
        return False
    kinds = [layer.kind for layer in rankers[0].layers]
    alike = all([layer.kind for layer in one.layers] == kinds for one in rankers)
    return alike and kinds[-1] == "linear" and kinds.count("linear") > 1


def _side_by_side(rankers: Sequence[Any], weights: NDArray[np.float64]) -> list[Layer]:
    """The layers of networks next to each other; the last one adds up their scores."""
    from scipy.linalg import block_diag

    layers: list[Layer] = []
    columns = list(zip(*(one.layers for one in rankers), strict=True))
    first = next(at for at, column in enumerate(columns) if column[0].kind == "linear")
    for at, column in enumerate(columns):
        if column[0].kind != "linear":
            layers.append(column[0])
            continue
        matrices = [layer.weight.astype(np.float64) for layer in column]
        biases = [np.zeros(len(layer.weight)) if layer.bias is None else layer.bias for layer in column]
        if at == first:
            matrix, bias = np.vstack(matrices), np.concatenate(biases)
        elif at < len(columns) - 1:
            matrix, bias = block_diag(*matrices), np.concatenate(biases)
        else:
            matrix = np.hstack([weight * own for weight, own in zip(weights, matrices, strict=True)])
            bias = weights @ np.array(biases)
        layers.append(Layer("linear", matrix.astype(np.float32), bias.astype(np.float32)))
    return layers


def _joined_trees(rankers: Sequence[Any], weights: NDArray[np.float64]) -> bytes:
    """The file of all trees one after the other, leaves times the weight; gains, which say what matters, as well."""
    whole = parsed_trees(rankers[-1].content, len(rankers[-1].feature_names))
    trees: list[dict[str, Any]] = []
    for one, weight in zip(rankers, weights, strict=True):
        for tree in one.trees:
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
