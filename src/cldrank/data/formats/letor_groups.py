"""Group files: the number of rows of each query, for LETOR rows without `qid:`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.data.formats.lines import read_blocks
from cldrank.errors import FormatError, Spelling

_SUFFIXES = (".query", ".group")  # the names LightGBM and XGBoost look for
_MOST_DIGITS = 18  # of a number that fits 64 bits


def group_candidates(path: Path) -> list[Path]:
    """Where the group file of a data file is looked for."""
    return [path.with_name(path.name + suffix) for suffix in _SUFFIXES]


def group_files(paths: Sequence[Path], groups: Sequence[Path] | None, with_queries: bool) -> list[Path]:
    """The group files that go with the data files; none where the rows carry their queries themselves."""
    if groups is not None:
        if with_queries:
            raise FormatError(f"the rows have `qid:` already; leave the group file {groups[0]} out.", path=paths[0])
        if len(groups) != len(paths):
            raise FormatError(f"there are {len(groups)} group files for {len(paths)} data files.", path=paths[0])
        return list(groups)
    if with_queries:
        return []
    found = []
    for path in paths:
        beside = group_candidates(path)
        existing = [candidate for candidate in beside if candidate.exists()]
        if not existing:
            raise FormatError(
                "the rows have no `qid:`, and there is no {} beside it that says how many rows each query has; name "
                "one with {}.",
                " or ".join(candidate.name for candidate in beside),
                Spelling("groups=…", "--groups"),
                path=path,
            )
        found.append(existing[0])
    return found


def group_sizes(paths: Sequence[Path]) -> Iterator[int]:
    """The number of rows of each query, one per line of these files."""
    for path in paths:
        for block in read_blocks(path):
            for number, line in enumerate(bytes(block.text).split(b"\n"), start=block.first_line):
                word = line.strip()
                if not word:
                    continue
                if not word.isdigit() or len(word) > _MOST_DIGITS or int(word) == 0:
                    shown = word.decode("utf-8", errors="backslashreplace")
                    raise FormatError(
                        f"{shown!r} is not a number of rows; each line holds one, at least 1.", path=path, line=number
                    )
                yield int(word)


def read_groups(paths: Sequence[Path], rows: int) -> IntArray:
    """Offsets from files that hold the number of rows of each query."""
    sizes = list(group_sizes(paths))
    check_total(paths, sum(sizes), rows)
    return segments.from_lengths(np.array(sizes, dtype=np.int64))


def check_total(paths: Sequence[Path], counted: int, rows: int) -> None:
    """Refuse group files that count other rows than the data has."""
    if counted != rows:
        raise FormatError(f"counts {counted:,} rows in all, but the data has {rows:,}.", path=paths[0])
