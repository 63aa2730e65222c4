"""How much memory an engine has, and what its complaints mean when that, the disk or a file is at fault."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cldrank.clicks.log.paths import LogSource
from cldrank.errors import CldrankError, DataError, UsageError, setting
from cldrank.reading import reason
from cldrank.wording import some

MOST_NAMED = 3  # files, in a message
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def memory_bytes(text: str) -> int:
    """A memory limit such as 3GB in bytes.

    >>> memory_bytes("3GB"), memory_bytes("1.5 GiB")
    (3000000000, 1610612736)
    """
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([kmgt]i?|)b\s*", str(text), re.IGNORECASE)
    size = int(float(found[1]) * _UNITS[found[2].lower()]) if found else 0
    if size <= 0:
        raise UsageError(
            "{} must be an amount of memory such as 3GB, 500MB or 2GiB, not {!r}.", setting("memory_limit"), text
        )
    return size


def check_interrupted(error: Exception) -> None:
    """Raise KeyboardInterrupt where an error is how DuckDB says that a signal came while it computed."""
    if str(error) == "Query interrupted" or type(error).__name__ == "InterruptException":
        raise KeyboardInterrupt from error


@contextmanager
def querying(paths: Sequence[LogSource]) -> Iterator[None]:
    """Engines read files while a query runs: their complaints become errors that name the files."""
    try:
        yield
    except (CldrankError, MemoryError, AssertionError):
        raise
    except Exception as error:  # every engine has its own exceptions
        if is_exhausted(error):
            raise  # `connected` knows the limits
        check_interrupted(error)
        raise DataError(f"{some(paths, MOST_NAMED)}: the log cannot be read ({reason(error)}).") from error


@contextmanager
def explaining(limit: str, folder: str) -> Iterator[None]:
    """Turn DuckDB's errors about memory or disk that ran out into advice."""
    try:
        yield
    except Exception as error:
        if isinstance(error, CldrankError) or not is_exhausted(error):
            raise
        if "Out of Memory" in str(error) and "max_temp_directory_size" not in str(error):
            raise CldrankError(
                "DuckDB ran out of memory within the limit of {}, although it spills to disk; raise {} ({}).",
                limit,
                setting("memory_limit"),
                reason(error),
            ) from error
        raise CldrankError(
            "the disk is full: DuckDB spills to {} what does not fit in the memory limit of {}. Make room there, name "
            "another folder with the environment variable TMPDIR, or raise {} ({}).",
            folder,
            limit,
            setting("memory_limit"),
            reason(error),
        ) from error


def is_exhausted(error: Exception) -> bool:
    """Whether memory or the disk ran out."""
    ours = type(error).__module__.startswith(("duckdb", "_duckdb"))
    return ours and any(words in str(error) for words in ("Out of Memory", "Could not write"))
