"""`Run`: where and how a fit is computed. What it says changes a ranker by chance and rounding alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

from cldrank.errors import UsageError
from cldrank.parameters import Value, parameter, parameters, value, with_role


@dataclass(frozen=True)
class Epoch:
    """Progress after an epoch: the mean loss, and how well held-out preferences are ordered (None: none are
    held out, or scores are learned).

    `best` says whether it is kept so far: of a network, whether it is not significantly worse than the best; of boosted
    trees, whose epochs are rounds, whether `held_loss`, the mean loss of held-out preferences, is the least.

    >>> import cldrank as cr
    >>> run = cr.Run(on_epoch=lambda epoch: print(epoch.number, epoch.loss))
    """

    number: int
    loss: float
    validation: float | None
    learning_rate: float
    seconds: float
    best: bool
    held_loss: float | None = None


@value
class Run(Value):
    """How a fit is run: seed, device, memory, checkpoints.

    >>> Run(seed=3, checkpoint="state")
    Run(seed=3)
    """

    seed: int = parameter(default=0, about="the same seed gives the same ranker", least=0)
    device: str | None = parameter(default=None, about="where to fit: cpu, or cuda for a GPU", role="device")
    block_rows: int | None = parameter(
        default=None,
        about="rows of a block in linear fits; by default what suits the machine",
        least=1,
        option=False,
        role="blocks",
    )
    resident: bool | None = parameter(
        default=None, about="hold scaled features on the device; by default where they fit", option=False, role="torch"
    )
    checkpoint: str | PathLike[Any] | None = parameter(
        default=None, about="file for the state of training, written as it goes on", compare=False, role="resume"
    )
    resume: bool = parameter(default=False, about="continue from the checkpoint", compare=False, role="resume")
    on_epoch: Callable[[Epoch], None] | None = parameter(
        default=None,
        about="called with an Epoch after each; what it raises ends the fit",
        compare=False,
        option=False,
        role="log",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.resume and self.checkpoint is None:
            raise UsageError("`resume` needs the checkpoint to resume from; name it with `checkpoint`.")

    def without(self, *roles: str) -> Run:
        """The same run with the parameters of some roles at their defaults.

        >>> Run(checkpoint="state").without("resume").checkpoint
        """
        declared = parameters(Run)
        return replace(self, **{name: declared[name].default for name in with_role(Run, *roles)})
