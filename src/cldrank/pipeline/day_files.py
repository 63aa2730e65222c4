"""A folder of days that follows a log: each file is counted by itself, and one that changed only touches its own days.

days/7c0e…/2026-11-15.parquet   the cells of a day; its sources are the files that have rows in it
days/7c0e….json                 every content that a file of the log has had, by its name

Files that were deleted stay counted. A file that has other content now, such as today's, is taken out of its days,
which are made anew from the other files that they hold.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from cldrank.clicks.aggregate import Aggregation, aggregate
from cldrank.clicks.days import DayFolder
from cldrank.clicks.log.paths import LogFile, existing, log_files
from cldrank.clicks.table import ClickTable
from cldrank.errors import DataError
from cldrank.files import make_folder, save_json
from cldrank.wording import count

Say = Callable[[str], None]


@dataclass
class FollowedLog:
    """A log, and the folder of days that is to follow it.

    paths     what names the log; its folders may be partitions, so its files are read from there
    names     its files, by the names under which they are known again
    options   how it is read: those of `cldrank.clicks.aggregate.aggregate`
    """

    days: DayFolder
    paths: list[str]
    names: Mapping[str, Path]
    options: Mapping[str, Any]
    rows: int = 0
    set_aside: int = 0
    counted_before: int = 0

    def count(self, say: Say = lambda _: None) -> list[date]:
        """Bring the days up to date; gives those that were written or removed."""
        found = log_files(existing(self.paths)).items()
        by_path = {path.absolute(): one for path, one in found if isinstance(path, Path)}
        here = {name: by_path[path.absolute()] for name, path in self.names.items() if path.absolute() in by_path}
        history = self._history()
        past, now = {_content(one) for one in self._counted()}, {_content(one) for one in here.values()}
        replaced = {content for name in here for content in history.get(name, ())} & past - now
        new = [one for one in here.values() if _content(one) not in past]
        self.counted_before = len(here) - len(new)
        kept = past | now
        known = {name: [one for one in contents if one in kept] for name, contents in history.items()}
        for name, one in here.items():
            known[name] = list(dict.fromkeys([*known.get(name, ()), _content(one)]))
        make_folder(self.days.path.parent)
        save_json(self._memory, {name: contents for name, contents in known.items() if contents})
        written = self._taken_out(replaced, here.values(), say)
        for number, one in enumerate(new, 1):
            say(f"counting {one.name}, {number} of {count(len(new), 'new file')}")
            written |= self._added(self._cells_of(one, here.values()))
        return sorted(written)

    def _taken_out(self, replaced: set[str], files: Collection[LogFile], say: Say) -> set[date]:
        """Make the days anew that held files which have other content now."""
        earlier = self.days.sources()
        touched = [day for day, sources in earlier.items() if any(_content(one) in replaced for one in sources)]
        others = {_content(one) for day in touched for one in earlier[day]} - replaced
        there = {_content(one): one for one in files}
        lost = [(day, one) for day in touched for one in earlier[day] if _content(one) in others - there.keys()]
        if lost:
            raise DataError(
                f"a file of {lost[0][0]} has changed, but that day also holds {lost[0][1].name}, which is not there "
                f"any more to count the day again; bring that file back, or delete {self.days.file(lost[0][0])}."
            )
        anew: dict[date, list[ClickTable]] = {day: [] for day in touched}
        for one in (there[content] for content in sorted(others)):
            say(f"counting {one.name} again, as it shares days with a file that has changed")
            for day, cells in self._cells_of(one, files).days.items():
                if day in anew:
                    anew[day].append(cells)
        if touched:
            merged = {day: ClickTable.merged(tables) for day, tables in anew.items() if tables}
            self.days.write(merged, [day for day in touched if day not in merged])
        return set(touched)

    def _added(self, counted: Aggregation) -> set[date]:
        cells, there = dict(counted.days), self.days.files()
        for day in cells.keys() & there.keys():
            cells[day] = ClickTable.merged([ClickTable.read(there[day]), cells[day]])
        self.days.write(cells)
        return set(cells)

    def _cells_of(self, file: LogFile, files: Collection[LogFile]) -> Aggregation:
        """One file by itself; the others are known by their content alone, as two may have the same name."""
        others = [replace(one, name="", folder="") for one in files if _content(one) != _content(file)]
        found = aggregate(self.paths, counted=others, days=True, **self.options)
        self.rows += found.account.rows
        self.set_aside += found.account.n_rejected
        return found

    def _counted(self) -> set[LogFile]:
        return {one for sources in self.days.sources().values() for one in sources}

    @property
    def _memory(self) -> Path:
        return self.days.path.with_suffix(".json")

    def _history(self) -> dict[str, list[str]]:
        """Every content of each file; the name of a file says it where that is lost."""
        try:
            found = json.loads(self._memory.read_text(encoding="utf-8"))
            return {str(name): [str(one) for one in contents] for name, contents in found.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            counted = self._counted()
            return {
                name: [_content(one) for one in counted if one.place == f"{path.resolve().parent.name}/{path.name}"]
                for name, path in self.names.items()
            }


def _content(file: LogFile) -> str:
    return f"{file.size}-{file.sha256}"
