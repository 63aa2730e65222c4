"""`cldrank clicks`: from raw click logs to cells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cldrank.cli import options
from cldrank.cli.commands import argument, declared, group_of, option
from cldrank.cli.option_names import as_options, columns_by
from cldrank.cli.options import of_reading
from cldrank.cli.output import (
    check_parquet_name,
    console,
    print_json,
    print_line,
    print_warning,
    save_table,
    say,
    working,
)
from cldrank.cli.show import cells_summary, cells_totals
from cldrank.errors import UsageError
from cldrank.files import check_writable, save_text
from cldrank.wording import count, some

if TYPE_CHECKING:
    from cldrank.clicks.aggregate import Aggregation
    from cldrank.clicks.table import ClickTable

BLOCKED = 3  # the exit code of a log that should not be trained on


# -- raw logs ------------------------------------------------------------------------------------------------------


@declared
class RawRows(options.ComputePlace):
    """What holds for the rows of a raw log and the records of an import alike."""

    memory_limit: str = of_reading("SIZE", "Spill to disk beyond this; Spark: driver memory.", "3GB")
    first_position: int | None = of_reading(
        "0|1", "The number of the top position. [default: 1; of UBI, as the log shows]", min=0, max=1
    )
    time_zone: str | None = of_reading("NAME", "Of times that name none, such as Europe/Berlin. [default: UTC]")
    exclude_users: str | None = of_reading("FILE", "Set aside the rows of these users: a file with an id per line.")
    exclude_bots: bool = of_reading("", "Set aside the rows of users (or sessions) that are not like people.", False)

    def given(self, kind: type) -> dict[str, Any]:
        """The options that a class has, as far as they were given; `local` is DuckDB, in this process."""
        self.check_engine()
        values = {entry.name: getattr(self, entry.name) for entry in fields(kind)}
        known = {name: value for name, value in values.items() if value or (value == 0 and value is not False)}
        return {**known, "engine": "duckdb" if self.engine == "local" else self.engine}


@declared
class RawLayout(RawRows):
    """How a log is laid out: the fields of `cldrank.clicks.LogLayout`."""

    one_query: bool = of_reading("", "The log has no queries (recommendations): all pages belong to one.", False)
    by_time: bool = of_reading("", "What a session sees of a query at another time is another page.", False)
    page_size: int | None = of_reading("INTEGER", "Positions start again on each `page`: results per page.", min=1)
    first_page: int | None = of_reading("0|1", "Logs with a `page` column: the first page. [default: 1]", min=0, max=1)
    grid_columns: int | None = of_reading("INTEGER", "Logs with `row` and `column`: columns of the grid.", min=1)


@declared
class RawLog(RawLayout, options.CandidateReading, options.JsonOutput):
    """A log of any layout."""

    log: list[str] = argument("LOG", "Log files, folders or patterns: Parquet, CSV, JSON Lines.")
    log_column: list[str] | None = of_reading(
        "ROLE=NAME",
        "Which column of the log holds `session_id`, `query_id`, `doc_id`, `position`, `clicked` (or lists: "
        "`documents`, `clicked_positions`, `clicked_documents`), `timestamp`, `user_id`, `ranker_id`, `surface`, "
        "`propensity`, if it has another name; and which hold `segment`, `page`, or `row` and `column`, if any. A "
        "field inside of a column by its path: doc_id=event.object.id.",
    )

    def log_arguments(self) -> dict[str, Any]:
        """The arguments for functions that read logs."""
        columns = options.log_columns(self.log_column)
        return {**self.given(RawLayout), **({"columns": columns} if columns else {})}


@declared
class AuditCommand(RawLog, options.Window):
    """Find out what a click log can and cannot support, before training on it.

    Clicks by position, candidates never shown, odd pages, suspicious users, broken days, drift, and whether
    propensities can be estimated, by which method and how precisely. Takes logs as `cldrank clicks aggregate` does, a
    file of cells, or a folder of days. Exits with code 3 if the verdict is blocking, after everything is written;
    otherwise with 0.

    Example: `cldrank clicks audit logs/ --features train.parquet --html audit.html`
    """

    html: Path | None = option("FILE", "Write a page with charts that needs no other files.")

    def run(self) -> None:
        """Print the audit, and exit with 3 if the log should not be trained on."""
        from cldrank.auditing import audit
        from cldrank.auditing.audit_document import audit_summary
        from cldrank.documents import render_terminal

        options.check_outputs([self.html], [*self.log, *(self.features or [])])
        dataset = self.candidates()
        with working(f"auditing {some(self.log)} …"), columns_by("--log-column"):
            result = audit(self.log, dataset, **self.log_arguments(), **self.window()).worded(_of_log)
        if self.html:
            save_text(self.html, result.to_html())
        if self.as_json:
            print_json(result.as_dict())
        else:
            render_terminal(audit_summary(result), console)
        if self.html:
            say(f"wrote {self.html}")
        if result.verdict.severity == "blocking":
            raise typer.Exit(BLOCKED)


def _of_log(advice: str) -> str:
    """Advice in the words of the shell; columns that it names are those of the log."""
    return as_options(re.sub(r"`columns=\{\W*(\w+)\W+(\w+)\W*`", r"--log-column \1=\2", advice))


# -- cells ---------------------------------------------------------------------------------------------------------


@declared
class AggregateCommand(RawLog):
    """Aggregate impression logs to cells: how often each candidate was shown at each position, and clicked.

    A log is Parquet, CSV or JSON Lines, perhaps a partitioned folder, with columns session_id, query_id, doc_id,
    position (from 1) and clicked, or one row per page with documents and clicked_positions; other layouts are described
    under Reading files, and what is found out about them is printed. Rows that cannot be right are set aside, counted
    and reported, never silently dropped.

    With `--add-to`, the same command can be run again: log files that are in already are left out.

    Example: `cldrank clicks aggregate logs/ --features train.parquet --out cells.parquet`

    Example: `cldrank clicks aggregate logs/2026-11-15/ --add-to cells/`
    """

    out: Path | None = option(
        "-o FILE", "The Parquet file of cells to write; with --add-to FILE, by default that file."
    )
    add_to: str | None = option(  # a path would lose the slash at its end
        "FILE|FOLDER/",
        "Add the counts to these cells, or to a folder with a file of cells per day, which is made if need be. Log "
        "files that are in already are left out.",
    )
    day: str | None = option("DAY", "With a folder of days: all rows are of this day. [default: by timestamp, in UTC]")
    replace: bool = option("", "With a folder of days: rebuild the days of these files, from these files alone.", False)
    again: bool = option("", "Count files even if they are named twice, or went into --add-to already.", False)
    every_click: bool = option("", "Count each click on a result in a session, not just one.", False)
    segment: str | None = option("COLUMN", "Count by the values of this column, such as devices, each with its curve.")
    rejects: Path | None = option("FILE", "Write what is set aside, with reasons, to this Parquet file.")
    max_rejected: float = option("NUMBER", "Fail if a larger share of rows has to be set aside.", 0.05, min=0, max=1)

    def run(self) -> None:
        """Count, write cells, and account for every row."""
        from cldrank.clicks.aggregate import TooManyRejectsError

        to = self._target()
        if self.rejects is not None:
            check_parquet_name(self.rejects)
        options.check_outputs([None if self._is_days else to, self.rejects], [*self.log, *(self.features or [])])
        dataset = self.candidates()
        try:
            with working(f"aggregating {some(self.log)} …"), columns_by("--log-column"):
                added = self._add_days(to, dataset) if self._is_days else self._add(to, dataset)
        except TooManyRejectsError as error:
            if self.rejects:
                save_table(error.rejects, self.rejects)
                say(f"the rows set aside: {self.rejects}")
            say(str(error.account))
            raise
        if self.rejects:
            save_table(added.counted.rejects, self.rejects)
        if self.as_json:
            print_json(added.as_dict())
        else:
            added.print(self.rejects)

    @property
    def _is_days(self) -> bool:
        """Whether cells are added to a folder of days."""
        return self.add_to is not None and (self._names_folder or not Path(self.add_to).suffix)

    @property
    def _names_folder(self) -> bool:
        return self.add_to is not None and (self.add_to.endswith("/") or Path(self.add_to).is_dir())

    def _target(self) -> Path:
        """The file or folder to write; what does not fit together is refused."""
        if (
            self.add_to is not None
            and not self._names_folder
            and Path(self.add_to).suffix not in ("", ".parquet", ".pq")
        ):
            raise UsageError(
                f"--add-to {self.add_to}: cells are kept in a .parquet file, or in a folder of days, named as "
                f"{self.add_to}/."
            )
        if self._is_days and self.out is not None:
            raise UsageError(f"--add-to {self.add_to} writes into that folder of days; leave --out out.")
        if not self._is_days and (self.day or self.replace):
            spelled = "--day" if self.day else "--replace"
            raise UsageError(f"{spelled} is for a folder of days; name one with --add-to FOLDER/.")
        target = self.out or (self.add_to and Path(self.add_to))
        if not target:
            raise UsageError("name the file of cells to write with --out, or the cells to add to with --add-to.")
        if not self._is_days:
            check_parquet_name(target)
        return target

    def _counting(self) -> dict[str, Any]:
        """The arguments that decide how the log is counted."""
        names = ("every_click", "segment", "max_rejected", "again")
        return {**self.log_arguments(), **{name: getattr(self, name) for name in names}}

    def _add(self, out: Path, dataset: Any) -> Added:
        """Count a log, and write a file of cells, perhaps with earlier cells."""
        from cldrank.clicks.aggregate import aggregate
        from cldrank.clicks.table import ClickTable

        first = self.add_to is None or (not Path(self.add_to).exists() and self.out is None)  # makes the file
        earlier = None if first else ClickTable.read(self.add_to, dataset)
        counted = aggregate(self.log, dataset, **self._counting(), counted=() if earlier is None else earlier.sources)
        if self.add_to is not None and not counted.account.rows and self.out is None:
            return Added(out, counted, {})
        cells = counted.clicks if earlier is None else earlier.merge(counted.clicks, again=self.again)
        cells.save(out)
        return Added(out, counted, {out: cells})

    def _add_days(self, to: Path, dataset: Any) -> Added:
        """Count a log by day, and add it to a folder of days."""
        from cldrank.clicks.days import DayFolder

        folder = DayFolder(to)
        added = folder.add(self.log, dataset, day=self.day, replace=self.replace, **self._counting())
        written = {folder.file(day): cells for day, cells in sorted(added.written.items())}
        return Added(to, added.counted, written, tuple(map(folder.file, added.removed)))


@dataclass(frozen=True)
class Added:
    """What came of a log: how it was counted, and the files of cells that were written."""

    to: Path
    counted: Aggregation
    written: Mapping[Path, ClickTable]
    removed: tuple[Path, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For programs; a single file of cells is described as `cldrank show` does."""
        account = self.counted.account
        log = {
            "rows": account.rows,
            "set_aside": account.n_rejected,
            "share_set_aside": account.share_rejected,
            "reasons": dict(account.rejected),
            "found": list(account.found),
            "seconds": round(account.seconds, 3),
        }
        known = {"out": str(self.to), "log": log, "left_out": [file.place for file in self.counted.left_out]}
        if len(self.written) == 1 and self.to in self.written:
            return {**known, **cells_summary(self.written[self.to])}
        days = {str(file): cells_totals(cells) for file, cells in self.written.items()}
        return {**known, "written": days, "removed": [str(file) for file in self.removed]}

    def print(self, rejects: Path | None) -> None:
        """In words."""
        left_out, account = self.counted.left_out, self.counted.account
        if left_out:
            print_line(f"already in {self.to}, left out: {some(file.place for file in left_out)}")
        if account.rows:
            print_line(str(account))
        if account.rejected and rejects:
            print_line(f"the rows set aside: {rejects}")
        elif account.rejected:
            say("Write them to a file with --rejects FILE.")
        for file, cells in self.written.items():
            print_line(f"wrote {file}: {cells!r}")
        for file in self.removed:
            print_line(f"removed {file}: the log has no rows of that day any more")
        if not self.written and not self.removed:
            print_line(f"{self.to} is as it was")


