"""The exceptions a user can meet. Each says what happened, where, which value, and what to do."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from os import PathLike
from pathlib import Path
from typing import Any

__all__ = [
    "CldrankError", "CldrankWarning", "ConvergenceWarning", "DataError", "DownloadError", "FormatError",
    "MissingDependencyError", "MissingValueError", "UnidentifiableError", "UsageError",
]  # fmt: skip

_PACKAGE = str(Path(__file__).parent)
_LISTENING: ContextVar[tuple[list[CldrankWarning], ...]] = ContextVar("listening", default=())


class CldrankError(Exception):
    """The base of every error that cldrank raises for a reason the user can act on.

    A message names parameters in backticks, as Python spells them; the command line turns those into options.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the error with all it knows, keyword arguments included: errors come back from other processes."""
        return type(self).__new__, (type(self), *self.args), vars(self).copy()


class DataError(CldrankError, ValueError):
    """Data that cannot be what it claims to be: wrong shapes, NaN, empty queries, ids that clash."""


class MissingValueError(DataError):
    """Features with missing values, for something that cannot use those."""


class FormatError(DataError):
    """A file that breaks its format, at a place that can be named.

    >>> print(FormatError("feature 17 appears twice", path="train.txt", line=1042))
    train.txt:1042: feature 17 appears twice
    """

    def __init__(
        self, message: str, *, path: str | PathLike[str], line: int | None = None, column: int | None = None
    ) -> None:
        super().__init__(message)
        self.path, self.line, self.column = str(path), line, column

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.path, self.line, self.column) if part is not None)
        return f"{place}: {super().__str__()}"


class UnidentifiableError(DataError):
    """A log that cannot answer the question, however long it is; the message says what would be needed.

    positions   the positions that cannot be estimated, from 1
    depth       how many positions from the top can be; below 2, none
    reason      why, in one sentence without a full stop
    """

    def __init__(self, message: str, *, positions: tuple[int, ...] = (), depth: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.positions, self.depth, self.reason = positions, depth, reason


class UsageError(CldrankError, ValueError):
    """A call that asks for something that does not exist or does not fit together.

    >>> import cldrank as cr
    >>> cr.Run(seed=-1)
    Traceback (most recent call last):
    cldrank.errors.UsageError: `seed` must be a whole number of at least 0, not -1.
    """


class NotFittedError(UsageError):
    """A method is used before `fit`."""


class OutOfRangeError(UsageError, IndexError):
    """A query beyond the last; as an `IndexError`, it ends a loop over the queries."""


class MissingDependencyError(CldrankError, ImportError):
    """An optional package is needed and not installed."""


class DownloadError(CldrankError, OSError):
    """A data set could not be fetched; what is on disk is still whole."""


class CldrankWarning(UserWarning):
    """The base of every warning: the result stands, but there is something to know before it is used."""


class ConvergenceWarning(CldrankWarning):
    """A fit that did not end at an optimum; its `status_` says how it ended."""


def warn(warning: CldrankWarning) -> None:
    """Warn at the line of the user's code that led here, however deep inside cldrank the reason lies."""
    for heard in _LISTENING.get():
        heard.append(warning)
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(warning, stacklevel=level)


@contextmanager
def hearing_warnings() -> Iterator[list[CldrankWarning]]:
    """A list of all our warnings within the block, even those that filters ignore; they are also issued as usual.

    >>> with warnings.catch_warnings(action="ignore"), hearing_warnings() as heard:
    ...     warn(CldrankWarning("position 5 has few impressions."))
    >>> print(heard[0])
    position 5 has few impressions.
    """
    heard: list[CldrankWarning] = []
    token = _LISTENING.set((*_LISTENING.get(), heard))
    try:
        yield heard
    finally:
        _LISTENING.reset(token)
