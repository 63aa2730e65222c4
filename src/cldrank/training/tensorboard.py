"""The log for TensorBoard, if one is wanted."""

from __future__ import annotations

from os import PathLike
from typing import Any, Self

from cldrank.errors import MissingDependencyError
from cldrank.training.settings import Epoch


class Board:
    """Writes the curves of a training to a folder, or nothing where no folder is named."""

    def __init__(self, folder: str | PathLike[str] | None, leads: bool = True) -> None:
        self._writer: Any = None
        if folder is None or not leads:
            return
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingDependencyError(
                "a TensorBoard log needs tensorboard: pip install 'cldrank[tensorboard]'."
            ) from None
        self._writer = SummaryWriter(str(folder))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, epoch: Epoch) -> None:
        """Add an epoch to the curves."""
        if self._writer is None:
            return
        self._writer.add_scalar("loss", epoch.loss, epoch.number)
        self._writer.add_scalar("learning rate", epoch.learning_rate, epoch.number)
        if epoch.validation is not None:
            self._writer.add_scalar("held-out concordance", epoch.validation, epoch.number)
        self._writer.flush()
