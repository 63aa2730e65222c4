"""From targets to boosted trees: the loss, the split, the rounds, and the ranker that the trees become."""

from __future__ import annotations

import math
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.errors import ConvergenceWarning, DataError, warn
from cldrank.host import available_cores
from cldrank.models.checkpoint import Checkpoint, digest_of
from cldrank.models.fit import Context, Fit, trained_fit
from cldrank.models.pairs import PairLoss, PairTable, Slopes
from cldrank.models.run import Epoch, Run
from cldrank.models.trees.boosting import ROUNDS_TOGETHER, TreeEngine, page_folder
from cldrank.models.trees.feature_rules import FeatureRules
from cldrank.rankers.devices import check_tree_device, is_cpu
from cldrank.rankers.tree_ranker import TreeRanker
from cldrank.wording import count
from cldrank.workers import fair_threads

if TYPE_CHECKING:
    from cldrank.models.targets import Observations, Targets, Unshown
    from cldrank.models.trees.device_loss import DeviceLoss
    from cldrank.models.trees.tree_model import Trees


_TREES = "trees"
Loss: TypeAlias = "PairLoss | ScoreLoss | DeviceLoss"
Status = Literal["completed", "early_stopped", "interrupted"]


def fit_targets(model: Trees, targets: Targets, context: Context) -> Fit:
    """Boost on pairs within a query in the order of their targets."""
    return _boosted(model, PairTable.of_targets(targets), context)


def fit_pairs(model: Trees, observed: Observations, context: Context, *, unshown: Unshown) -> Fit:
    """Boost on CLD's pairs, all of them; relevance alone explains selection.

    ω is 0: a linear selection, fitted first and held fixed, ranked no better.
    """
    return _boosted(model, PairTable.of_observations(observed, unshown), context)


def fit_scores(model: Trees, targets: Targets, context: Context) -> Fit:
    """Boost on squared errors, row by row; `held` says which queries chose the rounds."""
    starts = np.flatnonzero(np.diff(targets.queries, prepend=-1))
    learned, held = split(model, len(starts), context.run.seed)
    held_queries = targets.queries[starts[held]]
    loss = ScoreLoss(targets, np.isin(targets.queries, held_queries))
    fit = _grown(model, targets.rows, loss, targets[1:], context, (len(learned), len(held)))
    return fit.keeping(held=held_queries)


def _boosted(model: Trees, table: PairTable, context: Context) -> Fit:
    """Boost on the pairs of a table."""
    if not len(table):
        raise DataError(
            f"no query has a candidate preferred to another; {context.user} with {model.label} learns from such "
            "pairs: it needs queries with several shown candidates that were clicked unequally often."
        )
    learned, held = split(model, len(table), context.run.seed)
    loss = pair_loss(model, table, learned, held, context.run)
    decisive = (*table.arrays, table.mixed)
    return _grown(model, table.rows, loss, decisive, context, (len(learned), len(held)))


def _grown(
    model: Trees,
    rows: IntArray,
    loss: Loss,
    decisive: tuple[NDArray[Any], ...],
    context: Context,
    queries: tuple[int, int],
) -> Fit:
    """Boost on a loss of the scores of some rows.

    decisive   the arrays that, with rows, features and parameters, decide the course of boosting
    queries    how many were learned from, and how many were held out
    """
    features, run, rules = context.data.features, context.run, FeatureRules.of(model, context.data)
    threads = fair_threads(available_cores())
    with page_folder(features, rows, run.device) as pages:
        engine = TreeEngine(features, rows, model, rules, run, threads, context.user, pages)
        checkpoint = Checkpoint.of(run, lambda: _digest(rows, decisive, context))
        status, history, content = grow_trees(loss, engine, model, run, checkpoint)
    names, trees = context.data.feature_names, rules.as_numbers(content)
    ranker = TreeRanker(content=trees, feature_names=names, provenance=context.provenance)
    if status == "interrupted":
        done, kept = count(len(history), "round"), count(len(ranker.trees), "round")
        warn(ConvergenceWarning(f"{context.user} was interrupted after {done}; the ranker is that of {kept}."))
    if not ranker.n_splits:
        warn(
            ConvergenceWarning(
                f"{context.user} found no split worth making, so that all candidates score alike; lower `min_weight`, "
                "or learn from more queries."
            )
        )
    return trained_fit(context, ranker, status, history, queries)


