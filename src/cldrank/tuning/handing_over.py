"""Handing data to other processes: arrays are written down once, and mapped into the memory of each.

All else goes to a process with its arguments: a file that says what to build could be exchanged by whoever may write to
the folder, and would run as code.
"""

from __future__ import annotations

import io
import mmap
import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cldrank.errors import CldrankError

_ALIGNMENT = 64


class _Pickler(pickle.Pickler):
    """Leaves the content of arrays out, also of those that a file is mapped into, which pickle would copy."""

    def reducer_override(self, obj: Any) -> Any:
        return np.asarray(obj).__reduce_ex__(5) if type(obj) is np.memmap else NotImplemented


@dataclass(frozen=True)
class Handed:
    """A thing on its way: all but the content of its arrays, and where in which file that lies."""

    thing: bytes = field(repr=False)
    file: Path
    spans: tuple[tuple[int, int], ...] = field(repr=False)  # start and size of each array

    def take(self) -> Any:
        """The thing; its arrays lie in the file, cannot be changed, and are shared by all who take it."""
        with self.file.open("rb") as file:
            whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        buffers = [whole[start : start + size] for start, size in self.spans]
        return pickle.loads(self.thing, buffers=buffers)  # noqa: S301 - came with the arguments of this process


def hand_over(thing: Any, folder: Path) -> Handed:
    """Write the content of a thing's arrays into a folder; what is given can go to other processes."""
    buffers: list[pickle.PickleBuffer] = []
    frame = io.BytesIO()
    _Pickler(frame, protocol=5, buffer_callback=buffers.append).dump(thing)
    spans, path = [], folder / "arrays"
    try:
        with path.open("wb") as file:
            for buffer in buffers:
                file.write(bytes(-file.tell() % _ALIGNMENT))
                spans.append((file.tell(), buffer.raw().nbytes))
                file.write(buffer.raw())
            file.write(b"\0")  # an empty file cannot be mapped
    except OSError as error:
        raise CldrankError(
            f"{path} cannot be written: {error.strerror}. Several jobs share a copy of the data there; make room, or "
            "do with one job."
        ) from error
    return Handed(frame.getvalue(), path, tuple(spans))
