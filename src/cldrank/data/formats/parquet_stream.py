"""Parquet files of any size, block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cldrank.data import checks
from cldrank.data.checks import Missing
from cldrank.data.dataset import RankingDataset
from cldrank.data.formats.letor_rows import numbered_features
from cldrank.data.formats.parquet import read_parquet
from cldrank.data.formats.parquet_columns import ColumnNames, ParquetPart, Roles, check_same_ids
from cldrank.data.formats.parquet_rows import (
    BATCH_ROWS,
    check_rows,
    feature_block,
    id_array,
    id_runs,
    list_names,
    row_batches,
)
from cldrank.data.row_blocks import Documents, FeatureStream, RowBlock
from cldrank.errors import FormatError

_BLOCK_VALUES = 1 << 22  # of a block: 16 MiB
_BUFFER_BYTES = 1 << 16  # of a column


class ParquetStream(FeatureStream):
    """Parquet files, one or several parts, for a ranker that knows `wanted` features.

    Columns of just these features are read in the ranker's order, whatever theirs is.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        wanted: Sequence[str],
        *,
        columns: ColumnNames | None = None,
        missing: Missing = None,
    ) -> None:
        self.paths, self._columns, self._width = paths, columns, len(wanted)
        self._parts = [ParquetPart.open(path, _BUFFER_BYTES) for path in paths]
        roles = Roles.of(self._parts[0], columns)
        if not roles.is_list and roles.features != tuple(wanted) and sorted(roles.features) == sorted(wanted):
            roles = replace(roles, features=tuple(wanted))
            self._columns = {**(columns or {}), "features": list(wanted)}
        self._roles = roles
        self._ids = [column for column in (roles.query_id, roles.doc_id) if column is not None]
        for part in self._parts:
            roles.check(part)
            for column in self._ids:
                check_same_ids(self._parts[0], part, column)
        if not sum(part.rows for part in self._parts):
            raise FormatError("holds no rows.", path=self._parts[0].path)
        described = [part.description() for part in self._parts]
        saved_with_missing = any(one.get("has_missing", False) for one in described)
        self._missing = checks.KEEP if missing is None and saved_with_missing else missing
        self.feature_names = roles.features
        if roles.is_list:
            names = list_names(paths, described, self._width)
            self.feature_names = names or numbered_features(1, self._width)

    def blocks(self) -> Iterator[RowBlock]:
        """All rows."""
        rows = max(1, min(BATCH_ROWS, _BLOCK_VALUES // max(len(self.feature_names), 1)))
        for part in self._parts:
            row = 0
            for batch in row_batches(part, [*self._ids, *self._roles.features], rows):
                with checks.about(part.path):
                    block = self._block(part, row, batch.slice(0, part.rows - row).columns)
                row += len(block)
                yield block
            check_rows(part, row)

    def documents(self) -> Documents:
        """Whether there is a column of document ids."""
        return "none" if self._roles.doc_id is None else "named"

    def whole(self) -> RankingDataset:
        """All rows at once."""
        return read_parquet(self.paths, columns=self._columns, missing=self._missing)

    def _block(self, part: ParquetPart, row: int, columns: Sequence[Any]) -> RowBlock:
        ids = []
        for column, values in zip(self._ids, columns, strict=False):
            part.check_values(column, values, row)
            ids.append(part.plain_ids(column, values, row))
        run_rows, run_ids = id_runs(ids[0])
        features = feature_block(columns[len(ids) :], self._roles.is_list, part, row)
        if self._roles.is_list and features.shape[1] != self._width:
            raise FormatError(
                f"the list of features has {features.shape[1]} entries in row {row} (counted from 0); the ranker knows "
                f"{self._width}.",
                path=part.path,
            )
        features = checks.filled(features, self._missing)
        doc_ids = id_array(ids[1]) if len(ids) > 1 else None
        block = RowBlock(part.path, row, features, run_rows, run_ids, doc_ids)
        keep = self._missing == checks.KEEP
        checks.check_finite(features, self.feature_names, queries=(block.offsets, run_ids), keep=keep, first_row=row)
        return block
