"""`import_log`: logs of other programs, turned into the plain log that everything else takes, with a report.

live          from the indices of a live engine to files
log_formats   from files to pages and events: where UBI and Metarank keep what these say
record_join   from pages and events to rows, and a report with a reason for every record that is not in the log
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from os import PathLike
from pathlib import Path
from typing import Any

from cldrank.arguments import check_choice
from cldrank.clicks.imports.live import pull
from cldrank.clicks.imports.log_formats import metarank_records, ubi_records
from cldrank.clicks.imports.record_join import ImportOptions, ImportReport, SetAside, join_records
from cldrank.clicks.log.plain_log import querying
from cldrank.errors import UsageError
from cldrank.files import replacing, replacing_folder
from cldrank.tables import Engine, Relation, connect, is_frame
from cldrank.tables.sources import text_files
from cldrank.wording import listed, some

__all__ = ["ImportOptions", "ImportReport", "SetAside", "import_log"]

_OWN_OPTIONS = {  # of each format
    "ubi": ("impression_action", "impressions", "object_id", "surface", "first_position"),
    "metarank": ("query_field",),
}


def import_log(
    source: str,
    paths: Any = None,
    *,
    out: str | PathLike[str],
    queries: Any = None,
    events: Any = None,
    url: str | None = None,
    rejects: str | PathLike[str] | None = None,
    engine: str | Any = "duckdb",
    memory_limit: str = "3GB",
    threads: int | None = None,
    master: str = "local[*]",
    progress: Callable[[str], None] | None = None,
    **reading: Any,
) -> ImportReport:
    r"""Turn the log of another program into a plain log in Parquet: a file or, written by Spark, a folder.

    source              "ubi", with `queries` and `events`, or `paths` of both, or "metarank", with `paths`: files,
                        folders, patterns or DataFrames
    url                 UBI: a live engine; `queries` and `events` name its indices, by default ubi_queries and
                        ubi_events, which are kept beside `out`, as JSON Lines
    rejects             a Parquet file for the records set aside, with reasons
    engine, memory_limit, threads, master   see `cldrank.tables.connect`
    progress            is called with a text before each step
    reading             how records are read and joined: the fields of `ImportOptions`

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
    defaults = asdict(ImportOptions())
    for name, value in reading.items():
        owner = next((owner for owner, names in _OWN_OPTIONS.items() if name in names), source)
        if name not in defaults:
            raise UsageError(f"`{name}` is not an option for importing logs; those are {listed(defaults)}.")
        if owner != source and value != defaults[name]:
            raise UsageError(f"`{name}` is for logs of {owner}, not of {source}; leave it out.")
    options = ImportOptions(**reading)
    tell: Callable[[str], Any] = progress or str  # which does nothing
    if url is not None:
        check_choice("source", source, ("ubi",))
        indices = (queries or "ubi_queries", events or "ubi_events")
        queries, events = (pull(url, index, Path(out).with_suffix(f".{index}.jsonl"), tell) for index in indices)
    sources = _sources(source, paths, queries, events)
    limits: dict[str, Any] = {"memory_limit": memory_limit, "threads": threads, "master": master}
    files = [file for named in sources if not is_frame(named) for file in text_files(named)]
    with connect(engine, source=sources[0], **limits) as opened, querying(opened, some(files, 3) or "the DataFrame"):
        _check_target(Path(out), opened)
        tell("reading records …")
        if source == "ubi":
            half = len(files) // 2
            together = sources[0] is sources[1] or (half > 0 and files[:half] == files[half:])
            records = ubi_records(sources, opened, options, together=together)
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
    """The sources to read: queries and events, which may be the same, or a single set of files."""
    apart = queries is not None or events is not None
    if source == "ubi" and apart and (queries is None or events is None or paths is not None):
        raise UsageError("name the files of queries and of events, with `queries` and `events`; or, of both, no other.")
    if source == "ubi" and (apart or paths is not None):
        return [queries, events] if apart else [paths, paths]
    if paths is None or apart:
        raise UsageError(f"a log of {source} is one set of files; name them alone, without `queries` and `events`.")
    return [paths]


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
