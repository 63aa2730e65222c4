"""Errors and warnings: what they say, and that they survive a process boundary."""

import inspect
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from cldrank import errors
from cldrank.errors import CldrankError, CldrankWarning, DataError, FormatError, UnidentifiableError, UsageError

KINDS = [
    *(
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, CldrankError | CldrankWarning)
    )
]
MORE: dict[type, dict[str, Any]] = {
    FormatError: {"path": "train.txt", "line": 7, "column": 3},
    UnidentifiableError: {"positions": (2, 3), "depth": 1},
}


def make(kind: Any, message: str) -> Any:
    return kind(message, **MORE.get(kind, {}))


def raise_it(kind: Any) -> None:
    raise make(kind, "`a_b=3` must be {4}")


def test_errors_come_through_from_another_process() -> None:
    """An error that cannot be unpickled breaks the whole pool."""
    with ProcessPoolExecutor(1) as pool:
        for kind in KINDS:
            error: Any = pool.submit(raise_it, kind).exception(timeout=600)
            assert type(error) is kind
            assert str(error).endswith("`a_b=3` must be {4}")


@pytest.mark.parametrize(
    ("kind", "families"),
    [
        (DataError, (ValueError,)),
        (FormatError, (DataError, ValueError)),
        (UsageError, (ValueError,)),
        (errors.MissingDependencyError, (ImportError,)),
        (errors.DownloadError, (OSError,)),
        (errors.NotFittedError, (UsageError,)),
    ],
)
def test_errors_are_also_those_that_python_has_for_it(kind: type, families: tuple[type, ...]) -> None:
    assert issubclass(kind, (CldrankError, *families))
    assert all(issubclass(kind, family) for family in families)
