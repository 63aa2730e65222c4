"""A look at the first record of a file: which format it seems to be in, and what else may be wrong with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cldrank.clicks.log.paths import files_below, format_of
from cldrank.errors import DataError, FormatError, Spelling
from cldrank.reading import reading
from cldrank.wording import some

FORMATS = ("ubi", "metarank", "yandex")
_START = 1 << 20
_MOST_NAMED = 12
_YANDEX_TYPES = ("Q", "C")


def check_format(source: str, paths: Sequence[Path]) -> None:
    """Refuse files that are empty, that hold one JSON array, or that look like another format than the one named."""
    files = [file for file, _ in files_below(paths)]
    starts = {file: _start(file) for file in files if not _is_table(file)}
    if starts and len(starts) == len(files) and not any(map(str.strip, starts.values())):
        raise DataError(f"{some(paths, 3)}: the log is empty, it has no records.")
    for file, start in starts.items():
        line = _first_line(start)
        if line.startswith("["):
            raise FormatError("a JSON array; write one record per line, as `jq -c '.[]'` does.", path=file)
        found = format_of_line(line)
        if line and found != source and found is not None:
            raise FormatError(
                "this looks like {}, not {}; import it with {}.",
                _NAMES[found],
                _NAMES[source],
                Spelling(f"import_log({found!r}, …)", f"--from {found}"),
                path=file,
            )


_NAMES = {"ubi": "UBI", "metarank": "events of Metarank", "yandex": "a log of Yandex"}


def format_of_line(line: str) -> str | None:
    r"""The format that the first line of a file seems to be in; None where nothing tells.

    >>> format_of_line('{"event": "ranking", "id": "1", "items": []}'), format_of_line("1\t0\tQ\t7\t2\t11\t12")
    ('metarank', 'yandex')
    """
    fields = line.split("\t")
    if len(fields) >= 4 and fields[2] in _YANDEX_TYPES and fields[0].isdigit():
        return "yandex"
    record = _record(line)
    if record is None:
        return None
    record = record.get("_source", record) if isinstance(record.get("_source"), dict) else record
    if isinstance(record.get("event"), str) and {"items", "item", "ranking", "id"} & set(record):
        return "metarank"
    if {"action_name", "user_query", "query_response_id", "query_response_hit_ids"} & set(record):
        return "ubi"
    return None


def fields_of(paths: Sequence[Path]) -> str:
    """The fields of the first record, for messages."""
    for file, _ in files_below(paths):
        record = None if _is_table(file) else _record(_first_line(_start(file)))
        if record:
            inner = record.get("_source")
            return some(inner if isinstance(inner, dict) else record, _MOST_NAMED)
    return "unknown"


def first_line(path: Path) -> str:
    """The first line of a text file that is not blank."""
    return _first_line(_start(path))


def _is_table(path: Path) -> bool:
    try:
        return format_of(path) != "json"
    except DataError:  # text, without a suffix that we know
        return False


def _start(path: Path) -> str:
    import pyarrow as pa

    with reading(path, "a log"), pa.input_stream(str(path), compression="detect") as stream:
        found: str = stream.read(_START).decode("utf-8-sig", errors="replace")
    return found


def _first_line(start: str) -> str:
    return next((line for line in start.splitlines() if line.strip()), "").strip("\r\n ")


def _record(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
