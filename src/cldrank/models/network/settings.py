"""`Training`: how the training loop goes about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from os import PathLike
from typing import Any, Literal, get_args

from cldrank.errors import UsageError

Schedule = Literal["cosine", "linear", "constant"]
Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class Epoch:
    """What is known after an epoch: the mean loss, and how well held-out preferences are ordered (None: none are held).

    `best` says whether it is kept, so far: whether it is not surely worse than the best.
    """

    number: int
    loss: float
    validation: float | None
    learning_rate: float
    seconds: float
    best: bool


@dataclass(frozen=True)
class Training:
    """How a network is trained, beyond the parameters that every neural estimator has of its own.

    batch_queries    queries of a step; None for a 64th of them, at least 8 and at most 128
    schedule         of the learning rate, after `warmup` (a share of all steps): "cosine" or "linear" to 0, "constant"
    clip_norm        the largest norm of a gradient; None for any
    validation       share of the queries held out; their clicks, corrected like those learned from, choose the epoch:
                     the last one that is not worse than the best by two standard errors of the difference
    patience         stop after so many epochs without a better one; None to go through all
    list_size        longer lists of candidates are cut at random into lists of at most so many
    precision        "bfloat16" for mixed precision in the network
    resident         whether scaled features are held on the device; None for where they fit
    graph            whether steps are recorded as CUDA graphs; None for where they can be
    checkpoint       a file that holds the state after each epoch
    resume           go on from that file, to the same result as without a break
    tensorboard      a folder for TensorBoard
    on_epoch         called with an `Epoch` after each; an exception that it raises ends the training

    The last four do not decide what is learned; they are left out of the text form, and so out of what a ranker says of
    its origin.

    >>> Training(batch_queries=64, tensorboard="curves")
    Training(batch_queries=64)
    """

    batch_queries: int | None = None
    schedule: Schedule = "cosine"
    warmup: float = 0.05
    clip_norm: float | None = 1.0
    validation: float = 0.1
    patience: int | None = None
    list_size: int = 128
    precision: Precision = "float32"
    resident: bool | None = None
    graph: bool | None = None
    checkpoint: str | PathLike[str] | None = field(default=None, compare=False)
    resume: bool = field(default=False, compare=False)
    tensorboard: str | PathLike[str] | None = field(default=None, compare=False)
    on_epoch: Callable[[Epoch], None] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _whole("list_size", self.list_size, 2)
        for name in ("batch_queries", "patience"):
            if getattr(self, name) is not None:
                _whole(name, getattr(self, name), 1)
        _between("warmup", self.warmup, 0, 1)
        _between("validation", self.validation, 0, 0.9)
        if self.clip_norm is not None:
            _between("clip_norm", self.clip_norm, 1e-12, float("inf"))
        for name, known in (("schedule", get_args(Schedule)), ("precision", get_args(Precision))):
            if getattr(self, name) not in known:
                choices = ", ".join(map(repr, known))
                raise UsageError(f"{name} must be one of {choices}, not {getattr(self, name)!r}.")
        if self.patience is not None and not self.validation:
            raise UsageError("patience waits for a better epoch on held-out queries, and validation=0 holds none out.")
        if self.resume and self.checkpoint is None:
            raise UsageError("resume=True needs the checkpoint to resume from.")

    def __repr__(self) -> str:
        decides = [entry for entry in fields(self) if entry.compare]
        changed = [entry for entry in decides if getattr(self, entry.name) != entry.default]
        return f"Training({', '.join(f'{entry.name}={getattr(self, entry.name)!r}' for entry in changed)})"


def _whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 1 << 31:
        raise UsageError(f"{name} must be a whole number of at least {least} and below 2³¹, not {value!r}.")


def _between(name: str, value: Any, least: float, most: float) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not least <= value <= most:
        raise UsageError(f"{name} must be a number between {least:g} and {most:g}, not {value!r}.")
