"""Lines of published text files, compressed with gzip, with their numbers; and values in them."""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cldrank.errors import FormatError
from cldrank.reading import reading, reason
from cldrank.wording import kind_of

_WHOLE = re.compile("[0-9]{1,18}")


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
        except (ValueError, RecursionError) as error:
            raise FormatError(f"not JSON ({reason(error)}).", path=path, line=number) from error
        if not isinstance(found, dict):
            raise FormatError(f"holds {kind_of(found)}; a JSON object is wanted.", path=path, line=number)
        yield number, found


def as_id(value: Any, what: str) -> int:
    """A whole number, written as one or as text; anything else is a `ValueError`.

    >>> as_id("17", "the item"), as_id(17, "the item")
    (17, 17)
    """
    if isinstance(value, bool) or not isinstance(value, int | str) or not _WHOLE.fullmatch(str(value)):
        raise ValueError(f"{what} is {str(value)[:80]!r}, not a whole number")
    return int(value)


def finite_number(value: Any, what: str) -> float:
    """A finite number, written as one or as text; anything else is a `ValueError`.

    >>> finite_number(1.5, "the rating"), finite_number("7", "the rating")
    (1.5, 7.0)
    """
    try:
        found = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = float("nan")
    if not math.isfinite(found):
        raise ValueError(f"{what} is {str(value)[:80]!r}, not a number")
    return found


def as_texts(value: Any, what: str) -> list[str]:
    """A text, or several; anything else is a `ValueError`.

    >>> as_texts("a b", "the tags"), as_texts(["a", "b"], "the tags"), as_texts(None, "the tags")
    (['a b'], ['a', 'b'], [])
    """
    found = [] if value is None else value if isinstance(value, list) else [value]
    if not all(isinstance(one, str | int | float) and not isinstance(one, bool) for one in found):
        raise ValueError(f"{what} is {str(value)[:80]!r}, not text")
    return [str(one) for one in found]
