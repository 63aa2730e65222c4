"""`cldrank clicks`: from raw click logs to cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cldrank.cli import clicks_audit, clicks_import, log_options, options
from cldrank.cli.derived import with_options
from cldrank.cli.output import (
    check_parquet_name,
    console,
    new_table,
    print_json,
    print_line,
    print_title,
    save_table,
    say,
    working,
)
from cldrank.errors import UsageError
from cldrank.wording import count, some

if TYPE_CHECKING:
    from cldrank.clicks.aggregate import Account, Aggregation
    from cldrank.clicks.table import ClickTable

app = typer.Typer(no_args_is_help=True, help="Turn click logs into cells, look at cells, audit logs.")
app.command("audit")(clicks_audit.audit)
app.command("import")(clicks_import.import_log)


@dataclass(frozen=True)
class Target:
    """Where the cells go."""

    out: Annotated[
        Path | None,
        options.spelled(
            "--out -o FILE", "The Parquet file of cells to write; with --add-to FILE, that file by default.",
            show_default=False,
        ),
    ] = None  # fmt: skip
    add_to: Annotated[
        str | None,  # a path would lose the slash at its end
        options.spelled(
            "--add-to FILE|FOLDER/",
            "Add the counts to these cells, or to a folder with a file of cells per day, which is made if need be. "
            "Log files that are in already are left out.",
            show_default=False,
        ),
    ] = None
    day: Annotated[
        str | None,
        options.spelled(
            "--day DAY", "With a folder of days: all rows are of this day. [default: by timestamp, in UTC]",
            show_default=False,
        ),
    ] = None  # fmt: skip
    replace: Annotated[
        bool,
        options.spelled("--replace", "With a folder of days: rebuild the days of these files, from these files alone."),
    ] = False
    again: Annotated[
        bool, options.spelled("--again", "Count files even if they are named twice, or went into --add-to already.")
    ] = False

    @property
    def is_folder(self) -> bool:
        """Whether cells are added to a folder of days."""
        return self.earlier is not None and (self._names_folder or not self.earlier.suffix)

    @property
    def earlier(self) -> Path | None:
        """The cells to add to, in a file or a folder."""
        return None if self.add_to is None else Path(self.add_to)

    @property
    def _names_folder(self) -> bool:
        return self.add_to is not None and (self.add_to.endswith("/") or Path(self.add_to).is_dir())

    def checked(self) -> Path:
        """The file or folder to write; what does not fit together is refused."""
        if self.earlier is not None and not self._names_folder and self.earlier.suffix not in ("", ".parquet", ".pq"):
            raise UsageError(
                f"--add-to {self.add_to}: cells are kept in a .parquet file, or in a folder of days, named as "
                f"{self.add_to}/."
            )
        if self.is_folder and self.out is not None:
            raise UsageError(f"--add-to {self.add_to} writes into that folder of days; leave --out out.")
        if not self.is_folder and (self.day or self.replace):
            spelled = "--day" if self.day else "--replace"
            raise UsageError(f"{spelled} is for a folder of days; name one with --add-to FOLDER/.")
        target = self.out or self.earlier
        if target is None:
            raise UsageError("name the file of cells to write with --out, or the cells to add to with --add-to.")
        if not self.is_folder:
            check_parquet_name(target)
        return target


@app.command()
@with_options
def aggregate(
    source: log_options.LogOptions,
    target: Target,
    features: options.OptionalFeatures = None,
    every_click: Annotated[
        bool, options.spelled("--every-click", "Count each click on a result in a session, not just one.")
    ] = False,
    segment: Annotated[
        str | None,
        options.spelled(
            "--segment COLUMN",
            "Count by the values of this column, such as devices or layouts, each with a curve of its own.",
        ),
    ] = None,
    rejects: Annotated[
        Path | None, options.spelled("--rejects FILE", "Write the rows set aside, with reasons, to this Parquet file.")
    ] = None,
    max_rejected: Annotated[
        float, options.spelled("--max-rejected", "Fail if a larger share of rows has to be set aside.", min=0, max=1)
    ] = 0.05,
    as_json: options.Json = False,
) -> None:
    """Aggregate impression logs to cells: how often each candidate was shown at each position, and clicked.

    A log is Parquet, CSV or JSON Lines, perhaps a partitioned folder, with columns session_id, query_id, doc_id,
    position (from 1) and clicked, or one row per page with documents and clicked_positions; other layouts are described
    under Reading files, and what is found out about them is printed. Rows that cannot be right are set aside, counted
    and reported, never silently dropped.

    With `--add-to`, the same command can be run again: log files that are in already are left out.

    Example: `cldrank clicks aggregate logs/ --features train.parquet --out cells.parquet`

    Example: `cldrank clicks aggregate logs/2026-11-15/ --add-to cells/`
    """
    from cldrank.clicks.aggregate import TooManyRejectsError

    to = target.checked()
    if rejects is not None:
        check_parquet_name(rejects)
    options.check_outputs([None if target.is_folder else to, rejects], [*source.log, *(features or [])])
    dataset = options.load_features(features)
    counting = {
        **source.reading(),
        "every_click": every_click,
        "segment": segment,
        "max_rejected": max_rejected,
        "again": target.again,
    }
    try:
        with working(f"aggregating {', '.join(source.log)} …"):
            added = (_add_days if target.is_folder else _add)(to, target, source.log, dataset, counting)
    except TooManyRejectsError as error:
        if rejects:
            save_table(error.rejects, rejects)
            say(f"the rows set aside: {rejects}")
        say(str(error.account))
        raise
    if rejects:
        save_table(added.counted.rejects, rejects)
    if as_json:
        print_json(added.as_dict())
    else:
        added.print(rejects)


@dataclass(frozen=True)
class Added:
    """What came of a log: how it was counted, and the files of cells that were written."""

    to: Path
    counted: Aggregation
    written: Mapping[Path, ClickTable]
    removed: tuple[Path, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For programs; a single file of cells is described as `clicks show` does."""
        known: dict[str, Any] = {"out": str(self.to), "log": _account(self.counted.account)}
        known["left_out"] = [one.place for one in self.counted.left_out]
        if len(self.written) == 1 and self.to in self.written:
            return {**known, **_summary(self.written[self.to])}
        days = {str(file): _totals(cells) for file, cells in self.written.items()}
        return {**known, "written": days, "removed": [str(file) for file in self.removed]}

    def print(self, rejects: Path | None) -> None:
        """In words."""
        left_out, account = self.counted.left_out, self.counted.account
        if left_out:
            print_line(f"already in {self.to}, left out: {some(one.place for one in left_out)}")
        if account.rows:
            console.print(str(account), markup=False, soft_wrap=True)
        if account.rejected and rejects:
            console.print(f"the rows set aside: {rejects}", markup=False)
        elif account.rejected:
            say("Write them to a file with --rejects FILE.")
        for file, cells in self.written.items():
            print_line(f"wrote {file}: {cells!r}")
        for file in self.removed:
            print_line(f"removed {file}: the log has no rows of that day any more")
        if not self.written and not self.removed:
            print_line(f"{self.to} is as it was")


