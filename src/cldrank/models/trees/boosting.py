"""XGBoost, as far as boosting with derivatives of our own needs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.catalogue import cache_folder
from cldrank.errors import UsageError
from cldrank.files import scratch
from cldrank.host import spare_memory
from cldrank.models.run import Run
from cldrank.models.trees.feature_rules import FeatureRules
from cldrank.rankers.devices import check_tree_device, is_cpu
from cldrank.rankers.tree_ranker import checked_trees
from cldrank.reading import reason

if TYPE_CHECKING:
    from cldrank.models.trees.tree_model import Trees

ROUNDS_TOGETHER = 10  # a course of rounds can be taken up after any multiple of it
_BLOCK_VALUES = 1 << 24  # 64 MiB of float32: what is copied at a time where only some rows are needed, or are on disk
_FEWEST_VALUES = 1 << 20  # of such a block where memory is scarce
_BIN_BYTES = 2.5  # of a value: its bin by row and by column


class TreeEngine:
    """Trees under way on a quantised table of features, which lies in `pages` if there is such a folder."""

    def __init__(
        self,
        features: NDArray[np.float32],
        rows: IntArray,
        model: Trees,
        rules: FeatureRules,
        run: Run,
        threads: int,
        user: str,
        pages: Path | None = None,
    ) -> None:
        import xgboost

        self._n_features, self._rules = features.shape[1], rules
        self._settings = {
            "objective": "rank:ndcg",  # what engines that load the file know; the derivatives are ours
            "base_score": 0.0,
            "tree_method": "hist",
            "grow_policy": "lossguide",
            "max_depth": 0,
            "max_leaves": model.leaves,
            "max_bin": model.max_bin,
            "learning_rate": float(model.learning_rate),
            "min_child_weight": float(model.min_weight),
            "reg_lambda": float(model.l2),
            "colsample_bynode": float(model.column_share),
            "seed": int(run.seed) % 2**31,
            "seed_per_iteration": True,
            "nthread": threads,
            "device": "cpu" if run.device is None else run.device,
            "fail_on_invalid_gpu_id": True,
            "verbosity": 0,
            **rules.settings,
        }
        try:
            check_tree_device(run.device)
            self._matrix = _quantised(features, rows, model.max_bin, rules.types, threads, pages)
            self._booster: Any = xgboost.Booster(self._settings, [self._matrix])
        except xgboost.core.XGBoostError as error:
            raise UsageError(f"XGBoost cannot prepare the training data of {user}: {reason(error)}.") from None

    def scores(self) -> NDArray[np.float32]:
        """The scores of all rows by all trees so far."""
        scores: NDArray[np.float32] = self._booster.predict(self._matrix, output_margin=True, training=True)
        return scores

    def grow(self, gradient: NDArray[np.float32], hessian: NDArray[np.float32]) -> None:
        """Add a tree."""
        number = self._booster.num_boosted_rounds()
        if is_cpu(self._settings["device"]) or not number % ROUNDS_TOGETHER:  # on a GPU it takes a third of a round
            self._forget()
        self._booster.boost(self._matrix, iteration=number, grad=gradient, hess=hessian)

    def _forget(self) -> None:
        """Let the draws of columns begin anew, from seed and round, so that any round can be the first.

        The engine draws on from tree to tree as long as it keeps its updater; another method makes it give that up.
        """
        self._booster.set_param({"tree_method": "approx"})
        self._booster.save_config()
        self._booster.set_param({"tree_method": "hist"})

    def saved(self, rounds: int) -> bytes:
        """The first trees as the engine's JSON, by which `load` goes on."""
        return bytes(self._booster[:rounds].save_raw("json"))

    def load(self, content: bytes, rounds: int) -> None:
        """Go on from the first trees of what `saved` gave."""
        checked_trees(self._rules.as_numbers(content), self._n_features)
        self._booster.load_model(bytearray(content))
        if rounds < self._booster.num_boosted_rounds():
            self._booster.load_model(bytearray(self.saved(rounds)))
        self._booster.set_param(self._settings)


@contextmanager
def page_folder(features: Any, rows: IntArray, device: str | None) -> Iterator[Path | None]:
    """A folder for the bins of features, for as long as the block; None where memory can hold them.

    The bins are the same, and so are the trees. Only the CPU reads them from disk.
    """
    fits = len(rows) * features.shape[1] * _BIN_BYTES <= spare_memory()
    if not is_cpu(device) or fits:
        yield None
        return
    cache_folder().mkdir(parents=True, exist_ok=True)
    with scratch(cache_folder(), "bins") as folder:
        yield folder


def _quantised(
    features: Any, rows: IntArray, max_bin: int, types: list[str] | None, threads: int, pages: Path | None
) -> Any:
    """The rows with each value as the number of its bin, in pages on disk if there is a folder for them.

    Missing values stay missing. Bins do not depend on how many rows are given at a time.
    """
    import xgboost

    given = {"max_bin": max_bin, "nthread": threads, "enable_categorical": types is not None}
    whole = len(rows) == len(features)
    if whole and pages is None:
        return xgboost.QuantileDMatrix(np.ascontiguousarray(features), feature_types=types, **given)
    values = min(_BLOCK_VALUES, max(_FEWEST_VALUES, spare_memory() // 32))
    size = max(1, values // max(features.shape[1], 1))

    class RowBatches(xgboost.DataIter):
        start = 0

        def __init__(self) -> None:
            super().__init__(cache_prefix=None if pages is None else str(pages / "page"))

        def next(self, input_data: Any) -> bool:
            if self.start >= len(rows):
                return False
            span = slice(self.start, self.start + size)
            input_data(data=features[span] if whole else features[rows[span]], feature_types=types)
            self.start += size
            return True

        def reset(self) -> None:
            self.start = 0

    made = xgboost.QuantileDMatrix if pages is None else xgboost.ExtMemQuantileDMatrix
    return made(RowBatches(), **given)
