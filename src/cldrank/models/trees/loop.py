"""Boosting, round by round: one tree on the derivatives at the scores so far."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Literal

from cldrank._typing import IntArray
from cldrank.models.network.tensorboard import Board
from cldrank.models.run import Epoch, Run
from cldrank.models.trees.checkpoint import TreesCheckpoint
from cldrank.models.trees.engine import TreeEngine
from cldrank.models.trees.model import Trees
from cldrank.models.trees.pairs import PairLoss, PairTable, judged_pairs

Status = Literal["completed", "early_stopped", "interrupted"]


@dataclass(frozen=True, eq=False)
class Grown:
    """What boosting leaves: an `Epoch` for each round, and the trees up to the best one as the engine's JSON."""

    status: Status
    history: tuple[Epoch, ...]
    best_epoch: int
    content: bytes


def grow_trees(
    table: PairTable,
    held: IntArray,
    loss: PairLoss,
    engine: TreeEngine,
    model: Trees,
    run: Run,
    checkpoint: TreesCheckpoint,
) -> Grown:
    """All rounds, from the first or from where a checkpoint left off; those up to the least held-out loss are kept."""
    restored = checkpoint.restore(engine)
    history = restored[: model.rounds]
    status: Status = "completed"
    with Board(run.tensorboard) as board:
        try:
            slopes = loss.at(engine.scores())
            for number in range(len(history) + 1, model.rounds + 1):
                if _impatient(model, history):
                    status = "early_stopped"
                    break
                start = time.perf_counter()
                engine.grow(slopes.gradient, slopes.hessian)
                scores = engine.scores()
                slopes = loss.at(scores)
                found = judged_pairs(table, held, scores) if len(held) else (None, None)
                seconds = time.perf_counter() - start
                history = [*history, _epoch(number, slopes.loss, found, model, seconds, history)]
                checkpoint.save(engine, history)
                board.write(history[-1])
                if run.on_epoch is not None:
                    run.on_epoch(history[-1])
        except KeyboardInterrupt:
            if not history:
                raise
            status = "interrupted"
    if len(history) > len(restored):
        checkpoint.save(engine, history, last=True)
    best = max(epoch.number for epoch in history if epoch.best)
    return Grown(status, tuple(history), best, engine.saved(best))


def _epoch(
    number: int,
    loss: float,
    found: tuple[float | None, float | None],
    model: Trees,
    seconds: float,
    history: list[Epoch],
) -> Epoch:
    held_loss, agreed = found
    least = min((one.held_loss for one in history if one.held_loss is not None), default=math.inf)
    best = held_loss is None or held_loss < least
    return Epoch(number, loss, agreed, float(model.learning_rate), seconds, best, held_loss)


def _impatient(model: Trees, history: list[Epoch]) -> bool:
    """Whether patience has run out."""
    if model.patience is None or not history or history[-1].held_loss is None:
        return False
    return len(history) - max(epoch.number for epoch in history if epoch.best) >= model.patience
