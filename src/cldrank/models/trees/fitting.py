"""From targets to boosted trees: pairs, the split, the rounds, and the ranker that the trees become."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cldrank._typing import IntArray
from cldrank.errors import ConvergenceWarning, DataError, warn
from cldrank.models.checkpoint import Checkpoint, digest_of
from cldrank.models.fit import Context, TreesFit
from cldrank.models.trees.engine import TreeEngine, page_folder
from cldrank.models.trees.loop import Grown, grow_trees
from cldrank.models.trees.pairs import PairLoss, PairTable
from cldrank.rankers.trees import TreeRanker
from cldrank.wording import count
from cldrank.workers import available_cores, fair_threads

if TYPE_CHECKING:
    from cldrank.models.targets import PairSelection, Targets
    from cldrank.models.trees.model import Trees


def fit_targets(model: Trees, targets: Targets, context: Context) -> TreesFit:
    """Boost on pairs of one query in the order of their targets."""
    return TreesFit(**_boosted(model, PairTable.of_targets(targets), context))


def fit_pairs(model: Trees, problem: PairSelection, context: Context) -> TreesFit:
    """Boost on CLD's pairs."""
    share, ratio = float(problem.selection_weight), float(problem.unshown_ratio)
    return TreesFit(**_boosted(model, PairTable.of_observations(problem.observed, share, ratio), context))


def _boosted(model: Trees, table: PairTable, context: Context) -> dict[str, Any]:
    """Boost on the pairs of a table; what is known of the fit."""
    if not len(table):
        raise DataError(
            f"no query has one candidate preferred to another; {context.user} with {model.label} learns from such "
            "pairs: it needs queries with several shown candidates that were clicked unequally often."
        )
    features, run = context.data.features, context.run
    learned, held = split(model, len(table), run.seed)
    threads = fair_threads(available_cores())
    with page_folder(features, table.rows, run.device) as pages:
        engine = TreeEngine(features, table.rows, model, run, threads, context.user, pages)
        loss = PairLoss(table, learned, threads)
        checkpoint = Checkpoint.of(run, lambda: _digest(table, context))
        grown = grow_trees(table, held, loss, engine, model, run, checkpoint)
    ranker = TreeRanker(content=grown.content, feature_names=context.data.feature_names, provenance=context.provenance)
    _warn(grown, ranker, context.user)
    return {
        "ranker": ranker,
        "status": grown.status,
        "n_iter": len(grown.history),
        "history": grown.history,
        "best_epoch": grown.best_epoch,
        "n_queries": len(learned),
        "n_held": len(held),
        "held_target": context.target,
    }


def split(model: Trees, count: int, seed: int) -> tuple[IntArray, IntArray]:
    """The queries to learn from, and those held out: even two of twenty stop better than all rounds would do."""
    held = np.sort(np.random.default_rng([seed, 7]).permutation(count)[: int(model.validation * count)])
    return np.setdiff1d(np.arange(count), held), held


def _digest(table: PairTable, context: Context) -> str:
    """A digest of what decides the course of boosting; more rounds or more patience only carry it on."""
    given = context.provenance.parameters
    free = ("model__rounds", "model__patience")
    decisive = {name: value for name, value in given.items() if name not in free and name[:5] != "run__"}
    identity = {"features": context.data.feature_names, "seed": int(context.run.seed), **decisive}
    some = context.data.features[table.rows[:: max(1, len(table.rows) // 1000)]]
    arrays = (table.rows, table.order, table.offsets, table.ends, table.target, table.weight, table.mixed)
    return digest_of({"method": context.user, **identity}, *arrays, some)


def _warn(grown: Grown, ranker: TreeRanker, user: str) -> None:
    if grown.status == "interrupted":
        done, kept = count(len(grown.history), "round"), count(grown.best_epoch, "round")
        warn(ConvergenceWarning(f"{user} was interrupted after {done}; the ranker is that of {kept}."))
    if not ranker.n_splits:
        warn(
            ConvergenceWarning(
                f"{user} found no split worth making, so that all candidates score alike; lower `min_weight`, or "
                "learn from more queries."
            )
        )
