"""The log for TensorBoard, if one is wanted."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from importlib import import_module
from os import PathLike
from typing import Any, BinaryIO, Self

from cldrank.errors import CldrankError, CldrankWarning, MissingDependencyError, warn
from cldrank.files import make_folder
from cldrank.models.run import Epoch


class Board:
    """Writes the curves of a training to a folder, or nothing where no folder is named.

    TensorBoard's own writer works in a thread, where nobody can catch what a full disk makes it raise. A training does
    not end for its curves: once they cannot be written, a warning says so.
    """

    def __init__(self, folder: str | PathLike[str] | None, leads: bool = True) -> None:
        self._file: BinaryIO | None = None
        if folder is None or not leads:
            return
        try:
            self._events: Any = import_module("tensorboard.compat.proto.event_pb2")
            self._summaries: Any = import_module("tensorboard.compat.proto.summary_pb2")
            records: Any = import_module("tensorboard.summary.writer.record_writer")
        except ImportError:
            raise MissingDependencyError(
                "a TensorBoard log needs tensorboard: pip install 'cldrank[tensorboard]'."
            ) from None
        name = f"events.out.tfevents.{time.time():017.6f}.{socket.gethostname()}.{os.getpid()}"
        self._path = make_folder(folder) / name
        try:
            self._file = self._path.open("wb")
            self._records = records.RecordWriter(self._file)
            self._add(file_version="brain.Event:2")
        except OSError as error:
            self._end()
            raise CldrankError(f"{self._path} cannot be written: {error.strerror}.") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def write(self, epoch: Epoch) -> None:
        """Add an epoch to the curves."""
        if self._file is None:
            return
        curves = {"loss": epoch.loss, "learning rate": epoch.learning_rate}
        curves |= {} if epoch.validation is None else {"held-out concordance": epoch.validation}
        curves |= {} if epoch.held_loss is None else {"held-out loss": epoch.held_loss}
        values = [self._summaries.Summary.Value(tag=tag, simple_value=value) for tag, value in curves.items()]
        try:
            self._add(step=epoch.number, summary=self._summaries.Summary(value=values))
        except OSError as error:
            self._end()
            warn(
                CldrankWarning(
                    f"{self._path} cannot be written: {error.strerror}. Training goes on; its curves end before "
                    f"epoch {epoch.number}."
                )
            )

    def _add(self, **content: Any) -> None:
        self._records.write(self._events.Event(wall_time=time.time(), **content).SerializeToString())
        self._records.flush()

    def _end(self) -> None:
        if self._file is not None:
            with suppress(OSError):  # what could not be written is tried once more
                self._file.close()
            self._file = None
