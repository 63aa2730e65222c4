"""What a user knows of features: those that only raise or lower the score, and those whose values are codes.

The engine splits by codes with `=`. Its trees are written with two `<` instead, which for whole numbers is the same: so
rankers, and all engines that they are exported to, know a single kind of split.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cldrank.data.dataset import RankingDataset
from cldrank.decoding import guess
from cldrank.errors import DataError, UsageError
from cldrank.rankers.tree_ranker import checked_trees

if TYPE_CHECKING:
    from cldrank.models.trees.tree_model import Trees

_MOST_CODE = (1 << 16) - 1  # the engine keeps a bin for each code
_ROOT = 2**31 - 1  # what the engine writes as the parent of a root
Span = tuple[float, float]  # of codes: from the first to below the second
_CODES = ("categories", "categories_nodes", "categories_segments", "categories_sizes")


@dataclass(frozen=True)
class FeatureRules:
    """What is known of each feature, in order: `monotone` is 1, -1, or 0 for any; `is_code` for categories."""

    monotone: tuple[int, ...]
    is_code: tuple[bool, ...]

    @classmethod
    def of(cls, model: Trees, data: RankingDataset) -> FeatureRules:
        """The rules of a model for the features of a dataset; names that it has not, and values that are not codes,
        are refused.
        """
        names = data.feature_names
        for parameter in ("increasing", "decreasing", "categorical"):
            for name in getattr(model, parameter):
                if name not in names:
                    raise UsageError(f"`{parameter}` names {name!r}, and there is no such feature.{guess(name, names)}")
        rules = cls(
            tuple((name in model.increasing) - (name in model.decreasing) for name in names),
            tuple(name in model.categorical for name in names),
        )
        rules._check_codes(data)
        return rules

    def _check_codes(self, data: RankingDataset) -> None:
        """Refuse a categorical feature with values other than codes."""
        for place in np.flatnonzero(self.is_code).tolist():
            values = data.features[:, place]
            with np.errstate(invalid="ignore"):
                bad = ~np.isnan(values) & ~((values >= 0) & (values <= _MOST_CODE) & (values == np.floor(values)))
            if bad.any():
                row = int(bad.argmax())
                raise DataError(
                    f"`categorical` names {data.feature_names[place]!r}, which is {values[row]:g} in row {row} "
                    f"(counted from 0); codes are whole numbers from 0 to {_MOST_CODE:,}."
                )

    @property
    def settings(self) -> dict[str, Any]:
        """The engine's own settings."""
        monotone = {"monotone_constraints": str(self.monotone)} if any(self.monotone) else {}
        return monotone | ({"max_cat_to_onehot": 2**31 - 1} if any(self.is_code) else {})

    @property
    def types(self) -> list[str] | None:
        """The engine's types of features; None where all are numbers."""
        return ["c" if code else "q" for code in self.is_code] if any(self.is_code) else None

    def as_numbers(self, content: bytes) -> bytes:
        """The engine's file with splits by `<` alone; refused unless the engine can have written it."""
        if not any(self.is_code):
            return content
        file = json.loads(content)
        file["learner"]["feature_types"] = []
        model = file["learner"]["gradient_booster"]["model"]
        codes = [_taken_codes(tree) for tree in model["trees"]]
        checked_trees(json.dumps(file).encode(), len(self.is_code))
        model["trees"] = [_with_numbers(tree, own) for tree, own in zip(model["trees"], codes, strict=True)]
        return json.dumps(file).encode()


def _taken_codes(tree: dict[str, Any]) -> dict[int, int]:
    """The code by which each categorical node splits; the tree is left as if it had none."""
    codes, nodes, starts, sizes = (tree[name] for name in _CODES)
    count, split_type = len(codes), tree["split_type"]
    one_each = starts == list(range(count)) and sizes == [1] * count and all(0 <= code <= _MOST_CODE for code in codes)
    if not one_each or nodes != [node for node, kind in enumerate(split_type) if kind == 1]:
        raise DataError("the categories of a tree cannot be used: each split must be by a single code.")
    tree.update({name: [] for name in _CODES}, split_type=[0] * len(split_type))
    return dict(zip(nodes, codes, strict=True))


def _with_numbers(tree: dict[str, Any], codes: dict[int, int]) -> dict[str, Any]:
    """The tree with `x < code` and, to the right, `x < code + 1` for each split `x = code`.

    What lies behind `x != code` is there twice, less what no code there can reach. A split counts its gain once.
    """
    lists = [name for name, values in tree.items() if isinstance(values, list) and name not in _CODES]
    nodes: list[dict[str, Any]] = [{"parents": _ROOT}]
    counted: set[int] = set()
    waiting: list[tuple[int, int, bool, dict[int, Span]]] = [(0, 0, False, {})]
    while waiting:
        node, place, is_second, reached = waiting.pop()
        own = {name: tree[name][node] for name in lists}
        feature, left, right, to_left = (
            own[name] for name in ("split_indices", "left_children", "right_children", "default_left")
        )
        code, (low, high) = codes.get(node), reached.get(feature, (-np.inf, np.inf))
        if code is not None and to_left and not is_second and not low <= code < high:
            waiting.append((left, place, False, reached))  # missing values go there, too
            continue
        gain = 0.0 if node in counted else own["loss_changes"]
        counted.add(node)
        nodes[place] = {**own, "parents": nodes[place]["parents"], "loss_changes": gain}
        if left < 0:
            continue
        first = len(nodes)  # the engine wants both children side by side
        nodes[place] |= {"left_children": first, "right_children": first + 1}
        nodes += [{"parents": place}, {"parents": place}]
        if code is None:
            waiting += [(left, first, False, reached), (right, first + 1, False, reached)]
        elif not is_second:
            nodes[place] |= {"split_conditions": float(code), "default_left": 0}
            waiting += [(left, first, False, {**reached, feature: (low, code)}), (node, first + 1, True, reached)]
        else:
            nodes[place] |= {"split_conditions": code + 1.0, "default_left": 1 - to_left}
            waiting.append((right, first, False, {**reached, feature: (code, code + 1)}))
            waiting.append((left, first + 1, False, {**reached, feature: (code + 1, high)}))
    sizes = {**tree["tree_param"], "num_nodes": str(len(nodes))}
    return {**tree, **{name: [node[name] for node in nodes] for name in lists}, "tree_param": sizes}
