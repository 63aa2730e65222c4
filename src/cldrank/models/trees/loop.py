"""Boosting, round by round: one tree on the derivatives at the scores so far."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cldrank._typing import IntArray
from cldrank.errors import CldrankError
from cldrank.models.checkpoint import Checkpoint
from cldrank.models.network.tensorboard import Board
from cldrank.models.run import Epoch, Run
from cldrank.models.trees.engine import TreeEngine
from cldrank.models.trees.model import Trees
from cldrank.models.trees.pairs import PairLoss, PairTable, judged_pairs

_EVERY = 10  # rounds between two checkpoints
_TREES = "trees"
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
    checkpoint: Checkpoint,
) -> Grown:
    """All rounds, from the first or from where a checkpoint left off; those up to the least held-out loss are kept."""
    restored = _restored(engine, checkpoint)
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
                if not len(history) % _EVERY:
                    _save(engine, history, checkpoint)
                board.write(history[-1])
                if run.on_epoch is not None:
                    run.on_epoch(history[-1])
        except KeyboardInterrupt:
            if not history:
                raise
            status = "interrupted"
    if len(history) > len(restored):
        _save(engine, history, checkpoint)
    best = max(epoch.number for epoch in history if epoch.best)
    return Grown(status, tuple(history), best, engine.saved(best))


def _restored(engine: TreeEngine, checkpoint: Checkpoint) -> list[Epoch]:
    """The rounds so far, with the engine as it was."""
    arrays, history = checkpoint.restore()
    if not history:
        return []
    if arrays.keys() != {_TREES}:
        raise checkpoint.damaged("it does not hold trees")
    try:
        engine.load(arrays[_TREES].tobytes())
    except CldrankError as error:
        raise checkpoint.damaged(str(error)) from None
    if engine.n_rounds != len(history):
        raise checkpoint.damaged("its trees are not those of its history")
    return history


def _save(engine: TreeEngine, history: list[Epoch], checkpoint: Checkpoint) -> None:
    if checkpoint.path is not None:
        checkpoint.save({_TREES: np.frombuffer(engine.saved(len(history)), dtype=np.uint8)}, history)


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
