"""Errors and warnings: what they say, and that they survive a process boundary."""

import copy
import inspect
import pickle
import warnings
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
    ),
]
MORE: dict[type, dict[str, Any]] = {
    FormatError: {"path": "train.txt", "line": 7, "column": 3},
    UnidentifiableError: {"positions": (2, 3), "depth": 1},
}
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def make(kind: Any, message: str) -> Any:
    return kind(message, **MORE.get(kind, {}))


@every_kind
@pytest.mark.parametrize("message", ["nothing works", "a set like {1, 2} and {name}", "`clip=0` is odd: 100%"])
def test_it_is_the_same_after_pickling_and_copying(kind: Any, message: str) -> None:
    error = make(kind, message)
    assert str(error).endswith(message)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301
        assert type(again) is kind
        assert str(again) == str(error)
        assert {name: getattr(again, name) for name in MORE.get(kind, {})} == MORE.get(kind, {})


def raise_it(kind: Any) -> None:
    raise make(kind, "`a_b=3` must be {4}")


def test_errors_come_through_from_another_process() -> None:
    """An error that cannot be unpickled breaks the whole pool."""
    with ProcessPoolExecutor(1) as pool:
        for kind in KINDS:
            error: Any = pool.submit(raise_it, kind).exception(timeout=60)
            assert type(error) is kind
            assert str(error).endswith("`a_b=3` must be {4}")


def test_notes_survive_pickling() -> None:
    error = FormatError("feature 17 appears twice", path="a.txt")
    error.add_note("read by a worker")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["read by a worker"]  # noqa: S301


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ({"path": "a.txt"}, "a.txt: twice"),
        ({"path": "a.txt", "line": 3}, "a.txt:3: twice"),
        ({"path": "a.txt", "line": 3, "column": 9}, "a.txt:3:9: twice"),
        ({"path": "{odd}.txt", "line": 3}, "{odd}.txt:3: twice"),
    ],
)
def test_the_place_in_a_file_comes_first(place: dict[str, Any], expected: str) -> None:
    assert str(FormatError("twice", **place)) == expected


def test_positions_that_cannot_be_told_are_data() -> None:
    error = UnidentifiableError("position 3 was never compared.", positions=(3,), depth=2)
    assert (error.positions, error.depth) == ((3,), 2)
    assert (UnidentifiableError("none").positions, UnidentifiableError("none").depth) == ((), 0)


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


def test_warnings_are_warnings() -> None:
    with pytest.warns(errors.ConvergenceWarning, match="max_steps=3"):
        warnings.warn(errors.ConvergenceWarning("raise `max_steps=3`"), stacklevel=1)
    assert issubclass(CldrankWarning, UserWarning)
