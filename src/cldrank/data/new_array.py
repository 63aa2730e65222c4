"""Arrays that are filled block by block: in memory while they are small, else in a memory-mapped `.npy` file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from cldrank._typing import IntArray
from cldrank.catalogue import cache_folder
from cldrank.data.checks import BLOCK_VALUES
from cldrank.errors import DataError
from cldrank.host import spare_memory

_KEPT_IN_MEMORY = 64 << 20  # bytes, of an array that is also kept in the cache
_HEADER_BYTES = 128  # of a `.npy` file


class NewArray:
    """An array that is filled block by block.

    width      of its rows; None for a flat array
    expected   how many rows there will be, if that is known: what will be large goes to its file at once
    folder     where its file is kept if it is large: `NAME.npy`. By default the file has no name and vanishes with the
               array, and large is what takes more than half of the memory that is free

    >>> numbers = NewArray("features", np.float32, width=2)
    >>> numbers.append(np.eye(2))
    >>> numbers.append([[3, 4]])
    >>> numbers.finish()
    array([[1., 0.], [0., 1.], [3., 4.]], dtype=float32)
    """

    def __init__(
        self, name: str, dtype: DTypeLike, *, width: int | None = None, expected: int = 0, folder: Path | None = None
    ) -> None:
        self._name, self._dtype, self._folder = name, np.dtype(dtype), folder
        self._row_shape = () if width is None else (width,)
        row_bytes = max(self._dtype.itemsize * (1 if width is None else width), 1)
        self._most_rows = (spare_memory() if folder is None else _KEPT_IN_MEMORY) // row_bytes
        self.rows, self._lent, self._expected = 0, 0, max(expected, 0)
        self._array = self._zeros(0 if self.is_large else self._expected)  # pages cost once they are used
        self._file: BinaryIO | None = None
        if folder is not None:
            (folder / f"{name}.npy").unlink(missing_ok=True)  # of an attempt before; who has mapped it keeps it

    @property
    def is_large(self) -> bool:
        """Whether the array is large enough to be kept in a file."""
        return max(self.rows, self._expected) > self._most_rows

    def lend(self, rows: int) -> NDArray[Any]:
        """Zeros for rows that are appended later, in the order of the loans: a part of the array if it has room."""
        start, self._lent = self._lent, self._lent + rows
        return self._array[start : self._lent] if self._lent <= len(self._array) else self._zeros(rows)

    def append(self, block: Any) -> None:
        """Add some rows."""
        values = np.ascontiguousarray(block, dtype=self._dtype)
        start, self.rows = self.rows, self.rows + len(values)
        if not self.is_large:
            if self.rows > len(self._array):
                room = (self.rows + self.rows // 4, *self._row_shape)
                self._array.resize(room, refcheck=False)  # in place where the system can; what was lent is appended
            place = self._array[start : self.rows]
            if place.ctypes.data != values.ctypes.data:  # else it was lent, and is there already
                place[...] = values
            return
        try:
            if self._file is None:
                self._file = self._new_file()
                self._file.write(bytes(_HEADER_BYTES))
                self._write(self._array[:start])
                self._array = self._zeros(0)
            self._write(values)
        except OSError as error:
            if self._file is not None:
                self._file.close()
            if self._folder is not None:
                raise  # who keeps an entry goes on without it
            raise DataError(
                f"the {self._name} take more than half of the free memory, and {cache_folder()} has no room for them "
                f"({error.strerror}); name a folder that has with the environment variable CLDRANK_CACHE."
            ) from error

    def finish(self) -> NDArray[Any]:
        """The array: in memory, or mapped read-only from its file."""
        shape = (self.rows, *self._row_shape)
        if self._file is None:
            self._array.resize(shape, refcheck=False)
            return self._array
        header = {"descr": self._dtype.str, "fortran_order": False, "shape": shape}
        with self._file as file:
            file.seek(0)
            np.lib.format.write_array_header_1_0(file, header)
            file.flush()
            return np.asarray(np.memmap(file, self._dtype, "r", _HEADER_BYTES, shape))

    def _zeros(self, rows: int) -> NDArray[Any]:
        return np.zeros((rows, *self._row_shape), dtype=self._dtype)

    def _write(self, values: NDArray[Any]) -> None:
        if self._file is not None and values.size:
            self._file.write(values.view(np.uint8).data)

    def _new_file(self) -> BinaryIO:
        if self._folder is not None:
            return (self._folder / f"{self._name}.npy").open("w+b")
        cache_folder().mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryFile(dir=cache_folder())


def chosen_rows(array: NDArray[Any], rows: IntArray | slice, folder: Path | None = None) -> NDArray[Any]:
    """Some rows of features; where these are many, block by block, so that a mapped array is not copied into memory.

    folder   where they are kept if they are large
    """
    step = max(1, BLOCK_VALUES // max(1, array[:1].size))
    if isinstance(rows, slice) or (len(rows) <= step and folder is None):
        return array[rows]
    chosen = NewArray("features", array.dtype, width=array.shape[1], expected=len(rows), folder=folder)
    for start in range(0, len(rows), step):
        chosen.append(array[rows[start : start + step]])
    return chosen.finish()