@declared
class ForgetCommand(options.JsonOutput):
    """Delete the days of a folder that are older than you want to keep. Nothing else ever deletes days.

    Example: `cldrank clicks forget cells/ --keep 90d`
    """

    cells: Path = argument("CELLS", "A folder of days.")
    keep: str = option("DAYS", "How many days to keep, counted back from the newest: 90d, say.", ...)

    def run(self) -> None:
        """Delete, and say which days."""
        from cldrank.clicks.days import DayFolder

        folder = DayFolder(self.cells)
        gone, kept = folder.forget(self.keep), len(folder.files())
        if self.as_json:
            print_json({"cells": str(self.cells), "deleted": [day.isoformat() for day in gone], "kept": kept})
        else:
            print_line(f"deleted {some(gone)}" if gone else "there is nothing older")
            print_line(f"{self.cells} holds {count(kept, 'day')}")


# -- logs of other programs ----------------------------------------------------------------------------------------


@declared
class ImportedRecords(RawRows):
    """How records are read, by the names that `import_log` has for it."""

    queries: list[str] | None = option("FILE", "UBI: files, folders or patterns of queries. Repeat it for several.")
    events: list[str] | None = option("FILE", "UBI: files, folders or patterns of events. Repeat it for several.")
    min_joined: float = option(
        "NUMBER", "Fail if a smaller share of events finds its query, or of clicks its result.", 0.8, min=0, max=1
    )
    click_action: list[str] | None = of_reading("NAME", "What counts as a click; repeatable. [default: click]")
    impression_action: list[str] | None = of_reading(
        "NAME", "UBI: what is an impression; repeatable. [default: impression]"
    )
    impressions: str | None = of_reading(
        "auto|events|returned",
        "UBI: what was shown: as events say, or all that was returned. [default: auto, events if there are any]",
    )
    object_id: str | None = of_reading("object_id|internal_id", "UBI: which id is the document. [default: object_id]")
    surface: str | None = of_reading(
        "FIELD", "UBI: the field of a query with its surface, `query_attributes.device`, say. [default: application]"
    )
    query_field: str | None = of_reading("NAME", "Metarank: the field of a ranking that holds its query.")
    normalise: bool = of_reading(
        "--normalise/--as-typed", "Queries in lower case with single blanks, or as they were typed.", True
    )


