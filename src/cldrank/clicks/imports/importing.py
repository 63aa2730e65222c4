"""`import_log`: from the files of another program to a plain log, with a report."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cldrank.arguments import check_choice, check_flag, check_number, one_of
from cldrank.clicks.imports.import_report import ImportReport
from cldrank.clicks.imports.joining import Joined, Records, join
from cldrank.clicks.imports.metarank import MetarankOptions, metarank_records
from cldrank.clicks.imports.recognising import FORMATS, check_format
from cldrank.clicks.imports.ubi import UbiOptions, ubi_records
from cldrank.clicks.imports.yandex import yandex_records
from cldrank.clicks.log.engines import Engine, connected, querying
from cldrank.clicks.log.paths import Paths, existing
from cldrank.errors import DataError, Spelling, UsageError, setting
from cldrank.files import replacing, replacing_folder

if TYPE_CHECKING:
    import ibis.expr.types as ir

Words = str | Sequence[str]


def import_log(
    source: str,
    paths: Paths | None = None,
    *,
    out: str | PathLike[str],
    queries: Paths | None = None,
    events: Paths | None = None,
    click_action: Words = "click",
    impression_action: Words = "impression",
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

    source              "ubi", of which `queries` and `events` are the files; "metarank" or "yandex", with `paths`
    click_action        the actions (UBI) or types of interactions (Metarank) that count as clicks
    impression_action   UBI: the actions that are impressions
    impressions         UBI: what counts as shown: "events", what was "returned", or "auto": events, if there are any
    object_id           UBI: which id of an object is the document, "object_id" or "internal_id"
    surface             UBI: the field of a query that names its surface, such as "query_attributes.device"
    first_position      UBI: whether ordinals count from 0 or 1; None: as the log shows
    query_field         Metarank: the field of a ranking that holds its query; None: one of the usual names
    normalise           write queries in lower case, with single blanks, so that they count as one
    min_joined          the share of events that must find their page, and of clicks that must find their result
    rejects             a Parquet file for the records set aside, with reasons
    engine, memory_limit, threads, master   see `cldrank.clicks.log.connected`
    progress            is told what happens next

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = Path(folder) / "log.tsv"
    ...     _ = log.write_text("7\t0\tQ\t100\t2\t11\t12\t13\n7\t5\tC\t12\n7\t9\tC\t99\n")
    ...     print(import_log("yandex", log, out=Path(folder) / "log.parquet", min_joined=0.5))
    1 query, 3 results returned, 2 clicks and 0 other records read, 1 set aside
               1  click, never shown: a click on something that its page did not show; such as session 7, document 99
    100.0% of clicks joined to a page
    50.0% of those clicks joined to a result
    3 rows of 1 page written, 1 of them clicked (1 click)
    """
    start = time.perf_counter()
    if source not in FORMATS:
        names = one_of([repr(name) for name in FORMATS])
        raise UsageError("{} must be {}, not {!r}.", Spelling("source", "--from"), names, source)
    check_number("min_joined", min_joined, least=0, most=1)
    check_flag("normalise", normalise)
    check_choice("impressions", impressions, ("auto", "events", "returned"))
    check_choice("object_id", object_id, ("object_id", "internal_id"))
    if first_position is not None:
        check_choice("first_position", first_position, (0, 1))
    _refuse_others(source, locals())
    clicks, seen = _words("click_action", click_action), _words("impression_action", impression_action)
    files = _files(source, paths, queries, events)
    tell = progress or _say_nothing
    ubi = UbiOptions(clicks, seen, impressions, object_id, normalise, first_position, surface)
    every = [file for found in files for file in found]
    with (
        connected(engine, memory_limit=memory_limit, threads=threads, master=master) as opened,
        querying(every),
        ExitStack() as held,
    ):
        _check_target(Path(out), opened)
        records = _records(source, files, opened, ubi, query_field, held, tell)
        joined = join(records, opened, min_joined, held, tell)
        if not joined.facts["rows"]:
            raise DataError(_nothing(joined))
        tell("writing the log …")
        if rejects is not None:
            _save(joined.rejects, Path(rejects), opened)
        _save(joined.rows, Path(out), opened)
    return _report(source, Path(out), records, joined, time.perf_counter() - start)


