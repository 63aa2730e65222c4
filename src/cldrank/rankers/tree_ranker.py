"""`TreeRanker`: boosted trees, scored by XGBoost, in files that are checked before XGBoost reads them.

XGBoost trusts the files that it reads: a wrong index reads or overwrites memory.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.arguments import shortened, shortened_text
from cldrank.errors import DataError, MissingDependencyError
from cldrank.feature_blocks import row_blocks
from cldrank.host import available_cores
from cldrank.rankers.base import Config, Floats, Ranker, Weights, finite_scores
from cldrank.rankers.devices import check_tree_device, is_cpu
from cldrank.reading import reason
from cldrank.wording import count, some
from cldrank.workers import fair_threads

_FILE = "model.json"  # what the array with XGBoost's file is called
_BLOCK_VALUES = 1 << 22
_ROOT = 2**31 - 1  # what the engine writes as the parent of a root
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TreeRanker(Ranker):
    """Boosted trees as XGBoost writes them in JSON; a score is the sum of one leaf per tree.

    Missing values (NaN) go where each split sends them.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[i] for i in range(20)], np.arange(20) // 4, labels=[0, 1, 2, 3] * 5)
    >>> ranker = cr.Oracle(model=cr.Trees(rounds=3, validation=0, min_weight=0)).fit(data).ranker_
    >>> type(ranker).__name__, ranker.predict([[float("nan")]]).shape
    ('TreeRanker', (1,))
    """

    kind = "trees"
    takes_missing = True
    content: bytes

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "content", checked_trees(self.content, len(self.feature_names)))

    def score_rows(self, table: NDArray[Any], offsets: IntArray | None = None, *, device: str | None = None) -> Floats:
        """The score of each row, block by block; queries do not matter."""
        del offsets
        scores = np.empty(len(table))
        for start, end in row_blocks(table, max(1, _BLOCK_VALUES // max(table.shape[1], 1))):
            block = _checked(table[start:end], start)
            if is_cpu(device):
                scores[start:end] = self.booster.inplace_predict(block, predict_type="margin")
            else:
                scores[start:end] = self._booster_on(device).predict(_engine().DMatrix(block), output_margin=True)
        return finite_scores(scores)

    @cached_property
    def booster(self) -> Any:
        """The engine with these trees, on the CPU."""
        return self._loaded()

    def _booster_on(self, device: str | None) -> Any:
        if device not in self._boosters:
            check_tree_device(device)
            self._boosters[device] = self._loaded(device=device)
        return self._boosters[device]

    @cached_property
    def _boosters(self) -> dict[str | None, Any]:
        """The engines on other devices."""
        return {}

    def _loaded(self, **settings: Any) -> Any:
        xgboost = _engine()
        made = xgboost.Booster({"nthread": fair_threads(available_cores()), "verbosity": 0, **settings})
        try:
            made.load_model(bytearray(self.content))
        except xgboost.core.XGBoostError as error:
            raise DataError(f"XGBoost {xgboost.__version__} cannot use these trees: {reason(error)}.") from None
        return made

    @cached_property
    def trees(self) -> list[dict[str, Any]]:
        """The trees as XGBoost describes them."""
        trees: list[dict[str, Any]] = json.loads(self.content)["learner"]["gradient_booster"]["model"]["trees"]
        return trees

    @property
    def n_splits(self) -> int:
        """How many splits all trees have."""
        return sum(child >= 0 for tree in self.trees for child in tree["left_children"])

    def importance(self) -> dict[str, float]:
        """The share of each feature that trees split by in the gain of all splits, the largest first."""
        gains = np.zeros(len(self.feature_names))
        for tree in self.trees:
            splits = np.array(tree["left_children"]) >= 0
            np.add.at(gains, np.array(tree["split_indices"])[splits], np.array(tree["loss_changes"])[splits])
        order = np.argsort(-gains, kind="stable")
        return {self.feature_names[at]: float(gains[at] / gains.sum()) for at in order if gains[at]}

    def to_state(self) -> tuple[Config, Weights]:
        """The engine's own file."""
        return {}, {_FILE: np.frombuffer(self.content, dtype=np.uint8)}

    @classmethod
    def from_state(cls, config: Config, weights: Weights, **parts: Any) -> Self:
        """The ranker with the trees of this file, which is parsed at once, so that a damaged one is refused here."""
        del config
        if weights.keys() != {_FILE}:
            raise DataError(f"a ranker of trees has {_FILE} and no arrays, not {some(weights) or 'nothing'}.")
        made = cls(content=weights[_FILE].tobytes(), **parts)
        made.booster  # noqa: B018
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("booster", "_boosters", "trees")}

    def _parts(self) -> list[str]:
        return [count(len(self.trees), "tree"), count(self.n_splits, "split")]


def _engine() -> Any:
    try:
        import xgboost
    except ImportError:
        raise MissingDependencyError("boosted trees need xgboost: pip install 'cldrank[trees]'.") from None
    return xgboost


def _checked(block: NDArray[Any], start: int) -> NDArray[np.float32]:
    """Some rows in float32; infinity is refused, missing values are not."""
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(block, dtype=np.float32)
    if np.isinf(values).any():
        row, column = (int(at[0]) for at in np.nonzero(np.isinf(values)))
        raise DataError(
            f"feature {column + 1} of row {start + row} (counted from 0) is {block[row, column]}, which float32 cannot "
            "hold; features must be finite, or NaN where they are missing."
        )
    return values


