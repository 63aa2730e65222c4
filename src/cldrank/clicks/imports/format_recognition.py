"""A look at the first record of a file: which format it seems to be in, and what else may be wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cldrank.errors import DataError, FormatError
from cldrank.reading import reading
from cldrank.tables.sources import text_files
from cldrank.wording import some

FORMATS = {"ubi": "UBI", "metarank": "events of Metarank", "yandex": "a log of Yandex"}
_START = 1 << 20
_PARQUET = (".parquet", ".pq")


def check_format(source: str, paths: Any) -> None:
    """Refuse files that are empty, that hold one JSON array, or that look like another format than the one named."""
    files = text_files(paths, "log")
    lines = {file: first_line(file) for file in files if file.suffix not in _PARQUET}
    if lines and len(lines) == len(files) and not any(lines.values()):
        raise DataError(f"{some(files, 3)}: the log is empty, it has no records.")
    for file, line in lines.items():
        if line.startswith("["):
            raise FormatError("a JSON array; write one record per line, as `jq -c '.[]'` does.", path=file)
        seems = format_of_line(line)
        if seems is not None and seems != source:
            raise FormatError(f"this looks like {FORMATS[seems]}, not {FORMATS[source]}; import it as such.", path=file)


def format_of_line(line: str) -> str | None:
    """The format that the first line of a file seems to be in; None where nothing tells."""
    fields = line.split("\t")
    if len(fields) >= 4 and fields[2] in ("Q", "C") and fields[0].isdigit():
        return "yandex"
    try:
        record = json.loads(line)
    except ValueError:
        return None
    record = record if isinstance(record, dict) else {}
    record = record["_source"] if isinstance(record.get("_source"), dict) else record
    if isinstance(record.get("event"), str) and {"items", "item", "ranking", "id"} & set(record):
        return "metarank"
    if {"action_name", "user_query", "query_response_id", "query_response_hit_ids"} & set(record):
        return "ubi"
    return None


def first_line(path: Path) -> str:
    """The first line of a text file that is not blank, of its first MiB."""
    import pyarrow as pa

    with reading(path, "a log"), pa.input_stream(str(path), compression="detect") as stream:
        start: str = stream.read(_START).decode("utf-8-sig", errors="replace")
    return next((line for line in start.splitlines() if line.strip()), "").strip("\r\n ")
