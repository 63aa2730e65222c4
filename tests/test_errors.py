"""Errors and warnings: what they say to Python and to the shell, and that they survive a process boundary."""

import copy
import inspect
import pickle
import warnings
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from cldrank import errors
from cldrank.errors import (
    CldrankError,
    CldrankWarning,
    DataError,
    FormatError,
    Spelling,
    UnidentifiableError,
    UsageError,
    Worded,
    setting,
    worded,
)
from cldrank.estimators import NotFittedError

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Worded)]
KINDS = [kind for kind in KINDS if kind is not Worded] + [NotFittedError]
MORE: dict[type, dict[str, Any]] = {
    FormatError: {"path": "train.txt", "line": 7, "column": 3},
    UnidentifiableError: {"positions": (2, 3), "depth": 1},
}
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def make(kind: Any, *parts: Any) -> Any:
    return kind(*parts, **MORE.get(kind, {}))


@every_kind
@pytest.mark.parametrize(
    "parts",
    [
        ("nothing works",),
        ("{} must be above {}, not {}.", setting("first_position"), 0, -1.5),
        ("{} and {} and {} and {} and {}", 1, 2, 3, 4, setting("a_b", "c")),
        ("a set like {1, 2} and {name} in a message without words",),
        ("{} is odd", "{a word} with {braces}"),
    ],
    ids=["plain", "words", "many", "braces", "braces in a word"],
)
def test_it_is_the_same_after_pickling_and_copying(kind: Any, parts: tuple[Any, ...]) -> None:
    error = make(kind, *parts)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301
        assert type(again) is kind
        assert (again.message, again.words) == (parts[0], parts[1:])
        for language in ("python", "shell"):
            assert again.said(language) == error.said(language)
        assert str(again) == str(error)
        assert {name: getattr(again, name) for name in MORE.get(kind, {})} == MORE.get(kind, {})


def raise_it(kind: Any) -> None:
    raise make(kind, "{} must be {}", setting("a_b", 3), "{4}")


def test_errors_come_through_from_another_process() -> None:
    """An error that cannot be unpickled breaks the whole pool."""
    with ProcessPoolExecutor(1) as pool:
        for kind in KINDS:
            error: Any = pool.submit(raise_it, kind).exception(timeout=60)
            assert type(error) is kind
            assert error.said("shell").endswith("--a-b 3 must be {4}")


def test_notes_survive_pickling() -> None:
    error = FormatError("feature 17 appears twice", path="a.txt")
    error.add_note("read by a worker")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["read by a worker"]  # noqa: S301


@every_kind
def test_it_says_the_same_thing_in_two_languages(kind: Any) -> None:
    place = "train.txt:7:3: " if kind is FormatError else ""
    error = make(kind, "{} reads {}, {}", setting("first_position", 0), "log {x}.csv", Spelling("call()", "`command`"))
    assert str(error) == error.said("python") == f"{place}first_position=0 reads log {{x}}.csv, call()"
    assert error.said("shell") == f"{place}--first-position 0 reads log {{x}}.csv, `command`"


@every_kind
def test_without_words_braces_are_text(kind: Any) -> None:
    text = "{} and {name!r} are what {0} says"
    assert str(make(kind, text)).endswith(text)
    assert make(kind, text).said("shell").endswith(text)


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
    assert str(FormatError("{}", "twice", **place)) == expected


def test_positions_that_cannot_be_told_are_data() -> None:
    error = UnidentifiableError("{} was never compared.", "position 3", positions=(3,), depth=2)
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
        (NotFittedError, (UsageError,)),
    ],
)
def test_errors_are_also_those_that_python_has_for_it(kind: type, families: tuple[type, ...]) -> None:
    assert issubclass(kind, (CldrankError, *families))
    assert all(issubclass(kind, family) for family in families)


def test_warnings_are_warnings() -> None:
    with pytest.warns(errors.ConvergenceWarning, match="max_steps=3"):
        warnings.warn(errors.ConvergenceWarning("raise {}", setting("max_steps", 3)), stacklevel=1)
    assert issubclass(CldrankWarning, UserWarning)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (setting("clip"), ("clip", "--clip")),
        (setting("first_position", 0), ("first_position=0", "--first-position 0")),
        (setting("sigma", "estimate"), ("sigma='estimate'", "--sigma estimate")),
        (setting("position_effects", True), ("position_effects=True", "--position-effects True")),
        (setting("C", 0.5), ("C=0.5", "--C 0.5")),
    ],
)
def test_a_setting_is_spelled_for_both(given: Spelling, expected: tuple[str, str]) -> None:
    assert given == expected


def test_words_are_put_in_as_they_are() -> None:
    assert worded("{:,} rows of {}", (1234567, "{}"), "python") == "1,234,567 rows of {}"
    assert worded("{} {{literally}}", ("x",), "shell") == "x {literally}"
    assert worded("{literally}", (), "shell") == "{literally}"
