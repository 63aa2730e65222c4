"""A folder of days: the cells of each day in a file of its own, such as 2026-11-14.parquet, and a window over them.

A log file counts once, by its content. A file that was counted and has other content now is refused. To forget a day,
or to count it anew, delete its file. Several days are written together or not at all: a killed process leaves the
folder as it was.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from cldrank.clicks.cells_file import describe_cells, is_cells, load_cells
from cldrank.clicks.log.log_files import LogFile
from cldrank.clicks.table import ClickTable, check_segments
from cldrank.errors import CldrankWarning, DataError, UsageError, warn
from cldrank.files import holding, make_folder, recover_folder, replacing_folder
from cldrank.tables import is_frame
from cldrank.tables.frames import frame_name
from cldrank.wording import count

if TYPE_CHECKING:
    from cldrank.clicks.aggregate import Aggregation
    from cldrank.data.dataset import RankingDataset

_NAME = re.compile(r"(\d{4}-\d{2}-\d{2})\.parquet")
_SPAN = re.compile(r"([1-9]\d{0,4})([dw])")
_MOST_NAMED = 5  # days, in a message


class DayFolder:
    r"""A folder with the cells of each day.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> log = Path(folder.name) / "log.csv"
    >>> _ = log.write_text(
    ...     "session_id,query_id,doc_id,position,clicked,timestamp\n"
    ...     "1,shoes,a,1,0,2026-11-14T23:59:58Z\n1,shoes,b,2,1,2026-11-14T23:59:58Z\n"
    ...     "2,shoes,a,1,1,2026-11-15T08:00:00Z\n2,shoes,b,2,0,2026-11-15T08:00:00Z\n"
    ... )
    >>> days = DayFolder(Path(folder.name) / "cells")
    >>> {str(day): int(cells.clicks.sum()) for day, cells in days.add(log).days.items()}
    {'2026-11-14': 1, '2026-11-15': 1}
    >>> [file.name for file in days.add(log).left_out]
    ['log.csv']
    >>> days.read(last="1d")
    ClickTable(1 query, 2 candidates, 2 shown at positions 1…2; 2 cells, 2 impressions, 1 click)
    >>> folder.cleanup()
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)

    @classmethod
    def is_one(cls, path: Any) -> TypeGuard[str | PathLike[str]]:
        """Whether a path is a folder of days, each a file of cells."""
        if not isinstance(path, str | PathLike) or not str(path):
            return False
        return any(is_cells(file) for file in list(cls(path).files().values())[:1])

    def files(self) -> dict[date, Path]:
        """The file of each day, the first day first; a folder whose replacement was cut short is brought back."""
        if not os.path.lexists(self.path):
            recover_folder(os.path.realpath(self.path))
        if not self.path.is_dir():
            return {}
        named = ((_NAME.fullmatch(file.name), file) for file in sorted(self.path.iterdir()))
        return {as_day(match[1]): file for match, file in named if match}

    # -- reading -------------------------------------------------------------------------------------------------

    def read(
        self,
        dataset: RankingDataset | None = None,
        *,
        last: str | None = None,
        until: date | str | None = None,
        event_weights: Mapping[str, float] | None = None,
    ) -> ClickTable:
        """The cells of a window of days, added up, with a warning about days without a file.

        Cells of candidates that the dataset does not have, such as documents that were deleted meanwhile, are left out
        with a warning.

        last    how long the window is, such as "28d" or "4w"; None for all days
        until   its last day; None for the newest day there is
        event_weights   in place of those that the days were counted with
        """
        files = [self.files()[day] for day in self.window(last, until)]
        return load_cells(files, dataset, known_only=True, event_weights=event_weights)

    def window(self, last: str | None = None, until: date | str | None = None) -> list[date]:
        """The days of a window that have files, in order, with a warning about those that have none."""
        there = self._days()
        end = there[-1] if until is None else as_day(until)
        start = there[0] if last is None else end - timedelta(days=min(n_days(last) - 1, (end - date.min).days))
        chosen = [day for day in there if start <= day <= end]
        if not chosen:
            asked = f"up to {end}" if last is None else f"from {start} to {end}"
            raise DataError(f"{self.path} has no day {asked}; its days go from {there[0]} to {there[-1]}.")
        length, known = (end - start).days + 1, set(chosen)
        missing = (day for at in range(length) if (day := start + timedelta(days=at)) not in known)
        if number := length - len(chosen):
            first = ", ".join(map(str, islice(missing, _MOST_NAMED)))  # a wrong date may be millennia away
            more = f" and {number - _MOST_NAMED:,} more" if number > _MOST_NAMED else ""
            are = "is" if number == 1 else "are"
            days = f"of the {count(length, 'day')} from {start} to {end}, {number:,} {are} missing"
            warn(CldrankWarning(f"{self.path}: {days}: {first}{more}."))
        return chosen

    # -- writing -------------------------------------------------------------------------------------------------

    def add(self, paths: Any, dataset: RankingDataset | None = None, **options: Any) -> Aggregation:
        """Count the log files that are new, and add them to the days of their timestamps, in UTC.

        The options are those of `cldrank.clicks.aggregate.aggregate`. The result has the cells of the days as they are
        now, as far as they were written.
        """
        from cldrank.clicks.aggregate import aggregate

        if is_frame(paths):
            raise UsageError(
                f"a folder of days knows logs by their files; save {frame_name(paths)} as a file, and add that."
            )
        self._check()
        described = self._described()
        known = [source for _, sources in described.values() for source in sources]
        counted = aggregate(paths, dataset, **options, counted=known, days=True)
        if counted.days:
            kept = [(str(self.file(day)), has_segments) for day, (has_segments, _) in described.items()]
            check_segments([*kept, ("the log", counted.clicks.has_segments if counted.clicks.n_cells else None)])
        make_folder(self.path)
        with holding(self.path.resolve().parent):
            if self._described() != described:
                raise DataError(f"{self.path} was changed by another process while the log was counted; run it again.")
            cells = dict(counted.days)
            for day in cells.keys() & described.keys():
                cells[day] = ClickTable.merged([load_cells(self.file(day)), cells[day]])
            self._save(cells)
        return replace(counted, days=cells)

    def sources(self) -> dict[date, tuple[LogFile, ...]]:
        """The log files that went into each day."""
        return {day: sources for day, (_, sources) in self._described().items()}

    def _described(self) -> dict[date, tuple[bool | None, tuple[LogFile, ...]]]:
        """Whether each day has segments, and its log files."""
        return {day: describe_cells(file) for day, file in self.files().items()}

    def _save(self, cells: Mapping[date, ClickTable]) -> None:
        """Write some days, all of them or none, and clear away what a killed process left."""
        recover_folder(os.path.realpath(self.path))
        if len(cells) < 2:
            for day, table in cells.items():
                table.save(self.file(day))
            return
        with replacing_folder(self.path) as temporary:
            for day, file in self.files().items():
                if day not in cells:
                    try:
                        os.link(file, temporary / file.name)
                    except OSError:  # the file system has no links
                        shutil.copy2(file, temporary / file.name)
            for day, table in cells.items():
                table.save(temporary / self.file(day).name)

    def _check(self) -> None:
        """Refuse a folder with anything else in it: files that are written here replace what was there."""
        days = self.files()
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"{self.path} is a file; name a folder of days.")
        there = [file.name for file in self.path.iterdir()] if self.path.is_dir() else []
        cells = [file.name for file in days.values() if is_cells(file)]
        foreign = sorted(name for name in there if name not in cells and not name.startswith("."))
        if foreign:
            raise UsageError(
                f"{self.path} holds {foreign[0]!r}; a folder of days holds files of cells such as 2026-11-15.parquet "
                "and nothing else. Name another folder."
            )

    def _days(self) -> list[date]:
        """The days of the folder, in order; refused if it has none."""
        there = list(self.files())
        if not self.path.exists():
            raise UsageError(f"{self.path}: no such folder of days.")
        if not there:
            raise DataError(f"{self.path} holds no days; add some with `cldrank clicks aggregate LOG --add-to`.")
        return there

    def file(self, day: date) -> Path:
        """The path of a day's file, which need not exist."""
        return self.path / f"{day.isoformat()}.parquet"


def as_day(value: date | str) -> date:
    """A day from a text such as 2026-11-15, or from a time of that day."""
    try:
        if isinstance(value, datetime):  # a subclass of date, but written and compared differently
            return date(value.year, value.month, value.day)  # NaT of pandas has no year
        return value if isinstance(value, date) else date.fromisoformat(value)
    except (TypeError, ValueError):
        raise UsageError(f"a day is written as 2026-11-15, not {value!r}.") from None


def n_days(span: str) -> int:
    """The length of a window in days."""
    match = _SPAN.fullmatch(span) if isinstance(span, str) else None
    if not match:
        raise UsageError(f"a window is a number of days or weeks, such as 28d or 4w, not {span!r}.")
    return int(match[1]) * (7 if match[2] == "w" else 1)


def refuse_window(path: Any, last: str | None, until: date | str | None) -> None:
    """Refuse a window over anything but a folder of days."""
    if last is not None or until is not None:
        raise UsageError(
            f"`last` and `until` choose from a folder of days, which {path} is not; make one with `cldrank clicks "
            "aggregate LOG --add-to FOLDER/`."
        )
