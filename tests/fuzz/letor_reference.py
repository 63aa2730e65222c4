"""An independent LETOR reader: slow, plain, written from docs/how-to/data.md alone, without code of the package."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"\d+", re.ASCII)


class UnreadableError(Exception):
    """The text is not LETOR."""


def read(content: bytes) -> tuple[np.ndarray[Any, Any], list[float], list[str]]:
    """Features (rows × features, from id 0 or 1), labels and query ids, in the order of the file."""
    rows: list[dict[int, float]] = []
    labels: list[float] = []
    queries: list[str] = []
    text = content.removeprefix(b"\xef\xbb\xbf").decode(
        "utf-8", errors="backslashreplace"
    )  # comments may hold anything
    for line in text.replace("\r\n", "\n").split("\n"):
        words = line.partition("#")[0].split(" ") if "\t" not in line else re.split("[ \t]", line.partition("#")[0])
        words = [word for word in words if word]
        if not words:
            continue
        if len(words) < 2 or not words[1].startswith("qid:") or len(words[1]) == 4:
            raise UnreadableError("no qid")
        labels.append(_number(words[0]))
        queries.append(words[1][4:])
        row: dict[int, float] = {}
        for word in words[2:]:
            name, colon, value = word.partition(":")
            if not colon or not _WHOLE.fullmatch(name) or int(name) in row:
                raise UnreadableError(f"a feature {word!r}")
            row[int(name)] = _number(value)
        rows.append(row)
    if not rows:
        raise UnreadableError("no rows")
    ids = {name for row in rows for name in row}
    first = 0 if 0 in ids else 1
    table = np.zeros((len(rows), max(ids, default=first - 1) + 1 - first), dtype=np.float32)
    for place, row in enumerate(rows):
        for name, value in row.items():
            table[place, name - first] = value
    return table, labels, queries


def _number(word: str) -> float:
    if not _NUMBER.fullmatch(word):
        raise UnreadableError(f"a number {word!r}")
    value = float(word)
    with np.errstate(over="ignore"):
        if not np.isfinite(np.float32(value)):
            raise UnreadableError(f"not finite: {word!r}")
    return value
