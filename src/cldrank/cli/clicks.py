"""`cldrank clicks`: from raw click logs to cells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

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
from cldrank.wording import some

if TYPE_CHECKING:
    from cldrank.clicks.aggregate import Aggregation
    from cldrank.clicks.table import ClickTable

BLOCKED = 3  # the exit code of a log that should not be trained on


# -- raw logs ------------------------------------------------------------------------------------------------------


@declared
class RecordReading:
    """Options of whatever is read record by record."""

    memory_limit: str = of_reading("SIZE", "Spill to disk beyond this; Spark: driver memory.", "3GB")
    first_position: int | None = of_reading(
        "0|1", "The number of the top position. [default: 1, unless there are some at 0]", min=0, max=1
    )
    time_zone: str | None = of_reading(
        "NAME", "The zone of times that name none, such as Europe/Berlin. [default: UTC]"
    )
    exclude_users: str | None = of_reading("FILE", "Set aside the rows of these users: a file with an id per line.")

    def given(self, *names: str) -> dict[str, Any]:
        """The options given, of these and of those named."""
        values = {name: getattr(self, name) for name in (*(entry.name for entry in fields(RecordReading)), *names)}
        return {name: value for name, value in values.items() if value is not None and value is not False}


@declared
class RawRecords(RecordReading, options.ComputePlace):
    """Options that raw logs and imports share."""

    def given(self, *names: str) -> dict[str, Any]:
        """The options given, of these and of the engine; `local` is DuckDB, in this process."""
        self.check_engine()
        return {**super().given("master", *names), "engine": "duckdb" if self.engine == "local" else self.engine}


@declared
class RawLogReading(RecordReading):
    """A log of any layout: the fields of `cldrank.clicks.LogLayout`."""

    one_query: bool = of_reading("", "The log has no queries (recommendations): all pages count as one query.", False)
    exclude_bots: bool = of_reading("", "Set aside the rows of users (or sessions) that look like bots.", False)
    log: list[str] = argument("LOG", "Log files, folders or patterns: Parquet, CSV, JSON Lines.")
    log_column: list[str] | None = of_reading(
        "ROLE=NAME",
        "Which column of the log holds `session_id`, `query_id`, `doc_id`, `position`, `clicked` (or lists: "
        "`documents`, `clicked_positions`, `clicked_documents`), `timestamp`, `user_id`, `ranker_id`, `surface`, "
        "`propensity`, if it has another name; and which holds `segment`, such as devices, each with its curve. A "
        "field inside of a column by its path: doc_id=event.object.id.",
    )

    event_weight: list[str] | None = options.event_weight_option()

    def log_arguments(self) -> dict[str, Any]:
        """The arguments for functions that read logs."""
        columns = options.log_columns(self.log_column)
        weights = options.numbers_by_name(self.event_weight, "--event-weight")
        given = {"columns": columns, "event_weights": weights}
        return {**self.given("one_query", "exclude_bots"), **{name: own for name, own in given.items() if own}}


@declared
class RawLog(RawLogReading, RawRecords, options.CandidateReading, options.JsonOutput):
    """A log, and the candidates that it is counted on."""


@declared
class AuditCommand(RawLog, options.Window):
    """Find out what a click log can and cannot support, before training on it.

    Clicks by position, candidates never shown, odd pages, suspicious users, broken days, drift, and whether
    propensities can be estimated, by which method and how precisely. Takes logs as `cldrank clicks aggregate` does, a
    file of cells, or a folder of days. Exits with code 3 if the verdict is blocking, after everything is written;
    otherwise with 0.

    Example: `cldrank clicks audit logs/ --features train.parquet --html audit.html`
    """

    plan: float | None = option(
        "SHARE",
        "Say how many held-out queries a verdict will need to tell a difference of this share of production's DCG, "
        "such as 0.05.",
        above=0,
        below=1,
    )
    html: Path | None = option("FILE", "Write a page with charts that needs no other files.")

    def run(self) -> None:
        """Print the audit, and exit with 3 if the log should not be trained on."""
        from cldrank.auditing import audit
        from cldrank.auditing.audit_document import audit_summary
        from cldrank.documents import render_terminal

        options.check_outputs([self.html], [*self.log, *(self.features or [])])
        dataset = self.candidates()
        with working(f"auditing {some(self.log)} …"), columns_by("--log-column"):
            result = audit(self.log, dataset, **self.log_arguments(), **self.window(), plan=self.plan).worded(_of_log)
        if self.html:
            save_text(self.html, result.to_html())
        if self.as_json:
            print_json(result.as_dict())
        else:
            render_terminal(audit_summary(result), console)
        if self.html:
            say(f"wrote {self.html}")
        if result.verdict.severity == "blocking":
            raise click.exceptions.Exit(BLOCKED)


def _of_log(advice: str) -> str:
    """Advice with options in place of parameters; its columns are columns of the log."""
    return as_options(re.sub(r"`columns=\{\W*(\w+)\W+(\w+)\W*`", r"--log-column \1=\2", advice))


# -- cells ---------------------------------------------------------------------------------------------------------


@declared
class AggregateCommand(RawLog):
    """Aggregate impression logs to cells: how often each candidate was shown at each position, and clicked.

    A log is Parquet, CSV or JSON Lines, perhaps a partitioned folder, with columns session_id, query_id, doc_id,
    position (from 1) and clicked, or a row per page with documents and clicked_positions; other layouts are described
    under Reading files, and what was inferred about the log is printed. Rows that cannot be right are set aside,
    counted and reported, never silently dropped.

    With `--add-to`, the same command can be run again: log files that were added before are skipped.

    Example: `cldrank clicks aggregate logs/ --features train.parquet --out cells.parquet`

    Example: `cldrank clicks aggregate logs/2026-11-15/ --add-to cells/`
    """

    out: Path | None = option("-o FILE", "The Parquet file of cells to write.")
    add_to: Path | None = option(
        "FOLDER",
        "Add the counts to a folder with a file of cells per day, created if need be. Log files that were added "
        "before are skipped.",
    )
    rejects: Path | None = option("FILE", "Write what is set aside, with reasons, to this Parquet file.")
    max_rejected: float = option("NUMBER", "Fail if a larger share of rows has to be set aside.", 0.05, min=0, max=1)

    def run(self) -> None:
        """Count, write cells, and account for every row."""
        from cldrank.clicks.aggregate import TooManyRejectsError

        self._check_outputs()
        dataset = self.candidates()
        try:
            with working(f"aggregating {some(self.log)} …"), columns_by("--log-column"):
                counted, written = self._counted(dataset)
        except TooManyRejectsError as error:
            if self.rejects:
                save_table(error.rejects, self.rejects)
                say(f"the rows set aside: {self.rejects}")
            say(str(error.account))
            raise
        if self.rejects:
            save_table(counted.rejects, self.rejects)
        if self.as_json:
            print_json(self._as_dict(counted, written))
        else:
            self._print(counted, written)

    def _check_outputs(self) -> None:
        """Refuse outputs that cannot be written, and options that contradict each other."""
        if (self.out is None) == (self.add_to is None):
            raise UsageError("name the file of cells to write with --out, or a folder of days with --add-to.")
        if self.add_to is not None and self.add_to.suffix in (".parquet", ".pq"):
            raise UsageError(f"--add-to {self.add_to}: cells are added to a folder of days; name a folder.")
        for path in (self.out, self.rejects):
            if path is not None:
                check_parquet_name(path)
        options.check_outputs([self.out, self.rejects], [*self.log, *(self.features or [])])

    def _counted(self, dataset: Any) -> tuple[Aggregation, dict[Path, ClickTable]]:
        """The counted log, and the cells of each file written."""
        from cldrank.clicks.aggregate import aggregate
        from cldrank.clicks.days import DayFolder

        arguments = {**self.log_arguments(), "max_rejected": self.max_rejected}
        if self.out is not None:
            counted = aggregate(self.log, dataset, **arguments)
            counted.clicks.save(self.out)
            return counted, {self.out: counted.clicks}
        folder = DayFolder(self.add_to or "")
        added = folder.add(self.log, dataset, **arguments)
        return added, {folder.file(day): cells for day, cells in sorted(added.days.items())}

    def _as_dict(self, counted: Aggregation, written: Mapping[Path, ClickTable]) -> dict[str, Any]:
        """The result for programs; a single file of cells is described as `cldrank show` does."""
        account = counted.account
        log = {
            "rows": account.rows,
            "set_aside": account.n_rejected,
            "share_set_aside": account.share_rejected,
            "reasons": dict(account.rejected),
            "found": list(account.found),
            "seconds": round(account.seconds, 3),
        }
        known = {"out": str(self.out or self.add_to), "log": log}
        if self.out is not None:
            return {**known, **cells_summary(written[self.out])}
        days = {str(file): cells_totals(cells) for file, cells in written.items()}
        return {**known, "left_out": [file.place for file in counted.left_out], "written": days}

    def _print(self, counted: Aggregation, written: Mapping[Path, ClickTable]) -> None:
        """Print the result for people."""
        if counted.left_out:
            print_line(f"already in {self.add_to}, left out: {some(file.place for file in counted.left_out)}")
        if counted.account.rows:
            print_line(str(counted.account))
        if counted.account.rejected and self.rejects:
            print_line(f"the rows set aside: {self.rejects}")
        elif counted.account.rejected:
            say("Write them to a file with --rejects FILE.")
        for file, cells in written.items():
            print_line(f"wrote {file}: {cells!r}")
        if not written:
            print_line(f"{self.add_to} is as it was")


# -- logs of other programs ----------------------------------------------------------------------------------------


@declared
class ImportCommand(RawRecords, options.JsonOutput):
    """Turn the log of another program into the plain log that all other commands take.

    UBI (User Behavior Insights of OpenSearch and Solr): queries and events as JSON Lines, with or without `_source`, or
    Parquet, from a bulk file of both, or with `--url` from live indices, with credentials as in `cldrank features
    collect`. Metarank: its events as JSON Lines. Every record is in the log, or set aside, counted and reported.

    Example: `cldrank clicks import --from ubi --queries queries.jsonl --events events.jsonl --out log.parquet`
    """

    files: list[str] | None = argument("FILE", "Log files, folders or patterns; of UBI, with queries and events.", None)
    source: str = option("--from ubi|metarank", "The format of the log.", ...)
    out: Path = option("-o FILE", "The log to write: a Parquet file; with Spark, a folder.", ...)
    rejects: Path | None = option("FILE", "Write what is set aside, with reasons, to this Parquet file.")
    queries: list[str] | None = option("FILE", "UBI: files, folders or patterns of queries. Repeat it for several.")
    events: list[str] | None = option("FILE", "UBI: files, folders or patterns of events. Repeat it for several.")
    url: str | None = option(
        "URL", "UBI: a live engine; --queries and --events then name indices. [default: ubi_queries, ubi_events]"
    )
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

    def run(self) -> None:
        """Write the log, and account for every record."""
        from cldrank.clicks.imports import ImportOptions, import_log

        inputs = [*(self.files or []), *(self.queries or []), *(self.events or [])]
        self._check_outputs([] if self.url else inputs)
        if self.url and max(len(self.queries or []), len(self.events or [])) > 1:
            raise UsageError("--url reads one index of queries and one of events; name each once.")
        arguments = {**self.given(*asdict(ImportOptions())), "normalise": self.normalise}
        with working(f"importing {some(inputs)} …") as progress:
            report = import_log(
                self.source,
                self.files or None,
                queries=self.queries[0] if self.url and self.queries else self.queries,
                events=self.events[0] if self.url and self.events else self.events,
                url=self.url,
                out=self.out,
                rejects=self.rejects,
                progress=progress,
                **arguments,
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


app = group_of("Turn click logs into cells, and audit them.", AuditCommand, ImportCommand, AggregateCommand)