def pair_loss(model: Trees, table: PairTable, learned: IntArray, held: IntArray, run: Run) -> Loss:
    """The loss of pairs, computed where the trees are grown."""
    if is_cpu(run.device) or find_spec("torch") is None:
        return PairLoss(table, learned, fair_threads(available_cores()), model.loss, held)
    check_tree_device(run.device)
    from cldrank.models.trees.device_loss import DeviceLoss

    return DeviceLoss(table, learned, str(run.device), model.loss, held)


def split(model: Trees, count: int, seed: int) -> tuple[IntArray, IntArray]:
    """The queries to learn from, and those held out: even two of twenty choose the rounds better than none."""
    held = np.sort(np.random.default_rng([seed, 7]).permutation(count)[: int(model.validation * count)])
    return np.setdiff1d(np.arange(count), held), held


class ScoreLoss:
    """The mean squared error of scores, row by row."""

    def __init__(self, targets: Targets, is_held: NDArray[np.bool_]) -> None:
        self._targets, self._is_held = targets, is_held
        self._hessian = np.where(is_held, 0.0, targets.weight).astype(np.float32)

    def at(self, scores: NDArray[np.float32]) -> Slopes:
        """Half the derivatives at the score of each row; preferences are not looked at."""
        gradient = (self._hessian * (scores - self._targets.target)).astype(np.float32)
        held = self._error(scores, self._is_held) if self._is_held.any() else None
        return Slopes(gradient, self._hessian, self._error(scores, ~self._is_held), held)

    def _error(self, scores: NDArray[np.float32], rows: NDArray[np.bool_]) -> float:
        return float(np.average((scores - self._targets.target)[rows] ** 2, weights=self._targets.weight[rows]))


def _digest(rows: IntArray, arrays: tuple[NDArray[Any], ...], context: Context) -> str:
    """A digest of what decides the course of boosting; more rounds or more patience only carry it on."""
    decisive = context.decisive("model__rounds", "model__patience")
    identity = {"features": context.data.feature_names, "seed": int(context.run.seed), **decisive}
    some = context.data.features[rows[:: max(1, len(rows) // 1000)]]
    return digest_of({"method": context.user, **identity}, rows, *arrays, some)


# -- the rounds ------------------------------------------------------------------------------------------------------


def grow_trees(
    loss: Loss, engine: TreeEngine, model: Trees, run: Run, checkpoint: Checkpoint
) -> tuple[Status, list[Epoch], bytes]:
    """Run all rounds, from the first or from where a checkpoint left off.

    They give how they ended, an `Epoch` for each, and the trees up to the least held-out loss as the engine's JSON.
    """
    arrays, restored = checkpoint.restore()
    history = restored[: model.rounds]
    if not is_cpu(run.device):
        history = history[: len(history) // ROUNDS_TOGETHER * ROUNDS_TOGETHER]
    if history:
        engine.load(arrays[_TREES].tobytes(), len(history))
    status: Status = "completed"
    try:
        slopes = loss.at(engine.scores())
        for number in range(len(history) + 1, model.rounds + 1):
            if _impatient(model, history):
                status = "early_stopped"
                break
            start = time.perf_counter()
            engine.grow(slopes.gradient, slopes.hessian)
            slopes = loss.at(engine.scores())
            held_loss = slopes.held_loss
            seconds = time.perf_counter() - start
            least = min((epoch.held_loss for epoch in history if epoch.held_loss is not None), default=math.inf)
            best = held_loss is None or held_loss < least
            rate = float(model.learning_rate)
            history = [*history, Epoch(number, slopes.loss, slopes.agreed, rate, seconds, best, held_loss)]
            if not len(history) % ROUNDS_TOGETHER:
                _save(engine, history, checkpoint)
            if run.on_epoch is not None:
                run.on_epoch(history[-1])
    except KeyboardInterrupt:
        if not history:
            raise
        status = "interrupted"
    if len(history) > len(restored):
        _save(engine, history, checkpoint)
    kept = max(epoch.number for epoch in history if epoch.best)
    return status, history, engine.saved(kept)


def _save(engine: TreeEngine, history: list[Epoch], checkpoint: Checkpoint) -> None:
    if checkpoint.path is not None:
        checkpoint.save({_TREES: np.frombuffer(engine.saved(len(history)), dtype=np.uint8)}, history)


def _impatient(model: Trees, history: list[Epoch]) -> bool:
    """Whether patience has run out."""
    if model.patience is None or not history or history[-1].held_loss is None:
        return False
    return len(history) - max(epoch.number for epoch in history if epoch.best) >= model.patience
