"""Lines of published text files, compressed with gzip, with their numbers."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cldrank.errors import FormatError
from cldrank.reading import reading, reason
from cldrank.wording import kind_of


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a compressed text that are not empty, without their ends, each with its number from 1."""
    with reading(path, "a text compressed by gzip"), gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            if line := line.rstrip("\r\n"):
                yield number, line


def json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The JSON objects of a file, one per line, each with the number of its line."""
    for number, line in text_lines(path):
        try:
            found = json.loads(line)
        except ValueError as error:
            raise FormatError(f"not JSON ({reason(error)}).", path=path, line=number) from error
        if not isinstance(found, dict):
            raise FormatError(f"holds {kind_of(found)}; a JSON object is wanted.", path=path, line=number)
        yield number, found
