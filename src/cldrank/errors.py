"""The exceptions a user can meet. Each says what happened, where, which value, and what to do."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple

__all__ = [
    "CldrankError",
    "CldrankWarning",
    "ConvergenceWarning",
    "DataError",
    "DownloadError",
    "FormatError",
    "MissingDependencyError",
    "MissingValueError",
    "UnidentifiableError",
    "UsageError",
]

Language = Literal["python", "shell"]
_PACKAGE = str(Path(__file__).parent)
_LISTENING: ContextVar[tuple[list[CldrankWarning], ...]] = ContextVar("listening", default=())


class Spelling(NamedTuple):
    """Something that a Python program and the command line spell differently.

    >>> Spelling("AllPairs", "all-pairs").shell
    'all-pairs'
    """

    python: str
    shell: str


def setting(name: str, value: Any = None) -> Spelling:
    """A parameter, with its value if there is one.

    >>> setting("first_position", 0)
    Spelling(python='first_position=0', shell='--first-position 0')
    >>> setting("clip").shell
    '--clip'
    >>> setting("hidden", (64, 32)).shell
    '--hidden 64,32'
    """
    option = f"--{name.replace('_', '-')}"
    if value is None:
        return Spelling(name, option)
    typed = ",".join(map(str, value)) if isinstance(value, tuple | list) else value
    return Spelling(f"{name}={value!r}", f"{option} {typed}")


def worded(message: str, words: tuple[Any, ...], language: Language) -> str:
    """A message whose {} stand for words, some of them spelled by language.

    >>> worded("{} reads {}", (setting("first_position", 0), "log.csv"), "shell")
    '--first-position 0 reads log.csv'
    """
    if not words:
        return message
    return message.format(*(getattr(word, language) if isinstance(word, Spelling) else word for word in words))


class Worded:
    """A message that can be put into the words of Python or of the command line.

    message   the text; where there are words, each {} stands for one
    words     what the {} stand for: plain values, and a `Spelling` for what the shell spells differently
    """

    def __init__(self, message: str, *words: Any) -> None:
        super().__init__(message, *words)  # type: ignore[call-arg]  # the exception that it is mixed into takes them
        self.message, self.words = message, words

    def said(self, language: Language) -> str:
        """The message in the words of Python or of the shell."""
        return worded(self.message, self.words, language)

    def __str__(self) -> str:
        return self.said("python")

    def __reduce__(self) -> tuple[Any, ...]:
        """How it is pickled: errors come back from other processes with all they know, keyword arguments included."""
        return _revived, (type(self), self.message, self.words, vars(self).copy())


def _revived(kind: type[Worded], message: str, words: tuple[Any, ...], state: dict[str, Any]) -> Worded:
    found = kind.__new__(kind, message, *words)  # type: ignore[call-arg]  # as above
    Worded.__init__(found, message, *words)
    vars(found).update(state)
    return found


class CldrankError(Worded, Exception):
    """The base of every error that cldrank raises for a reason the user can act on.

    >>> error = UsageError("{} must be above 0, not {}.", setting("clip"), -1)
    >>> print(error)
    clip must be above 0, not -1.
    >>> error.said("shell")
    '--clip must be above 0, not -1.'
    """


@contextmanager
def advising_columns(spelled: Callable[[str], str]) -> Iterator[None]:
    """Within the block, errors that advise `--column ROLE=…` advise what `spelled` makes of that option instead.

    For commands where `--column` means the columns of another file.

    >>> try:
    ...     with advising_columns(lambda option: f"--log{option[1:]}"):
    ...         raise UsageError("Name it with {}.", Spelling("columns", "--column doc_id=NAME"))
    ... except UsageError as error:
    ...     error.said("shell")
    'Name it with --log-column doc_id=NAME.'
    """
    try:
        yield
    except CldrankError as error:
        error.words = tuple(
            spelled(word.shell) if isinstance(word, Spelling) and word.shell.startswith("--column ") else word
            for word in error.words
        )
        raise


class DataError(CldrankError, ValueError):
    """Data that cannot be what it claims to be: wrong shapes, NaN, empty queries, ids that clash.

    >>> import cldrank as cr
    >>> cr.RankingDataset.from_arrays([[1.0], [float("inf")]], [7, 7])
    Traceback (most recent call last):
    cldrank.errors.DataError: ...
    """


class MissingValueError(DataError):
    """Features with missing values, for something that cannot use those.

    >>> issubclass(MissingValueError, DataError)
    True
    """


class FormatError(DataError):
    """A file that breaks its format, at a place that can be named.

    >>> print(FormatError("feature 17 appears twice", path="train.txt", line=1042))
    train.txt:1042: feature 17 appears twice
    """

    def __init__(
        self,
        message: str,
        *words: Any,
        path: str | PathLike[str],
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(message, *words)
        self.path = str(path)
        self.line = line
        self.column = column

    def said(self, language: Language) -> str:
        """The message behind the place."""
        place = ":".join(str(part) for part in (self.path, self.line, self.column) if part is not None)
        return f"{place}: {super().said(language)}"


class UnidentifiableError(DataError):
    """A log that cannot tell what was asked of it, however long one looks; the message says what would be needed.

    positions   those that cannot be estimated, from 1
    depth       how many positions from the top can be; below 2, none

    >>> UnidentifiableError("position 3 was never compared.", positions=(3,), depth=2).depth
    2
    """

    def __init__(self, message: str, *words: Any, positions: tuple[int, ...] = (), depth: int = 0) -> None:
        super().__init__(message, *words)
        self.positions = positions
        self.depth = depth


class UsageError(CldrankError, ValueError):
    """A call that asks for something that does not exist or does not fit together.

    >>> import cldrank as cr
    >>> cr.Run(seed=-1)
    Traceback (most recent call last):
    cldrank.errors.UsageError: seed must be a whole number of at least 0, not -1.
    """


class MissingDependencyError(CldrankError, ImportError):
    """An optional package is needed and not installed.

    >>> issubclass(MissingDependencyError, ImportError)
    True
    """


class DownloadError(CldrankError, OSError):
    """A data set could not be fetched; what is on disk is still whole.

    >>> issubclass(DownloadError, OSError)
    True
    """


class CldrankWarning(Worded, UserWarning):
    """The base of every warning: the result stands, but there is something to know before it is used.

    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", CldrankWarning)
    ...     warn(CldrankWarning("position 5 has few impressions."))
    >>> print(caught[0].message)
    position 5 has few impressions.
    """


class ConvergenceWarning(CldrankWarning):
    """A fit that did not end at an optimum; its `status_` says how it ended.

    >>> issubclass(ConvergenceWarning, CldrankWarning)
    True
    """


def warn(warning: CldrankWarning) -> None:
    """Warn at the line of the user's that led here, however deep inside cldrank the reason was found."""
    for heard in _LISTENING.get():
        heard.append(warning)
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(warning, stacklevel=level)


@contextmanager
def hearing_warnings() -> Iterator[list[CldrankWarning]]:
    """A list of all our warnings within the block, which are given as ever, whatever filters make of them.

    >>> with warnings.catch_warnings(action="ignore"), hearing_warnings() as heard:
    ...     warn(CldrankWarning("{} was raised", setting("clip")))
    >>> heard[0].said("shell")
    '--clip was raised'
    """
    heard: list[CldrankWarning] = []
    token = _LISTENING.set((*_LISTENING.get(), heard))
    try:
        yield heard
    finally:
        _LISTENING.reset(token)
