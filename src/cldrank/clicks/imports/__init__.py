"""`import_log`: logs of other programs, turned into the plain log that everything else takes, with a report.

formats       from files to pages and events: where UBI and Metarank keep what these say
record_join   from pages and events to rows, and a report with a reason for every record that is not in the log
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from cldrank.arguments import check_choice, check_flag, check_number
from cldrank.clicks.imports.formats import metarank_records, ubi_records
from cldrank.clicks.imports.record_join import ImportOptions, ImportReport, SetAside, join_records
from cldrank.clicks.log.plain_log import querying
from cldrank.errors import UsageError
from cldrank.files import replacing, replacing_folder
from cldrank.tables import Engine, Relation, connect, is_frame
from cldrank.tables.sources import text_files
from cldrank.wording import some

__all__ = ["ImportReport", "SetAside", "import_log"]

_OF_ONE = {  # options of one format, with their defaults
    "impression_action": ("ubi", "impression"),
    "impressions": ("ubi", "auto"),
    "object_id": ("ubi", "object_id"),
    "surface": ("ubi", "application"),
    "first_position": ("ubi", None),
    "query_field": ("metarank", None),
}


def import_log(
    source: str,
    paths: Any = None,
    *,
    out: str | PathLike[str],
    queries: Any = None,
    events: Any = None,
    click_action: str | Sequence[str] = "click",
    impression_action: str | Sequence[str] = "impression",
    impressions: str = "auto",
    object_id: str = "object_id",
    surface: str = "application",
    first_position: int | None = None,
    query_field: str | None = None,
    normalise: bool = True,
    min_joined: float = 0.8,
    rejects: str | PathLike[str] | None = None,
    engine: str | Any = "duckdb",
    memory_limit: str = "3GB",
    threads: int | None = None,
    master: str = "local[*]",
    progress: Callable[[str], None] | None = None,
) -> ImportReport:
    r"""Turn the log of another program into a plain log in Parquet: a file or, written by Spark, a folder.

    source              "ubi", with `queries` and `events`, or "metarank", with `paths`: files, folders, patterns or
                        DataFrames
    click_action        the actions (UBI) or types of interactions (Metarank) that count as clicks
    impression_action   UBI: the actions that are impressions
    impressions         UBI: what counts as shown: "events", what was "returned", or "auto": events, if there are any
    object_id           UBI: which id of an object is the document, "object_id" or "internal_id"
    surface             UBI: the field of a query that names its surface, such as "query_attributes.device"
    first_position      UBI: whether ordinals count from 0 or 1; None: from 1, and a log with some at 0 is refused
    query_field         Metarank: the field of a ranking that holds its query; None: one of the usual names
    normalise           write queries in lower case, with single blanks, so that they count as one
    min_joined          the share of events that must find their page, and of clicks that must find their result
    rejects             a Parquet file for the records set aside, with reasons
    engine, memory_limit, threads, master   see `cldrank.tables.connect`
    progress            is told what happens next

    >>> import json, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = Path(folder) / "log.jsonl"
    ...     ranking = {"event": "ranking", "id": "r1", "items": [{"id": "11"}, {"id": "12"}, {"id": "13"}]}
    ...     ranking["fields"] = [{"name": "query", "value": "shoes"}]
    ...     click = {"event": "interaction", "id": "i1", "ranking": "r1", "item": "12", "type": "click"}
    ...     _ = log.write_text("\n".join(map(json.dumps, [ranking, click])))
    ...     print(import_log("metarank", log, out=Path(folder) / "log.parquet"))
    1 ranking, 3 results returned, 1 click and 0 other records read, 0 set aside
    100.0% of clicks joined to a page
    100.0% of those clicks joined to a result
    3 rows of 1 page written, 1 of them clicked (1 click)
    """
    start = time.perf_counter()
    check_choice("source", source, ("ubi", "metarank"))
    for name, (owner, default) in _OF_ONE.items():
        if source != owner and locals()[name] != default:
            raise UsageError(f"`{name}` is for logs of {owner}, not of {source}; leave it out.")
    check_number("min_joined", min_joined, least=0, most=1)
    check_flag("normalise", normalise)
    check_choice("impressions", impressions, ("auto", "events", "returned"))
    check_choice("object_id", object_id, ("object_id", "internal_id"))
    if first_position is not None:
        check_choice("first_position", first_position, (0, 1))
    options = ImportOptions(
        _words("click_action", click_action),
        _words("impression_action", impression_action),
        impressions,
        object_id,
        surface,
        first_position,
        query_field,
        normalise,
        min_joined,
    )
    sources = _sources(source, paths, queries, events)
    tell = progress or str  # which does nothing
    limits: dict[str, Any] = {"memory_limit": memory_limit, "threads": threads, "master": master}
    paths_given = [given for given in sources if not is_frame(given)]
    files = [file for given in paths_given for file in text_files(given)]
    with connect(engine, source=sources[0], **limits) as opened, querying(opened, some(files, 3) or "the DataFrame"):
        _check_target(Path(out), opened)
        tell("reading records …")
        if source == "ubi":
            records = ubi_records(queries, events, opened, options)
        else:
            records = metarank_records(paths, opened, options)
        tell("joining clicks to results …")
        rows, set_aside, report = join_records(records, options)
        tell("writing the log …")
        if rejects is not None:
            _save(set_aside, Path(rejects))
        _save(rows, Path(out))
    return replace(report, source=source, out=str(out), seconds=time.perf_counter() - start)


def _sources(source: str, paths: Any, queries: Any, events: Any) -> list[Any]:
    """What is read: queries and events, or the records of one set of files."""
    if source == "ubi":
        if queries is None or events is None or paths is not None:
            raise UsageError(
                "UBI keeps queries and events apart; name both, with `queries` and `events`, and no other."
            )
        return [queries, events]
    if paths is None or queries is not None or events is not None:
        raise UsageError(f"a log of {source} is one set of files; name them alone, without `queries` and `events`.")
    return [paths]


def _words(name: str, given: str | Sequence[str]) -> tuple[str, ...]:
    words = (given,) if isinstance(given, str) else tuple(given)
    if not words or not all(isinstance(word, str) and word for word in words):
        raise UsageError(f"`{name}` must be a name, or several, not {given!r}.")
    return words


def _check_target(path: Path, engine: Engine) -> None:
    """Refuse to replace a folder that is not a log which Spark wrote."""
    if engine.name == "spark" and path.is_dir():
        strange = [entry.name for entry in path.iterdir() if not entry.name.startswith(("part-", "_SUCCESS", "."))]
        if strange:
            raise UsageError(f"{path} holds other files ({strange[0]}); name a new folder for the log.")


def _save(rows: Relation, path: Path) -> None:
    """Write a table, whole or not at all."""
    folder = rows.engine.name == "spark"
    replaced: AbstractContextManager[Path] = replacing_folder(path) if folder else replacing(path)
    with replaced as temporary:
        rows.engine.save(f"SELECT * FROM {rows}", temporary)