@declared
class ImportCommand(ImportedRecords, options.JsonOutput):
    """Turn the log of another program into the plain log that all other commands take.

    UBI (User Behavior Insights of OpenSearch and Solr): queries and events as JSON Lines, with or without `_source`, or
    Parquet. Metarank: its events as JSON Lines. Yandex: the log of Yandex relevance prediction. Every record is
    in the log, or set aside, counted and reported.

    Example: `cldrank clicks import --from ubi --queries queries.jsonl --events events.jsonl --out log.parquet`
    """

    files: list[str] | None = argument("FILE", "Metarank, Yandex: log files, folders or patterns.", None)
    source: str = option("--from ubi|metarank|yandex", "The format of the log.", ...)
    out: Path = option("-o FILE", "The log to write: a Parquet file; with Spark, a folder.", ...)
    rejects: Path | None = option("FILE", "Write what is set aside, with reasons, to this Parquet file.")

    def run(self) -> None:
        """Write the log, and account for every record."""
        from cldrank.clicks.imports import import_log

        inputs = [*(self.files or []), *(self.queries or []), *(self.events or [])]
        self._check_outputs(inputs)
        arguments = {**self.given(ImportedRecords), "normalise": self.normalise}
        with working(f"importing {some(inputs)} …") as progress:
            report = import_log(
                self.source, self.files or None, out=self.out, rejects=self.rejects, progress=progress, **arguments
            )
        if report.returned_only:
            print_warning(f"{report.notes[0]}.")
        if self.as_json:
            print_json(report.as_dict())
            return
        print_line(str(report))
        if report.set_aside and self.rejects:
            print_line(f"the records set aside: {self.rejects}")
        elif report.set_aside:
            say("Write the records set aside to a file with --rejects FILE.")
        print_line(f"wrote {self.out}")

    def _check_outputs(self, inputs: list[str]) -> None:
        """Refuse outputs that cannot be written; Spark writes folders."""
        written = [path for path in (self.out, self.rejects) if path is not None]
        for path in written:
            check_parquet_name(path)
        if self.engine != "spark":
            options.check_outputs(written, inputs)
            return
        for path in written:
            options.check_folder(path)
            check_writable(path.parent / f"{path.name}.check")
            if any(Path(source).resolve() == path.resolve() for source in inputs):
                raise UsageError(f"{path} is an input and would be overwritten; name another folder to write.")
        if len({path.resolve() for path in written}) < len(written):
            raise UsageError(f"{self.out} would be written twice; name different folders.")


app = group_of(
    "Turn click logs into cells, and audit them.", AuditCommand, ImportCommand, AggregateCommand, ForgetCommand
)
