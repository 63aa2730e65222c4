"""The options about how click logs are read, which several commands share."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields
from typing import Annotated, Any

import typer

from cldrank.cli.options import named_columns, of_reading
from cldrank.errors import UsageError

_NOT_LAYOUT = ("log", "log_column", "engine", "master", "memory_limit", "last", "until", "segment")


@dataclass(frozen=True, kw_only=True)
class LogStart:
    """What must often be said about a raw log, but for the names of its columns."""

    first_position: Annotated[
        int | None,
        of_reading("--first-position 0|1", "The number of the top position in a raw log. [default: 1]", min=0, max=1),
    ] = None
    one_query: Annotated[
        bool, of_reading("--one-query", "The log has no queries (recommendations): all pages belong to one.")
    ] = False

    def layout(self) -> dict[str, Any]:
        """The fields of `LogLayout` that were given."""
        given = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in _NOT_LAYOUT}
        columns = {"columns": self.columns} if self.columns else {}
        return {**columns, **{name: value for name, value in given.items() if value is not None and value is not False}}

    @property
    def columns(self) -> dict[str, str] | None:
        """The columns that have other names."""
        return None


@dataclass(frozen=True, kw_only=True)
class LogEngine:
    """Where a log is read."""

    engine: Annotated[
        str,
        of_reading("--engine duckdb|spark", "The engine that counts; duckdb runs in this process. [default: duckdb]"),
    ] = "duckdb"
    master: Annotated[str, of_reading("--master URL", "Spark: where it runs. [default: local[*]]")] = "local[*]"
    memory_limit: Annotated[
        str,
        of_reading("--memory-limit SIZE", "DuckDB: spill to disk beyond this; Spark: driver memory. [default: 3GB]"),
    ] = "3GB"


@dataclass(frozen=True, kw_only=True)
class RowOptions:
    """What holds for the rows of a raw log and the records of an import alike."""

    time_zone: Annotated[
        str | None,
        of_reading("--time-zone NAME", "Of times that name none, such as Europe/Berlin. [default: UTC]"),
    ] = None
    exclude_users: Annotated[
        str | None, of_reading("--exclude-users FILE", "Set aside the rows of these users: a file with an id per line.")
    ] = None
    exclude_bots: Annotated[
        bool,
        of_reading("--exclude-bots", "Set aside the rows of users (or sessions) that do not look like people."),
    ] = False


_Last = Annotated[str | None, of_reading("--last DAYS", "Of a folder of days, only the last: 28d, say, or 4w.")]
_Until = Annotated[str | None, of_reading("--until DAY", "The last day of --last, if not the newest.")]


@dataclass(frozen=True, kw_only=True)
class Window:
    """Which days of a folder of days are read."""

    last: _Last = None
    until: _Until = None

    def window(self) -> dict[str, Any]:
        """The window, as far as it was given."""
        given = {"last": self.last, "until": self.until}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class LogSource(LogStart, LogEngine):
    """A log, or cells, and where to read it."""

    log: Annotated[
        list[str],
        typer.Argument(
            help="Log files, folders or patterns: Parquet, CSV, JSON Lines.", metavar="LOG...", show_default=False
        ),
    ]
    log_column: Annotated[
        list[str] | None,
        of_reading(
            "--log-column ROLE=NAME",
            "Which column of the log holds `session_id`, `query_id`, `doc_id`, `position`, `clicked` (or lists: "
            "`documents`, `clicked_positions`, `clicked_documents`), `timestamp`, `user_id`, `ranker_id`, `surface`, "
            "`propensity`, if it has another name; and which hold `page`, or `row` and `column`, if any. A "
            "field inside of a column by its path: doc_id=event.object.id.",
        ),
    ] = None

    @property
    def columns(self) -> dict[str, str] | None:
        """The columns that have other names."""
        return log_columns(self.log_column, "--log-column")

    def typed(self) -> str | None:
        """The same as options of commands that read features too, each behind a space; None where they lack some."""
        named = [f"--log-column {shlex.quote(f'{role}={name}')}" for role, name in (self.columns or {}).items()]
        given = {name: value for name, value in self.layout().items() if name != "columns"}
        if not set(given) <= {entry.name for entry in fields(LogStart)}:
            return None
        spelled = {name: f"--{name.replace('_', '-')}" for name in given}
        options = [spelled[name] if value is True else f"{spelled[name]} {value}" for name, value in given.items()]
        return "".join(f" {option}" for option in [*named, *options])

    def reading(self) -> dict[str, Any]:
        """The arguments for functions that read logs."""
        return {
            "engine": self.engine,
            "master": self.master,
            "memory_limit": self.memory_limit,
            **self.layout(),
        }


@dataclass(frozen=True, kw_only=True)
class LogOptions(LogSource, RowOptions):
    """A log of any layout: all that can be said of it, the fields of `cldrank.clicks.log.LogLayout`."""

    by_time: Annotated[
        bool,
        of_reading(
            "--by-time", "If a session sees a page of the same query at another time, count it as another page."
        ),
    ] = False
    page_size: Annotated[
        int | None,
        of_reading("--page-size INTEGER", "Logs whose positions start again on each `page`: results per page.", min=1),
    ] = None
    first_page: Annotated[
        int | None,
        of_reading("--first-page 0|1", "Logs with a `page` column: the first page. [default: 1]", min=0, max=1),
    ] = None
    grid_columns: Annotated[
        int | None,
        of_reading("--grid-columns INTEGER", "Logs with `row` and `column`: columns of the grid.", min=1),
    ] = None


@dataclass(frozen=True, kw_only=True)
class LogReading(LogStart, Window):
    """How to read click logs, where features are read as well; logs of odd layouts are aggregated first."""

    log_column: Annotated[
        list[str] | None, of_reading("--log-column ROLE=NAME", "Which column of a raw log is `query_id` and so on.")
    ] = None

    segment: Annotated[
        str | None, of_reading("--segment COLUMN", "Count a raw log by this column, such as devices or layouts.")
    ] = None

    @property
    def columns(self) -> dict[str, str] | None:
        """The columns that have other names."""
        segment = [] if self.segment is None else [f"segment={self.segment}"]
        return log_columns([*(self.log_column or ()), *segment], "--log-column")

    def chosen(self) -> dict[str, Any]:
        """The arguments for `ClickTable.read`; none, if all are defaults, so that files of cells can be read too."""
        return {**self.layout(), **self.window()}


def log_columns(named: list[str] | None, option: str) -> dict[str, str] | None:
    """The columns of a log that options such as `query_id=qid` name, by their roles."""
    columns = named_columns(named, option)
    for role, name in (columns or {}).items():
        if not isinstance(name, str):
            raise UsageError(f"{option} {role} takes one column, not several.")
    return columns  # type: ignore[return-value]
