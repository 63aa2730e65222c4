"""The options that several commands share, so that they have the same names and explanations."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cldrank.cli.output import console, working
from cldrank.errors import CldrankError, UsageError
from cldrank.files import check_writable

if TYPE_CHECKING:
    from cldrank.data.dataset import RankingDataset

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for programs.")]
Features = Annotated[
    list[str],
    typer.Option(
        "--features",
        "-f",
        metavar="FILE",
        help="The candidates: a LETOR/SVMlight or Parquet file, a folder or pattern of parts, or a known data set such "
        "as `msrd:test`. Repeat it for several parts.",
        show_default=False,
    ),
]
OptionalFeatures = Annotated[
    list[str] | None,
    typer.Option("--features", "-f", metavar="FILE", help="The candidates to align the cells to."),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="ROLE=NAME",
        help="Parquet: which column holds `query_id`, `doc_id`, `label` or `features` (a list column, or several, "
        "separated by commas), if its name differs.",
    ),
]
Groups = Annotated[
    list[Path] | None,
    typer.Option(
        "--groups", metavar="FILE", help="LETOR without `qid:`: the file with the number of rows of each query."
    ),
]
FeatureCount = Annotated[
    int | None,
    typer.Option("--n-features", min=1, help="LETOR: the number of features, if rows may leave out the last ones."),
]
Missing = Annotated[
    float | None,
    typer.Option("--missing", metavar="VALUE", help="Fill in missing values with this instead of refusing them."),
]
Cached = Annotated[bool, typer.Option("--cache/--no-cache", help="Keep large files memory-mapped in the cache.")]
MeasureNames = Annotated[
    list[str] | None,
    typer.Option(
        "--measure",
        "-m",
        metavar="MEASURE",
        help="What to measure: nDCG@3, AP, RR, P@5, ERR@10, DCG@10, ARP; binary ones take a threshold, AP(rel=2). "
        "Repeat it, or separate by commas.",
    ),
]
Confidence = Annotated[float, typer.Option("--confidence", help="The confidence level of the intervals.")]
SkipEmpty = Annotated[
    bool,
    typer.Option("--skip-empty", help="Leave out queries without a relevant document instead of counting 0."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same result.")]
LogFiles = Annotated[
    list[str],
    typer.Argument(
        help="Log files, folders or patterns: Parquet, CSV, JSON Lines.", metavar="LOG...", show_default=False
    ),
]
_LOG_ROLES = (
    "Which column of the log holds `session_id`, `query_id`, `doc_id`, `position`, `clicked` (or `documents`, "
    "`clicked_positions`), `timestamp`, `user_id`, `ranker_id`, `surface`, `propensity`, if it has another name."
)
LogColumns = Annotated[list[str] | None, typer.Option("--column", metavar="ROLE=NAME", help=_LOG_ROLES)]
ClickLogColumns = Annotated[  # where --column is for features
    list[str] | None, typer.Option("--log-column", metavar="ROLE=NAME", help=_LOG_ROLES)
]
FirstPosition = Annotated[
    int | None,
    typer.Option(
        "--first-position",
        min=0,
        max=1,
        help="The number of the top position in the log. By default 1, and a log that counts from 0 is refused.",
        show_default=False,
    ),
]
ByTime = Annotated[
    bool,
    typer.Option(
        "--by-time", help="If a session sees a page of the same query at another time, count it as another page."
    ),
]
OneQuery = Annotated[
    bool,
    typer.Option(
        "--one-query",
        help="The log has no queries (recommendations): treat all pages as those of one query. Features, if given, "
        "must hold one query, whatever its id.",
    ),
]
EngineName = Annotated[str, typer.Option("--engine", help="`duckdb` (in this process) or `spark`.")]
Master = Annotated[str, typer.Option("--master", help="Spark: where it runs.")]
MemoryLimit = Annotated[
    str, typer.Option("--memory-limit", help="DuckDB: spill to disk beyond this; Spark: driver memory.")
]


def check_outputs(outputs: Sequence[Path | None], inputs: Sequence[str | Path]) -> None:
    """Refuse an output that cannot be written, that is also an input, or that is named twice."""
    written = [path for path in outputs if path is not None]
    for path in written:
        try:
            check_writable(path)
        except CldrankError as error:
            raise UsageError(str(error)) from None
        if path.exists() and path.samefile("/dev/stdout"):
            console.stderr = True  # else messages would mix with the output
    places = [path.resolve() for path in written]
    for path, place in zip(written, places, strict=True):
        if places.count(place) > 1:
            raise UsageError(f"{path} would be written twice; name different files.")
        if path.is_file() and any(_reads(source, path) for source in inputs):
            raise UsageError(f"{path} is an input and would be overwritten; name another file to write.")


def _reads(source: str | Path, path: Path) -> bool:
    """Whether a source names a file, the folder that it lies in, or a pattern that it matches."""
    pattern = str(source)
    found = [Path(source)] if Path(source).exists() else map(Path, glob(pattern, recursive=True))  # noqa: PTH207
    return any(
        path.resolve().is_relative_to(one.resolve()) if one.is_dir() else one.exists() and one.samefile(path)
        for one in found
    )


def check_folder(path: Path) -> None:
    """Refuse a folder that cannot be made or written to, before anything is computed."""
    nearest = next(one for one in (path, *path.parents) if one.exists())
    if not nearest.is_dir():
        raise UsageError(f"{nearest} is a file; name a folder to write.")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise UsageError(f"{path} cannot be written: the folder {nearest} is write-protected.")


def check_ranker_folder(path: Path) -> None:
    """The same for the folder of a ranker, which is replaced as a whole: it may hold a ranker, or nothing."""
    check_folder(path)
    if path.is_dir() and any(path.iterdir()) and not (path / "ranker.json").is_file():
        raise UsageError(f"{path} is not empty and holds no ranker; name another folder, or empty it first.")


def log_columns(named: list[str] | None, option: str = "--column") -> dict[str, str] | None:
    """The columns of a log, from the options."""
    columns = _column_names(named, option)
    for role, name in (columns or {}).items():
        if not isinstance(name, str):
            raise UsageError(f"{option} {role} takes one column, not several.")
    return columns  # type: ignore[return-value]


@dataclass(frozen=True)
class LogReading:
    """How to read click logs, from the options."""

    columns: list[str] | None = None
    first_position: int | None = None
    one_query: bool = False

    def chosen(self) -> dict[str, Any]:
        """The arguments for `ClickTable.read`; none, if all are defaults, so that files of cells can be read too."""
        given = {
            "columns": log_columns(self.columns, "--log-column"),
            "first_position": self.first_position,
            "one_query": self.one_query,
        }
        return {name: value for name, value in given.items() if value != getattr(LogReading, name)}


@dataclass(frozen=True)
class Reading:
    """How to read feature files, from the options."""

    columns: list[str] | None = None
    groups: list[Path] | None = None
    n_features: int | None = None
    missing: float | None = None
    cache: bool = True

    def load(self, sources: list[str]) -> RankingDataset:
        """The dataset that the sources hold."""
        from cldrank.clicks.log import OPTIONAL, PAGE, REQUIRED
        from cldrank.data.loading import load

        columns = _column_names(self.columns)
        for role in columns or ():
            if role in (*REQUIRED, *PAGE, *OPTIONAL) and role not in ("query_id", "doc_id"):
                raise UsageError(f"--column is for features here; for columns of the log, write --log-column {role}=…")

        with working(f"reading {', '.join(sources)} …"):
            return load(
                sources,
                columns=columns,
                groups=self.groups,
                n_features=self.n_features,
                missing=self.missing,
                cache=self.cache,
            )


def _column_names(options: list[str] | None, name_of_option: str = "--column") -> dict[str, str | list[str]] | None:
    if not options:
        return None
    columns: dict[str, str | list[str]] = {}
    for option in options:
        role, equals, name = option.partition("=")
        if not equals or not role or not name:
            raise UsageError(f"{name_of_option} {option!r} is not of the form ROLE=NAME, such as query_id=qid.")
        columns[role] = name.split(",") if "," in name else name
    return columns