def _add(out: Path, target: Target, log: list[str], dataset: Any, counting: dict[str, Any]) -> Added:
    """Count a log, and write a file of cells, perhaps with earlier cells."""
    from cldrank.clicks.aggregate import aggregate as run
    from cldrank.clicks.table import ClickTable

    if target.earlier is None:
        found = run(log, dataset, **counting)
        found.clicks.save(out)
        return Added(out, found, {out: found.clicks})
    absent = not target.earlier.exists() and target.out is None
    earlier = None if absent else ClickTable.read(target.earlier, dataset)  # the first day makes the file
    found = run(log, dataset, **counting, counted=() if earlier is None else earlier.sources)
    if not found.account.rows and target.out is None:
        return Added(out, found, {})
    cells = found.clicks if earlier is None else earlier.merge(found.clicks, again=target.again)
    cells.save(out)
    return Added(out, found, {out: cells})


def _add_days(to: Path, target: Target, log: list[str], dataset: Any, counting: dict[str, Any]) -> Added:
    """Count a log by day, and add it to a folder of days."""
    from cldrank.clicks.days import DayFolder

    folder = DayFolder(to)
    found = folder.add(log, dataset, day=target.day, replace=target.replace, **counting)
    written = {folder.file(day): cells for day, cells in sorted(found.written.items())}
    return Added(to, found.counted, written, tuple(map(folder.file, found.removed)))


