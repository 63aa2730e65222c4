"""What rankers compute, as formats write it: linear scores, networks, trees, and sums of these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.rankers import LinearRanker, ScalingRanker, TreeRanker
from cldrank.scaling import SignedLog

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AffineForm:
    """scaled = clip((g(x) - center) * factor, low, high), with g(x) = sign(x) log(1 + |x|) or x itself.

    low, high   None where nothing is clipped
    """

    center: Vector
    factor: Vector
    low: float | None
    high: float | None
    logarithm: bool = False

    @property
    def changes_nothing(self) -> bool:
        """Whether a scaled feature is the feature."""
        return not (self.logarithm or self.center.any() or (self.factor != 1).any() or self.low is not None)


def affine_form(ranker: ScalingRanker) -> AffineForm:
    """The scaling of a linear ranker or of a network."""
    rule, parameters, width = ranker.scaling.rule, ranker.scaling.parameters, ranker.scaling.n_features
    center, factor = parameters.get("center", np.zeros(width)), parameters.get("factor", np.ones(width))
    low, high = rule.bounds if np.isfinite(rule.bounds).all() else (None, None)
    return AffineForm(center, factor, low, high, isinstance(rule, SignedLog))


def linear_features(ranker: LinearRanker, scaling: AffineForm) -> NDArray[np.int64]:
    """The features that a linear ranker uses: not constant, and with a coefficient other than 0."""
    return np.flatnonzero(ranker.coefficients * scaling.factor)


@dataclass(frozen=True, eq=False)
class TreeForm:
    """A tree, node by node: a row goes left where its value < threshold, or where it is missing and `missing_left`.

    left, right   the number of the child, which comes after its parent; -1 at a leaf
    value         the leaf's contribution to the score, 0 at a split
    """

    feature: NDArray[np.int64]
    threshold: NDArray[np.float32]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    missing_left: NDArray[np.bool_]
    value: NDArray[np.float32]

    @property
    def splits(self) -> NDArray[np.bool_]:
        """Which nodes are splits."""
        return self.left >= 0

    def nested(self, leaf: Callable[[int], Any], split: Callable[[int, Any, Any], Any]) -> Any:
        """The root, made from the leaves up: `leaf(node)` or `split(node, left, right)` of what its children became."""
        made: dict[int, Any] = {}
        for node in reversed(range(len(self.left))):
            left, right = int(self.left[node]), int(self.right[node])
            made[node] = leaf(node) if left < 0 else split(node, made.pop(left), made.pop(right))
        return made[0]


def tree_forms(ranker: TreeRanker) -> list[TreeForm]:
    """The trees of a ranker; their leaves add up to the score."""
    return list(map(_tree_form, ranker.trees))


def _tree_form(tree: dict[str, Any]) -> TreeForm:
    left = np.array(tree["left_children"], dtype=np.int64)
    numbers = np.array(tree["split_conditions"], dtype=np.float32)  # XGBoost keeps the value of a leaf here
    leaf = left < 0
    return TreeForm(
        feature=np.array(tree["split_indices"], dtype=np.int64),
        threshold=np.where(leaf, np.float32(0), numbers),
        left=left,
        right=np.array(tree["right_children"], dtype=np.int64),
        missing_left=np.array(tree["default_left"], dtype=bool),
        value=np.where(leaf, numbers, np.float32(0)),
    )


def learned_missing(ranker: TreeRanker) -> bool:
    """Whether the trees were trained with missing values; XGBoost sends all of them right where there were none."""
    return ranker.provenance.has_missing or any((tree.missing_left & tree.splits).any() for tree in tree_forms(ranker))


def tree_features(trees: Iterable[TreeForm]) -> NDArray[np.int64]:
    """The features that trees split by."""
    return np.unique(np.concatenate([tree.feature[tree.splits] for tree in trees]))


def xgboost_dump(tree: TreeForm, names: Sequence[str]) -> dict[str, Any]:
    """A tree as `Booster.dump_model` writes it, with the names of features and all digits of numbers."""
    depth = np.zeros(len(tree.left), dtype=np.int64)
    for node in np.flatnonzero(tree.splits):
        depth[[tree.left[node], tree.right[node]]] = depth[node] + 1

    def split(node: int, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        return {
            "nodeid": node,
            "depth": int(depth[node]),
            "split": names[tree.feature[node]],
            "split_condition": float(tree.threshold[node]),
            "yes": left["nodeid"],
            "no": right["nodeid"],
            "missing": (left if tree.missing_left[node] else right)["nodeid"],
            "children": [left, right],
        }

    dumped: dict[str, Any] = tree.nested(lambda node: {"nodeid": node, "leaf": float(tree.value[node])}, split)
    return dumped