def _records(
    source: str,
    files: Sequence[list[Path]],
    engine: Engine,
    ubi: UbiOptions,
    query_field: str | None,
    held: ExitStack,
    progress: Callable[[str], None],
) -> Records:
    match source:
        case "ubi":
            return ubi_records(files[0], files[1], engine, ubi, held, progress)
        case "metarank":
            options = MetarankOptions(ubi.click_action, query_field, ubi.normalise)
            return metarank_records(files[0], engine, options, held, progress)
        case _:
            return yandex_records(files[0], engine, held, progress)


# -- files -------------------------------------------------------------------------------------------------------------


def _files(source: str, paths: Paths | None, queries: Paths | None, events: Paths | None) -> list[list[Path]]:
    """The files of each part of a log, which look like what they should be."""
    if source == "ubi":
        if queries is None or events is None or paths is not None:
            raise UsageError(
                "UBI keeps queries and events apart; name both, with {} and {}, and no other files.",
                setting("queries"),
                setting("events"),
            )
        found = [_on_disk(queries), _on_disk(events)]
    else:
        if paths is None or queries is not None or events is not None:
            files = Spelling(f"import_log({source!r}, paths, …)", f"--from {source} FILE…")
            raise UsageError("a log of {} is one set of files; name them as in {}.", source, files)
        found = [_on_disk(paths)]
    for part in found:
        check_format(source, part)
    return found


_OF_ONE = {  # options of one format, with their defaults
    "impression_action": ("ubi", "impression"),
    "impressions": ("ubi", "auto"),
    "object_id": ("ubi", "object_id"),
    "surface": ("ubi", "application"),
    "first_position": ("ubi", None),
    "query_field": ("metarank", None),
}


def _refuse_others(source: str, given: Mapping[str, Any]) -> None:
    """Refuse options that are for logs of another program."""
    for name, (owner, default) in _OF_ONE.items():
        if source != owner and given[name] != default:
            raise UsageError("{} is for logs of {}, not of {}; leave it out.", setting(name), owner, source)


def _on_disk(paths: Paths) -> list[Path]:
    files = [source for source in existing(paths) if isinstance(source, Path)]
    if not files:
        raise UsageError("a log is imported from files, not from a DataFrame; write it to a Parquet file first.")
    return files


def _words(name: str, given: Words) -> tuple[str, ...]:
    words = (given,) if isinstance(given, str) else tuple(given)
    if not words or not all(isinstance(word, str) and word for word in words):
        raise UsageError("{} must be a name, or several, not {!r}.", setting(name), given)
    return words


def _check_target(path: Path, engine: Engine) -> None:
    """Refuse to replace a folder that is not a log which Spark wrote."""
    if engine.saves_folders and path.is_dir():
        strange = [entry.name for entry in path.iterdir() if not entry.name.startswith(("part-", "_SUCCESS", "."))]
        if strange:
            raise UsageError(f"{path} holds other files ({strange[0]}); name a new folder for the log.")


def _save(rows: ir.Table, path: Path, engine: Engine) -> None:
    """Write a table, whole or not at all."""
    replaced: AbstractContextManager[Path] = replacing_folder(path) if engine.saves_folders else replacing(path)
    with replaced as temporary:
        engine.save(rows, temporary)


# -- words -------------------------------------------------------------------------------------------------------------


def _say_nothing(words: str) -> None:
    del words


def _nothing(joined: Joined) -> str:
    why = "; ".join(str(one).strip() for one in joined.set_aside)
    return f"nothing was shown on any page, and there is no log to write ({why})."


def _report(source: str, out: Path, records: Records, joined: Joined, seconds: float) -> ImportReport:
    facts = {name: joined.facts[name] for name in ("pages", "rows", "clicked", "clicks")}
    return ImportReport(
        source=source,
        out=str(out),
        came_in=joined.came_in,
        **facts,
        set_aside=joined.set_aside,
        joined=joined.joined,
        notes=tuple(records.notes),
        seconds=seconds,
    )
