"""What rankers compute, in the forms that formats are written from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.rankers import Layer, LinearRanker, NetworkRanker, ScalingRanker, TreeRanker
from cldrank.scaling import MinMax, SignedLog, Standard, Unscaled

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
    def clips(self) -> bool:
        """Whether values are clipped."""
        return self.low is not None


def affine_form(ranker: ScalingRanker) -> AffineForm | None:
    """The scaling of a ranker; None where it is not of this form (quantiles)."""
    rule, width = ranker.scaling.rule, ranker.scaling.n_features
    if isinstance(rule, Unscaled):
        return AffineForm(np.zeros(width), np.ones(width), None, None)
    if isinstance(rule, Standard | MinMax):
        center, factor = (ranker.scaling.parameters[name] for name in ("center", "factor"))
        low, high = rule.bounds if np.isfinite(rule.bounds).all() else (None, None)
        return AffineForm(center, factor, low, high, isinstance(rule, SignedLog))
    return None


def layers_of(ranker: LinearRanker | NetworkRanker) -> tuple[Layer, ...]:
    """The layers over the scaled features; a linear ranker is one layer."""
    if isinstance(ranker, NetworkRanker):
        return tuple(ranker.layers)
    weight = ranker.coefficients.astype(np.float32)[None, :]
    return (Layer("linear", weight, np.array([ranker.intercept], dtype=np.float32)),)


@dataclass(frozen=True, eq=False)
class TreeForm:
    """A tree, node by node: a row goes left where its value < threshold, or where it is missing and `missing_left`.

    left, right   the number of the child; -1 at a leaf
    value         the leaf's contribution to the score, 0 at a split
    """

    feature: NDArray[np.int64]
    threshold: NDArray[np.float32]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    missing_left: NDArray[np.bool_]
    value: NDArray[np.float32]

    def is_leaf(self, node: int) -> bool:
        """Whether a node is a leaf."""
        return bool(self.left[node] < 0)


def tree_forms(ranker: TreeRanker) -> list[TreeForm]:
    """The trees of a ranker; their leaves add up to the score."""
    return [_tree_form(tree) for tree in ranker.trees]


def learned_missing(ranker: TreeRanker) -> bool:
    """Whether the trees were trained with missing values; XGBoost sends all of them right where there were none."""
    trees = tree_forms(ranker)
    return ranker.provenance.has_missing or any((tree.missing_left & (tree.left >= 0)).any() for tree in trees)


def features_of(trees: list[TreeForm]) -> NDArray[np.int64]:
    """The features that the trees split by; the first of all where they split by none, since engines want one."""
    found = np.unique(np.concatenate([tree.feature[tree.left >= 0] for tree in trees]))
    return found if len(found) else np.zeros(1, dtype=np.int64)


def _tree_form(tree: dict[str, Any]) -> TreeForm:
    left = np.array(tree["left_children"], dtype=np.int64)
    numbers = np.array(tree["split_conditions"], dtype=np.float32)  # the engine keeps the value of a leaf here
    leaf = left < 0
    return TreeForm(
        feature=np.array(tree["split_indices"], dtype=np.int64),
        threshold=np.where(leaf, np.float32(0), numbers),
        left=left,
        right=np.array(tree["right_children"], dtype=np.int64),
        missing_left=np.array(tree["default_left"], dtype=bool),
        value=np.where(leaf, numbers, np.float32(0)),
    )
