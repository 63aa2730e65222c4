"""Rows of files that are never held as a whole: what a stream gives, block by block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.data.dataset import RankingDataset

Documents = Literal["none", "named", "single"]  # rows have no ids; have them; have them if none repeats in its query


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Some consecutive rows of a file.

    path        the file, or the one that the first row is from
    first_row   the place of the first row in that file, from 0
    features    (rows, features) float32
    run_rows    the first row of each run of rows of one query, within the block: 0 first
    run_ids     the query of each run, int64 or text; a run may go on in the next block
    doc_ids     (rows,) int64 or text, or None
    """

    path: Path
    first_row: int
    features: NDArray[np.float32]
    run_rows: IntArray
    run_ids: NDArray[Any]
    doc_ids: NDArray[Any] | None

    def __len__(self) -> int:
        return len(self.features)

    @property
    def offsets(self) -> IntArray:
        """Where each run begins and the last one ends."""
        return np.append(self.run_rows, len(self))

    def rows(self, start: int, stop: int) -> RowBlock:
        """Some of the rows."""
        runs = slice(
            int(np.searchsorted(self.run_rows, start, side="right")) - 1, int(np.searchsorted(self.run_rows, stop))
        )
        return RowBlock(
            self.path,
            self.first_row + start,
            self.features[start:stop],
            np.maximum(self.run_rows[runs] - start, 0),
            self.run_ids[runs],
            None if self.doc_ids is None else self.doc_ids[start:stop],
        )


class FeatureStream(ABC):
    """Files of candidates, read block by block in the order of their rows."""

    paths: Sequence[Path]
    feature_names: tuple[str, ...]

    @abstractmethod
    def blocks(self) -> Iterator[RowBlock]:
        """All rows; memory is bounded by the block."""

    @abstractmethod
    def documents(self) -> Documents:
        """Whether rows have document ids, which is known after the last block."""

    @abstractmethod
    def whole(self) -> RankingDataset:
        """All rows at once, those of a query together."""


def whole_queries(blocks: Iterator[RowBlock]) -> Iterator[RowBlock]:
    """The same rows in blocks that end where a query ends; memory is bounded by the block and the largest query."""
    held: list[RowBlock] = []
    for block in blocks:
        if held and str(held[-1].run_ids[-1]) != str(block.run_ids[0]):
            yield _joined(held)
            held = []
        cut = int(block.run_rows[-1])
        if cut:
            yield _joined([*held, block.rows(0, cut)])
            held = []
        held.append(block.rows(cut, len(block)))
    if held:
        yield _joined(held)


def _joined(blocks: list[RowBlock]) -> RowBlock:
    """Blocks as one; the run that one ends with goes on in the next."""
    if len(blocks) == 1:
        return blocks[0]
    first, starts = blocks[0], np.cumsum([0, *map(len, blocks)])
    run_rows = [first.run_rows, *(one.run_rows[1:] + start for one, start in zip(blocks[1:], starts[1:], strict=False))]
    return RowBlock(
        first.path,
        first.first_row,
        np.concatenate([one.features for one in blocks]),
        np.concatenate(run_rows),
        _ids([first.run_ids, *(one.run_ids[1:] for one in blocks[1:])]),
        _ids([one.doc_ids for one in blocks]),
    )


def _ids(parts: list[NDArray[Any] | None]) -> Any:
    """Ids of several blocks: text where they are not all whole numbers, nothing where some have none."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if len({part.dtype.kind for part in known}) > 1:
        known = [part.astype(np.str_) for part in known]
    return np.concatenate(known)