@app.command()
def forget(
    cells: Annotated[Path, typer.Argument(help="A folder of days.", show_default=False)],
    keep: Annotated[
        str,
        options.spelled(
            "--keep DAYS", "How many days to keep, counted back from the newest: 90d, say.", show_default=False
        ),
    ],
    as_json: options.Json = False,
) -> None:
    """Delete the days of a folder that are older than you want to keep. Nothing else ever deletes days.

    Example: `cldrank clicks forget cells/ --keep 90d`
    """
    from cldrank.clicks.days import DayFolder

    folder = DayFolder(cells)
    gone = folder.forget(keep)
    if as_json:
        print_json({"cells": str(cells), "deleted": [day.isoformat() for day in gone], "kept": len(folder.files())})
    else:
        print_line(f"deleted {some(gone)}" if gone else "there is nothing older")
        print_line(f"{cells} holds {count(len(folder.files()), 'day')}")


@app.command()
@with_options
def show(
    cells: Annotated[Path, typer.Argument(help="A file of cells, or a folder of days.", show_default=False)],
    window: log_options.Window,
    features: options.OptionalFeatures = None,
    as_json: options.Json = False,
) -> None:
    """Show what a file of cells holds: impressions, clicks and click-through rate by position.

    Example: `cldrank clicks show cells.parquet`
    """
    from cldrank.clicks.cells_file import is_cells
    from cldrank.clicks.days import DayFolder
    from cldrank.clicks.table import ClickTable
    from cldrank.errors import DataError

    if not cells.exists():
        raise UsageError(f"{cells}: no such file.")
    if not is_cells(cells) and not DayFolder.is_one(cells):
        raise DataError(f"{cells} does not hold cells; make some with `cldrank clicks aggregate`.")
    table = ClickTable.read(cells, options.load_features(features), **window.window())
    summary = _summary(table)
    if as_json:
        print_json({"cells": str(cells), **summary})
        return
    console.print(repr(table), markup=False)
    parts = {name: part["positions"] for name, part in summary.get("segments", {}).items()}
    for name, positions in (parts or {"": summary["positions"]}).items():
        if name:
            print_title(name)
        shown = new_table("position", "impressions", "clicks", "click rate")
        for at in positions:
            shown.add_row(f"{at['position']}", f"{at['impressions']:,}", f"{at['clicks']:,}", f"{at['click_rate']:.4f}")
        console.print(shown)


def _totals(table: ClickTable) -> dict[str, int]:
    counts = {"impressions": table.impressions, "clicks": table.clicks}
    return {"cells": table.n_cells, **{name: int(values.sum()) for name, values in counts.items()}}


def _summary(table: ClickTable) -> dict[str, Any]:
    """Counts in all, by position, and by segment where there are any."""
    found = {
        "queries": table.n_queries,
        "queries_shown": int((table.query_impressions > 0).sum()),
        "candidates": table.candidates.n_rows,
        "candidates_shown": int(table.shown.sum()),
        "cells": table.n_cells,
        "impressions": int(table.impressions.sum()),
        "clicks": int(table.clicks.sum()),
        "sources": [source.name for source in table.sources],
        "positions": _positions(table),
    }
    if table.has_segments:
        found["segments"] = {
            name: {
                "pages": int(part.query_impressions.sum()),
                "impressions": int(part.impressions.sum()),
                "clicks": int(part.clicks.sum()),
                "positions": _positions(part),
            }
            for name, part in table.by_segment().items()
        }
    return found


def _positions(table: ClickTable) -> list[dict[str, Any]]:
    import numpy as np

    impressions = np.bincount(table.position, table.impressions, table.depth + 1)
    clicks = np.bincount(table.position, table.clicks, table.depth + 1)
    return [
        {
            "position": position,
            "impressions": int(impressions[position]),
            "clicks": int(clicks[position]),
            "click_rate": clicks[position] / impressions[position],
        }
        for position in range(1, table.depth + 1)
        if impressions[position]
    ]


def _account(account: Account) -> dict[str, Any]:
    return {
        "rows": account.rows,
        "set_aside": account.n_rejected,
        "share_set_aside": account.share_rejected,
        "reasons": dict(account.rejected),
        "found": list(account.found),
        "seconds": round(account.seconds, 3),
    }
