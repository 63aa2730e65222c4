"""The file of boosted trees, as XGBoost writes it in JSON: checked in full before the engine sees it.

The engine trusts its files: a child that is not there is read from somewhere in memory.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from cldrank.arguments import shortened
from cldrank.errors import DataError
from cldrank.wording import some

_ROOT = 2**31 - 1  # what the engine writes as the parent of a root
_LARGEST = float(np.finfo(np.float32).max)
_FLOATS = ("base_weights", "loss_changes", "split_conditions", "sum_hessian")
_WHOLE = ("default_left", "left_children", "right_children", "parents", "split_indices", "split_type")
_CATEGORIES = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
_NO_CATEGORIES: dict[str, list[Any]] = {"enc": [], "feature_segments": [], "sorted_idx": []}


def checked_trees(content: bytes, n_features: int) -> bytes:
    """The same trees, written anew; refused unless the engine can score `n_features` features with them."""
    model = parsed_trees(content, n_features)
    return json.dumps(model, separators=(",", ":"), allow_nan=False).encode()


def parsed_trees(content: bytes, n_features: int) -> dict[str, Any]:
    """The content of a file of boosted trees; refused unless it is in all parts what the engine writes."""
    try:
        whole = json.loads(content, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise DataError(f"the trees are not JSON ({error}).") from None
    learner, version = _keys(whole, "the file", ("learner", "version"))
    if not _are_whole(version, 0, 10**6) or len(version) != 3:
        raise DataError(f"the version of the engine must be three whole numbers, not {shortened(version)}.")
    names = ("attributes", "feature_names", "feature_types", "gradient_booster", "learner_model_param", "objective")
    attributes, feature_names, feature_types, booster, parameters, objective = _keys(learner, "the learner", names)
    if attributes != {} or feature_names != [] or feature_types != []:
        raise DataError("the trees must have neither attributes nor names and types of features.")
    _check_parameters(parameters, n_features)
    _check_objective(objective)
    kind, model = _keys(booster, "the booster", ("name", "model"))
    if kind != "gbtree":
        raise DataError(f"the booster must be 'gbtree', not {shortened(kind)}.")
    _check_forest(model, n_features)
    return whole  # type: ignore[no-any-return]


def _check_parameters(parameters: Any, n_features: int) -> None:
    expected = {"boost_from_average": "0", "num_class": "0", "num_feature": str(n_features), "num_target": "1"}
    _keys(parameters, "the parameters", ("base_score", *expected))
    for name, value in expected.items():
        if parameters[name] != value:
            raise DataError(f"{name} of the trees must be {value!r}, not {shortened(parameters[name])}.")
    if parameters["base_score"] not in ("[0E0]", "0E0"):
        raise DataError(f"base_score of the trees must be 0, not {shortened(parameters['base_score'])}.")


def _check_objective(objective: Any) -> None:
    name, settings = _keys(objective, "the objective", ("name", "lambdarank_param"))
    if name != "rank:ndcg":
        raise DataError(f"the objective of the trees must be 'rank:ndcg', not {shortened(name)}.")
    if not isinstance(settings, dict) or not all(
        isinstance(value, str) and (value in ("mean", "topk") or (value.isdecimal() and len(value) <= 10))
        for value in settings.values()
    ):
        raise DataError(f"the parameters of the objective cannot be used: {shortened(settings)}.")


def _check_forest(model: Any, n_features: int) -> None:
    names = ("gbtree_model_param", "iteration_indptr", "tree_info", "trees")
    known = {key: value for key, value in model.items() if key != "cats"} if isinstance(model, dict) else model
    parameters, rounds, groups, trees = _keys(known, "the model", names)
    if model.get("cats", _NO_CATEGORIES) != _NO_CATEGORIES:  # XGBoost 3.0 does not write them
        raise DataError("the trees split by categories, which are not supported.")
    if not isinstance(trees, list) or not trees:
        raise DataError("there are no trees.")
    count = len(trees)
    if parameters != {"num_parallel_tree": "1", "num_trees": str(count)}:
        raise DataError(f"the parameters of {count} trees cannot be {shortened(parameters)}.")
    if rounds != list(range(count + 1)) or groups != [0] * count or not _are_whole(rounds + groups, 0, count):
        raise DataError("each tree must be that of one round.")
    for number, tree in enumerate(trees):
        try:
            _check_tree(tree, number, n_features)
        except DataError as error:
            raise DataError(f"tree {number + 1}: {error}") from None


def _check_tree(tree: Any, number: int, n_features: int) -> None:
    _keys(tree, "it", (*_FLOATS, *_WHOLE, *_CATEGORIES, "id", "tree_param"))
    left = tree["left_children"]
    size = len(left) if isinstance(left, list) else 0
    sizes = {"num_deleted": "0", "num_feature": str(n_features), "num_nodes": str(size), "size_leaf_vector": "1"}
    if tree["tree_param"] != sizes or not size:
        raise DataError(f"its parameters cannot be {shortened(tree['tree_param'])}.")
    if type(tree["id"]) is not int or tree["id"] != number:
        raise DataError(f"its id must be {number}, not {shortened(tree['id'])}.")
    if any(tree[name] != [] for name in _CATEGORIES):
        raise DataError("it splits by categories, which are not supported.")
    bounds = {"default_left": (0, 1), "parents": (0, _ROOT), "split_indices": (0, n_features - 1), "split_type": (0, 0)}
    for name in _WHOLE:
        low, high = bounds.get(name, (-1, size - 1))
        if not _are_whole(tree[name], low, high) or len(tree[name]) != size:
            raise DataError(f"{name} must be {size} whole numbers from {low} to {high}.")
    for name in _FLOATS:
        if not _are_numbers(tree[name]) or len(tree[name]) != size:
            raise DataError(f"{name} must be {size} finite numbers.")
    _check_branches(tree["left_children"], tree["right_children"], tree["parents"])


def _check_branches(left: list[int], right: list[int], parents: list[int]) -> None:
    """Refuse what is not one tree: each node but the first has one parent, which comes before it."""
    expected = [_ROOT, *[-1] * (len(left) - 1)]
    for node, (low, high) in enumerate(zip(left, right, strict=True)):
        if (low == -1) != (high == -1):
            raise DataError(f"node {node} has one child; it must have two or none.")
        for child in (low, high) if low != -1 else ():
            if child <= node or expected[child] != -1:
                raise DataError(f"node {node} cannot have the child {child}.")
            expected[child] = node
    if expected != parents:
        raise DataError("its nodes do not have the parents that they name.")


def _keys(found: Any, what: str, names: tuple[str, ...]) -> list[Any]:
    """The values of an object with just these keys."""
    if not isinstance(found, dict) or set(found) != set(names):
        keys = sorted(map(str, found)) if isinstance(found, dict) else found
        raise DataError(f"{what} must have just {some(sorted(names), 12)}, not {shortened(keys)}.")
    return [found[name] for name in names]


def _are_whole(values: Any, low: int, high: int) -> bool:
    return isinstance(values, list) and all(type(value) is int and low <= value <= high for value in values)


def _are_numbers(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is float and abs(value) <= _LARGEST for value in values)


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a number")
