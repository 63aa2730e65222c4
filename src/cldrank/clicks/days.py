"""A folder of days: the cells of each day in a file of its own, and a window over them.

    cells/2026-11-14.parquet    the cells of that day, with the fingerprints of the log files that they come from
    cells/2026-11-15.parquet

A log file counts once, by its content: named again, it is left out before anything is counted. New files are added to
their days. A file that was counted and has other content now is refused, unless its days are to be rebuilt. Whatever
is changed is changed as a whole: a killed process leaves the folder as it was.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from cldrank.clicks.cell_kind import CellKind, joined_kind
from cldrank.clicks.log.paths import AGAIN, LogFile, Paths, frame_of, in_both, names_of
from cldrank.clicks.table import ClickTable
from cldrank.errors import CldrankWarning, DataError, Spelling, UsageError, setting, warn
from cldrank.files import clear_abandoned, holding, make_folder, recover_folder, replacing_folder
from cldrank.wording import count

if TYPE_CHECKING:
    from cldrank.clicks.aggregate import Aggregation
    from cldrank.data.dataset import RankingDataset

_NAME = re.compile(r"(\d{4}-\d{2}-\d{2})\.parquet")
_SPAN = re.compile(r"([1-9]\d{0,4})([dw])")
_REPLACE = Spelling("replace=True", "--replace")
_MOST_NAMED = 5  # days, in a message


@dataclass(frozen=True)
class DaysAdded:
    """What `DayFolder.add` did.

    counted     the log as it was counted: its account, its rejects, and the files that were left out
    written     the days that were written, with their cells
    removed     days of which a corrected log has no rows any more
    """

    counted: Aggregation
    written: Mapping[date, ClickTable] = field(default_factory=dict)
    removed: tuple[date, ...] = ()


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
    >>> {str(day): int(cells.clicks.sum()) for day, cells in days.add(log).written.items()}
    {'2026-11-14': 1, '2026-11-15': 1}
    >>> [file.name for file in days.add(log).counted.left_out]
    ['log.csv']
    >>> days.read(last="1d")
    ClickTable(1 query, 2 candidates, 2 shown at positions 1…2; 2 cells, 2 impressions, 1 click)
    >>> folder.cleanup()
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)

    @classmethod
    def is_one(cls, path: Any) -> TypeGuard[str | PathLike[str]]:
        """Whether a path is a folder with files of days that hold cells."""
        from cldrank.clicks.cell_file import is_cells

        if not isinstance(path, str | PathLike) or not str(path):
            return False
        return any(is_cells(file) for file in list(cls(path).files().values())[:1])

    def files(self) -> dict[date, Path]:
        """The file of each day, the first day first."""
        self._recover()
        if not self.path.is_dir():
            return {}
        named = ((_NAME.fullmatch(file.name), file) for file in sorted(self.path.iterdir()))
        return {as_day(found[1]): file for found, file in named if found}

    # -- reading -------------------------------------------------------------------------------------------------

    def read(
        self, dataset: RankingDataset | None = None, *, last: str | None = None, until: date | str | None = None
    ) -> ClickTable:
        """The cells of a window of days, added up, with a warning about days without a file.

        Cells of candidates that the dataset does not have, such as documents that were deleted meanwhile, are left out
        with a warning.

        last    how long the window is, such as "28d" or "4w"; None for all days
        until   its last day; None for the newest one there is
        """
        from cldrank.clicks.cell_file import load_cells

        return load_cells([self.files()[day] for day in self.window(last, until)], dataset, known_only=True)

    def window(self, last: str | None = None, until: date | str | None = None) -> list[date]:
        """The days of a window that there are, the first one first, with a warning about those that are missing."""
        there = list(self.files())
        self._check_there()
        if not there:
            raise DataError(f"{self.path} holds no days; add some with `cldrank clicks aggregate LOG --add-to`.")
        end = there[-1] if until is None else as_day(until)
        start = there[0] if last is None else _first_day(end, last)
        chosen = [day for day in there if start <= day <= end]
        if not chosen:
            asked = f"up to {end}" if last is None else f"from {start} to {end}"
            raise DataError(f"{self.path} has no day {asked}; its days go from {there[0]} to {there[-1]}.")
        length, known = (end - start).days + 1, set(chosen)
        missing = (day for at in range(length) if (day := start + timedelta(days=at)) not in known)
        if number := length - len(chosen):
            first = ", ".join(map(str, islice(missing, _MOST_NAMED)))  # a wrong date may be millennia away
            more = f" and {number - _MOST_NAMED:,} more" if number > _MOST_NAMED else ""
            warn(
                CldrankWarning(
                    f"{self.path}: of the {count(length, 'day')} from {start} to {end}, {number:,} "
                    f"{'is' if number == 1 else 'are'} missing: {first}{more}."
                )
            )
        return chosen

    # -- writing -------------------------------------------------------------------------------------------------

    def add(
        self,
        paths: Paths,
        dataset: RankingDataset | None = None,
        *,
        day: date | str | None = None,
        again: bool = False,
        replace: bool = False,
        **options: Any,
    ) -> DaysAdded:
        """Count the log files that are new, and add them to their days.

        day       the day of all rows; by default that of each row's timestamp, in UTC
        again     count files that were counted before once more
        replace   rebuild the days of these files, from these files alone: all files of such a day must be named
        options   those of `cldrank.clicks.aggregate.aggregate`
        """
        from cldrank.clicks.aggregate import aggregate

        if again and replace:
            raise UsageError("{} and {} exclude each other.", setting("again"), setting("replace"))
        self._check()
        _check_known(paths, again)
        described = self._described()
        earlier = {day: sources for day, (_, sources) in described.items()}
        known = [one for sources in earlier.values() for one in sources]
        days = True if day is None else as_day(day)
        options |= {"again": again, "counted": () if replace else known, "days": days}
        counted = aggregate(paths, dataset, **options)
        rebuilt = self._rebuilt(earlier, counted.clicks.sources, counted.days) if replace else set()
        removed = tuple(sorted(rebuilt - counted.days.keys()))
        if counted.days:
            kept = [(str(self.file(one)), kind) for one, (kind, _) in described.items() if one not in rebuilt]
            try:
                joined_kind([*kept, ("the log", counted.clicks.kind)])
            except DataError as error:
                raise DataError(f"{error.message} To count a day again, use {{}}.", *error.words, _REPLACE) from None
        make_folder(self.path)
        with holding(self.path.resolve().parent):
            if self._described() != described:
                raise DataError(f"{self.path} was changed by another process while the log was counted; run it again.")
            cells = dict(counted.days)
            for one in cells.keys() & earlier.keys() if not replace else ():
                cells[one] = ClickTable.merged([ClickTable.read(self.file(one)), cells[one]], again=again)
            self._save(cells, removed)
        return DaysAdded(counted, cells, removed)

    def write(self, cells: Mapping[date, ClickTable], removed: Sequence[date] = ()) -> None:
        """Put the cells of some days in the place of what is there, and remove others: all of it, or nothing."""
        self._check()
        make_folder(self.path)
        with holding(self.path.resolve().parent):
            self._save(cells, removed)

    def forget(self, keep: str) -> list[date]:
        """Delete the days before the last ones, such as "90d", counted back from the newest day; gives those."""
        self._check()
        self._check_there()
        there = list(self.files())
        if not there:
            raise DataError(f"{self.path} holds no days; there is nothing to forget.")
        start = _first_day(there[-1], keep)
        old = [day for day in there if day < start]
        with holding(self.path.resolve().parent):
            self._save({}, old)
        return old

    def sources(self) -> dict[date, tuple[LogFile, ...]]:
        """The log files that went into each day."""
        return {day: sources for day, (_, sources) in self._described().items()}

    def _described(self) -> dict[date, tuple[CellKind, tuple[LogFile, ...]]]:
        """How each day was counted, and from which log files."""
        from cldrank.clicks.cell_file import describe_cells

        return {day: describe_cells(file) for day, file in self.files().items()}

    def _rebuilt(
        self, earlier: Mapping[date, Sequence[LogFile]], named: Sequence[LogFile], days: Mapping[date, ClickTable]
    ) -> set[date]:
        """The days that hold any of the named files, or will; refused if such a day holds another file as well."""
        found = set()
        for day, sources in earlier.items():
            again = [one for one in sources if in_both(named, [one]) or any(new.is_changed(one) for new in named)]
            if not again and day not in days:
                continue
            found.add(day)
            others = [one for one in sources if one not in again]
            if others:
                raise DataError(
                    "{} also holds {}, which would be lost; name all files of that day, or delete {} first.",
                    self.file(day),
                    names_of(others),
                    self.file(day),
                )
        return found

    def _save(self, cells: Mapping[date, ClickTable], removed: Sequence[date] = ()) -> None:
        """Write some days: all of them, or none; and clear away what a killed process left."""
        clear_abandoned(self.path)
        if len(cells) + len(removed) < 2:
            for day, table in cells.items():
                table.save(self.file(day))
            for day in removed:
                self.file(day).unlink(missing_ok=True)
            return
        with replacing_folder(self.path) as temporary:
            for day, file in self.files().items():
                if day not in cells and day not in removed:
                    _link(file, temporary / file.name)
            for day, table in cells.items():
                table.save(temporary / self.file(day).name)

    def _check(self) -> None:
        """Refuse a folder with anything else in it: files that are written here replace what was there."""
        from cldrank.clicks.cell_file import is_cells

        self._recover()
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"{self.path} is a file; name a folder of days.")
        foreign = [file.name for file in self.path.iterdir()] if self.path.is_dir() else []
        foreign = sorted(name for name in foreign if not _NAME.fullmatch(name) and not name.startswith("."))
        if foreign:
            raise UsageError(
                f"{self.path} holds {foreign[0]!r}; a folder of days holds files such as 2026-11-15.parquet and "
                "nothing else. Name another folder."
            )
        for file in self.files().values():
            if not is_cells(file):
                raise UsageError(f"{file} does not hold cells, so {self.path} is not a folder of days; name another.")

    def _check_there(self) -> None:
        if not self.path.exists():
            raise UsageError(f"{self.path}: no such folder of days.")

    def _recover(self) -> None:
        """Bring back a folder that a process was replacing when it was killed."""
        if not os.path.lexists(self.path):
            recover_folder(os.path.realpath(self.path))

    def file(self, day: date) -> Path:
        """The file of a day, whether it is there or not."""
        return self.path / f"{day.isoformat()}.parquet"


def _check_known(paths: Paths, again: bool) -> None:
    """Refuse a frame that could not be told from others, so that each call would count it once more."""
    from cldrank.data.frames import is_lazy

    frame = frame_of(paths)
    if frame is not None and not again and is_lazy(frame.frame):
        raise UsageError(
            "{} is yet to be computed, so whether it was counted before cannot be known; compute it first, or set {} "
            "if it is new.",
            frame,
            AGAIN,
        )


def as_day(value: date | str) -> date:
    """A day from a text such as 2026-11-15, or from a time of that day.

    >>> as_day("2026-11-15"), as_day(datetime(2026, 11, 15, 23, 59))
    (datetime.date(2026, 11, 15), datetime.date(2026, 11, 15))
    """
    try:
        if isinstance(value, datetime):  # which is a date too, but neither written nor compared like one
            return date(value.year, value.month, value.day)  # a missing one of pandas has no year
        return value if isinstance(value, date) else date.fromisoformat(value)
    except (TypeError, ValueError):
        raise UsageError(f"a day is written as 2026-11-15, not {value!r}.") from None


def n_days(span: str) -> int:
    """The length of a window in days.

    >>> n_days("28d"), n_days("4w")
    (28, 28)
    """
    found = _SPAN.fullmatch(span) if isinstance(span, str) else None
    if not found:
        raise UsageError(f"a window is a number of days or weeks, such as 28d or 4w, not {span!r}.")
    return int(found[1]) * (7 if found[2] == "w" else 1)


def _first_day(end: date, span: str) -> date:
    """The first day of a window that ends with a day."""
    return end - timedelta(days=min(n_days(span) - 1, (end - date.min).days))


def refuse_window(path: Any, last: str | None, until: date | str | None) -> None:
    """Refuse a window over anything but a folder of days."""
    if last is not None or until is not None:
        raise UsageError(
            "{} and {} choose from a folder of days, which {} is not; make one with {}.",
            setting("last"),
            setting("until"),
            path,
            Spelling("DayFolder.add", "`cldrank clicks aggregate LOG --add-to FOLDER/`"),
        )


def _link(file: Path, target: Path) -> None:
    """The same file under another name; a copy where the file system has no links."""
    try:
        os.link(file, target)
    except OSError:
        shutil.copy2(file, target)
