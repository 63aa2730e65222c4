"""`TreeRanker`: boosted trees, scored by XGBoost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.errors import DataError, MissingDependencyError
from cldrank.feature_blocks import row_blocks
from cldrank.rankers.base import Config, Ranker, Weights, finite_scores
from cldrank.rankers.devices import check_tree_device, is_cpu
from cldrank.rankers.explaining import Contributions, Importance
from cldrank.rankers.provenance import Provenance
from cldrank.rankers.tree_file import checked_trees, parsed_trees
from cldrank.reading import reason
from cldrank.wording import count, some
from cldrank.workers import available_cores, fair_threads

_FILE = "model.json"
_BLOCK_VALUES = 1 << 22


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TreeRanker(Ranker):
    """Boosted trees as XGBoost writes them in JSON; a score is the sum of one leaf of each tree.

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

    def score_rows(
        self,
        table: NDArray[Any],
        offsets: IntArray | None = None,
        *,
        block_rows: int | None = None,
        device: str | None = None,
    ) -> NDArray[np.float64]:
        """One score per row, block by block; queries do not matter."""
        del offsets
        predict = self._predictor(device)
        scores = np.empty(len(table))
        size = max(1, _BLOCK_VALUES // max(table.shape[1], 1)) if block_rows is None else block_rows
        for start, end in row_blocks(table, size):
            block = _checked(table[start:end], start)
            scores[start:end] = predict(block)
        return finite_scores(scores)

    def _predictor(self, device: str | None) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
        """What scores rows on a device."""
        if device is None or is_cpu(device):
            return partial(self.booster.inplace_predict, predict_type="margin")
        if device not in self._boosters:
            check_tree_device(device)
            self._boosters[device] = self._loaded(device=device)
        booster, matrix = self._boosters[device], _engine().DMatrix
        return lambda block: booster.predict(matrix(block), output_margin=True)

    @cached_property
    def _boosters(self) -> dict[str, Any]:
        """The engines on other devices."""
        return {}

    @cached_property
    def booster(self) -> Any:
        """The engine with these trees."""
        return self._loaded()

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
        parsed = parsed_trees(self.content, len(self.feature_names))
        found: list[dict[str, Any]] = parsed["learner"]["gradient_booster"]["model"]["trees"]
        return found

    @property
    def n_splits(self) -> int:
        """How many splits all trees have."""
        return sum(child >= 0 for tree in self.trees for child in tree["left_children"])

    def importance(self) -> Importance:
        """How much the trees rely on each feature."""
        width = len(self.feature_names)
        gain, cover, weight = np.zeros(width), np.zeros(width), np.zeros(width, dtype=np.int64)
        for tree in self.trees:
            splits = np.array(tree["left_children"]) >= 0
            features = np.array(tree["split_indices"])[splits]
            np.add.at(gain, features, np.array(tree["loss_changes"])[splits])
            np.add.at(cover, features, np.array(tree["sum_hessian"])[splits])
            np.add.at(weight, features, 1)
        return Importance(self.feature_names, gain, cover, weight)

    def contributions(self, table: NDArray[Any]) -> Contributions:
        """SHAP values of the trees (Lundberg and others 2020), in float32; the base is what no feature explains."""
        width = len(self.feature_names)
        values, base = np.empty((len(table), width)), np.empty(len(table))
        for start, end in row_blocks(table, max(1, _BLOCK_VALUES // max(width, 1))):
            block = _engine().DMatrix(_checked(table[start:end], start))
            found = self.booster.predict(block, pred_contribs=True)
            values[start:end], base[start:end] = found[:, :-1], found[:, -1]
        return Contributions(self.feature_names, values, base)

    def to_state(self) -> tuple[Config, Weights]:
        """The engine's own file."""
        return {}, {_FILE: np.frombuffer(self.content, dtype=np.uint8)}

    @classmethod
    def from_state(
        cls, config: Config, weights: Weights, *, feature_names: tuple[str, ...], provenance: Provenance
    ) -> Self:
        """The ranker with the trees of this file, which are loaded at once, so that what is wrong shows now."""
        del config
        if weights.keys() != {_FILE}:
            raise DataError(f"a ranker of trees has {_FILE} and no arrays, not {some(weights) or 'nothing'}.")
        made = cls(content=weights[_FILE].tobytes(), feature_names=feature_names, provenance=provenance)
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
        found = np.ascontiguousarray(block, dtype=np.float32)
    if np.isinf(found).any():
        row, column = (int(at[0]) for at in np.nonzero(np.isinf(found)))
        raise DataError(
            f"feature {column + 1} of row {start + row} (counted from 0) is {block[row, column]}, which float32 cannot "
            "hold; features must be finite, or NaN where they are missing."
        )
    return found
