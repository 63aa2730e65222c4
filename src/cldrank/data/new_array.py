"""Arrays that are filled block by block: in memory while they are small, else in a memory-mapped `.npy` file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from cldrank._typing import IntArray
from cldrank.catalogue.folders import cache_folder
from cldrank.data.checks import BLOCK_VALUES
from cldrank.errors import DataError
from cldrank.memory import machine_memory, return_freed_memory

_KEPT_IN_MEMORY = 64 << 20  # bytes, of an array that is also kept in the cache
_HEADER_BYTES = 128  # of a `.npy` file


class NewArray:
    """An array that is filled block by block.

    width      of its rows; None for a flat array
    expected   how many rows there will be, if that is known: what will be large goes to its file at once
    folder     where its file is kept if it is large: `NAME.npy`. By default the file has no name and vanishes with the
               array, and large is what takes more than half of the memory that is free
    on_disk    whether it goes to a file whatever its size

    >>> numbers = NewArray("features", np.float32, width=2)
    >>> numbers.append(np.eye(2))
    >>> numbers.append([[3, 4]])
    >>> numbers.finish()
    array([[1., 0.], [0., 1.], [3., 4.]], dtype=float32)
    """

    def __init__(
        self,
        name: str,
        dtype: DTypeLike,
        *,
        width: int | None = None,
        expected: int = 0,
        folder: Path | None = None,
        on_disk: bool = False,
    ) -> None:
        self._name, self._dtype, self._folder = name, np.dtype(dtype), folder
        self._row_shape = () if width is None else (width,)
        free = machine_memory(free=True)
        most = _KEPT_IN_MEMORY if folder is not None else (4 << 30 if free is None else free) // 2
        self._most_rows = -1 if on_disk else most // max(self._dtype.itemsize * (1 if width is None else width), 1)
        self._blocks: list[NDArray[Any]] = []
        self._file: BinaryIO | None = None
        self.rows, self._expected = 0, expected
        if folder is not None:
            (folder / f"{name}.npy").unlink(missing_ok=True)  # of an attempt before; who has mapped it keeps it
        elif self.is_large:
            return_freed_memory()

    @property
    def is_large(self) -> bool:
        """Whether it goes to a file."""
        return max(self.rows, self._expected) > self._most_rows

    def append(self, block: Any) -> None:
        """Add some rows."""
        values = np.ascontiguousarray(block, dtype=self._dtype)
        self.rows += len(values)
        self._blocks.append(values)
        if not self.is_large:
            return
        try:
            if self._file is None:
                self._file = self._new_file()
                self._file.write(bytes(_HEADER_BYTES))
            for waiting in self._blocks:
                self._file.write(waiting.view(np.uint8).data if waiting.size else b"")
        except OSError as error:
            if self._file is not None:
                self._file.close()
            if self._folder is not None:
                raise  # who keeps an entry goes on without it
            raise DataError(
                f"the {self._name} take more than half of the free memory, and {cache_folder()} has no room for them "
                f"({error.strerror}); name a folder that has with the environment variable CLDRANK_CACHE."
            ) from error
        self._blocks = []

    def finish(self) -> NDArray[Any]:
        """The array: a new one in memory, or one that is mapped from its file, read-only."""
        shape = (self.rows, *self._row_shape)
        if self._file is None:
            return self._joined(shape)
        header = {"descr": self._dtype.str, "fortran_order": False, "shape": shape}
        with self._file as file:
            file.seek(0)
            np.lib.format.write_array_header_1_0(file, header)
            file.flush()
            return np.asarray(np.memmap(file, self._dtype, "r", _HEADER_BYTES, shape))

    def _joined(self, shape: tuple[int, ...]) -> NDArray[Any]:
        """All blocks as one array; each is let go as soon as it is copied."""
        array = np.empty(shape, dtype=self._dtype)
        start = 0
        self._blocks.reverse()
        while self._blocks:
            block = self._blocks.pop()
            array[start : start + len(block)] = block
            start += len(block)
        return array

    def _new_file(self) -> BinaryIO:
        if self._folder is not None:
            return (self._folder / f"{self._name}.npy").open("w+b")
        cache_folder().mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryFile(dir=cache_folder())


def chosen_rows(array: NDArray[Any], rows: IntArray | slice, folder: Path | None = None) -> NDArray[Any]:
    """Some rows of features; where these are many, block by block, so that a mapped array is not copied into memory.

    folder   where they are kept if they are large

    >>> chosen_rows(np.array([[1.0], [2.0], [3.0]], dtype=np.float32), np.array([2, 0]))
    array([[3.], [1.]], dtype=float32)
    """
    step = max(1, BLOCK_VALUES // max(1, array[:1].size))
    if isinstance(rows, slice) or (len(rows) <= step and folder is None):
        return array[rows]
    chosen = NewArray("features", array.dtype, width=array.shape[1], expected=len(rows), folder=folder)
    for start in range(0, len(rows), step):
        chosen.append(array[rows[start : start + step]])
    return chosen.finish()