# -- files of trees ------------------------------------------------------------------------------------------------

Single = Annotated[float, msgspec.Meta(ge=-_LARGEST, le=_LARGEST)]
Child = Annotated[int, msgspec.Meta(ge=-1, lt=_ROOT)]
Index = Annotated[int, msgspec.Meta(ge=0, le=_ROOT)]
NoList = Annotated[list[int], msgspec.Meta(max_length=0)]


class _Part(msgspec.Struct, forbid_unknown_fields=True):
    """A part of a file as XGBoost writes it, its entries in XGBoost's order."""


class _Tree(_Part):
    base_weights: list[Single]
    categories: NoList
    categories_nodes: NoList
    categories_segments: NoList
    categories_sizes: NoList
    default_left: list[Literal[0, 1]]
    id: int
    left_children: list[Child]
    loss_changes: list[Single]
    parents: list[Index]
    right_children: list[Child]
    split_conditions: list[Single]
    split_indices: list[Index]
    split_type: list[Literal[0]]
    sum_hessian: list[Single]
    tree_param: dict[str, str]


class _Forest(_Part, kw_only=True):
    cats: dict[str, NoList] | msgspec.UnsetType = msgspec.UNSET  # XGBoost 3.0 does not write them
    gbtree_model_param: dict[str, str]
    iteration_indptr: list[int]
    tree_info: list[Literal[0]]
    trees: Annotated[list[_Tree], msgspec.Meta(min_length=1)]


class _Booster(_Part):
    model: _Forest
    name: Literal["gbtree"]


class _Objective(_Part):
    lambdarank_param: dict[str, Annotated[str, msgspec.Meta(pattern=r"^(mean|topk|[0-9]{1,10})\Z")]]
    name: Literal["rank:ndcg"]


class _Learner(_Part):
    attributes: Annotated[dict[str, str], msgspec.Meta(max_length=0)]
    feature_names: NoList
    feature_types: NoList
    gradient_booster: _Booster
    learner_model_param: dict[str, str]
    objective: _Objective


class _TreeFile(_Part):
    learner: _Learner
    version: tuple[Index, Index, Index]


def checked_trees(content: bytes, n_features: int) -> bytes:
    """The same trees, written anew; refused unless they are in all parts what the engine writes for `n_features`."""
    try:
        file = msgspec.json.decode(content, type=_TreeFile)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"the trees cannot be read: {shortened_text(str(error), 300)}.") from None
    forest, rounds = file.learner.gradient_booster.model, len(file.learner.gradient_booster.model.trees)
    sizes = {"boost_from_average": "0", "num_class": "0", "num_feature": str(n_features), "num_target": "1"}
    given = dict(file.learner.learner_model_param)
    if given.pop("base_score", "") not in ("[0E0]", "0E0") or given != sizes:
        raise DataError(f"the parameters of trees for {n_features} features cannot be {shortened(given)}.")
    if forest.gbtree_model_param != {"num_parallel_tree": "1", "num_trees": str(rounds)}:
        raise DataError(f"the parameters of {rounds} trees cannot be {shortened(forest.gbtree_model_param)}.")
    if len(forest.tree_info) != rounds or forest.iteration_indptr != list(range(rounds + 1)):
        raise DataError("each round must have a single tree.")
    for number, tree in enumerate(forest.trees):
        try:
            _check_tree(tree, number, n_features)
        except DataError as error:
            raise DataError(f"tree {number + 1}: {error}") from None
    return json.dumps(msgspec.to_builtins(file), separators=(",", ":"), allow_nan=False).encode()


def _check_tree(tree: _Tree, number: int, n_features: int) -> None:
    """Refuse inconsistent numbers, and nodes that form no tree: a parent comes before its two children."""
    size = len(tree.left_children)
    sizes = {"num_deleted": "0", "num_feature": str(n_features), "num_nodes": str(size), "size_leaf_vector": "1"}
    if tree.tree_param != sizes or not size or tree.id != number:
        raise DataError(f"its id or its parameters cannot be {number}, {shortened(tree.tree_param)}.")
    for name, values in msgspec.structs.asdict(tree).items():
        if isinstance(values, list) and len(values) != size and not name.startswith("categories"):
            raise DataError(f"{name} must be {size} numbers, not {len(values)}.")
    if max(tree.split_indices) >= n_features:
        raise DataError(f"it splits by feature {max(tree.split_indices) + 1} of {n_features}.")
    parents = [_ROOT, *[-1] * (size - 1)]
    for node, children in enumerate(zip(tree.left_children, tree.right_children, strict=True)):
        if children == (-1, -1):
            continue
        for child in children:
            if not node < child < size or parents[child] != -1:
                raise DataError(f"node {node} cannot have the child {child}; it must have two of its own, or none.")
            parents[child] = node
        if children[1] != children[0] + 1:  # the engine takes it for granted, and would score by other nodes
            raise DataError(f"node {node} cannot have the children {children}; they must be side by side.")
    if parents != tree.parents:
        raise DataError("its nodes do not have the parents that they name.")
