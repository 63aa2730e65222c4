"""The exceptions a user can meet. Each says what happened, where, which value, and what to do."""

from __future__ import annotations

from os import PathLike


class CldrankError(Exception):
    """The base of every error that cldrank raises for a reason the user can act on.

    >>> issubclass(DataError, CldrankError)
    True
    """


class DataError(CldrankError, ValueError):
    """Data that cannot be what it claims to be: wrong shapes, NaN, empty queries, ids that clash."""


class FormatError(DataError):
    """A file that breaks its format, at a place that can be named.

    >>> print(FormatError("feature 17 appears twice", path="train.txt", line=1042))
    train.txt:1042: feature 17 appears twice
    """

    def __init__(
        self, message: str, *, path: str | PathLike[str], line: int | None = None, column: int | None = None
    ) -> None:
        place = ":".join(str(part) for part in (path, line, column) if part is not None)
        super().__init__(f"{place}: {message}")
        self.path = str(path)
        self.line = line
        self.column = column


class UnidentifiableError(DataError):
    """A log that cannot tell what was asked of it, however long one looks; the message says what would be needed.

    positions   those that cannot be told, from 1
    depth       how many positions from the top can be; below 2, none

    >>> UnidentifiableError("position 3 was never compared.", positions=(3,), depth=2).depth
    2
    """

    def __init__(self, message: str, *, positions: tuple[int, ...] = (), depth: int = 0) -> None:
        super().__init__(message)
        self.positions = positions
        self.depth = depth


class UsageError(CldrankError, ValueError):
    """A call that asks for something that does not exist or does not fit together."""


class MissingDependencyError(CldrankError, ImportError):
    """An optional package is needed and not installed."""


class DownloadError(CldrankError, OSError):
    """A data set could not be fetched; what is on disk is still whole."""


class CldrankWarning(UserWarning):
    """The base of every warning: the result stands, but there is something to know before it is used."""


class ConvergenceWarning(CldrankWarning):
    """A fit that did not end at an optimum; its `status_` says how it ended."""
