"""Handing data to other processes: written down once, and mapped into the memory of each."""

from __future__ import annotations

import mmap
import pickle
from pathlib import Path
from typing import Any

import numpy as np

_ALIGNMENT = 64


class _Pickler(pickle.Pickler):
    """Leaves the content of arrays out, also of those that a file is mapped into, which pickle would copy."""

    def reducer_override(self, obj: Any) -> Any:
        return np.asarray(obj).__reduce_ex__(5) if type(obj) is np.memmap else NotImplemented


def write(thing: Any, folder: Path) -> None:
    """Write a thing into a folder: the content of its arrays to one file, everything else to another."""
    buffers: list[pickle.PickleBuffer] = []
    with (folder / "thing").open("wb") as file:
        _Pickler(file, protocol=5, buffer_callback=buffers.append).dump(thing)
    spans = []
    with (folder / "arrays").open("wb") as file:
        for buffer in buffers:
            file.write(bytes(-file.tell() % _ALIGNMENT))
            spans.append((file.tell(), buffer.raw().nbytes))
            file.write(buffer.raw())
        file.write(b"\0")  # an empty file cannot be mapped
    np.save(folder / "spans.npy", np.array(spans, dtype=np.int64).reshape(-1, 2))


def read(folder: Path) -> Any:
    """Read what `write` wrote; its arrays lie in the file, cannot be changed, and are shared by all who read it."""
    with (folder / "arrays").open("rb") as file:
        whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    buffers = [whole[start : start + size] for start, size in np.load(folder / "spans.npy").tolist()]
    with (folder / "thing").open("rb") as file:
        return pickle.load(file, buffers=buffers)  # noqa: S301 - our own file, in a folder of this search
