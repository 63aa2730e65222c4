"""Parameters that describe themselves: what each kind of field accepts, and what frozen values share."""

import dataclasses
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from cldrank.arguments import Bounds, shortened
from cldrank.errors import UsageError
from cldrank.models import MLP, Linear
from cldrank.parameters import Value, check_all, described, learned, parameter, parameters, value


@value
class Inner(Value):
    size: int = parameter(default=1, about="how large", least=1)


@value
class Every(Value):
    """One parameter of each kind."""

    number: float = parameter(default=0.5, about="a number", above=0, most=1)
    whole: int = parameter(default=3, about="a whole number", least=0)
    flag: bool = parameter(default=False, about="a switch")
    text: str | None = parameter(default=None, about="a text")
    word: Literal["a", "b"] = parameter(default="a", about="one of two words")
    mixed: float | Literal["auto"] = parameter(default=1.0, about="a number or a word", above=0)
    optional: int | None = parameter(default=None, about="perhaps a number", least=1, most=9)
    numbers: Sequence[float] = parameter(default=(1.0, 2.0), about="some numbers", least=0)
    names: Sequence[str] | None = parameter(default=None, about="some names")
    path: str | PathLike[Any] | None = parameter(default=None, about="a file", compare=False)
    hook: Callable[[int], None] | None = parameter(default=None, about="called back", compare=False, option=False)
    inner: Literal["no"] | Inner = parameter(default="no", about="a word or a value")
    anything: Any = parameter(default=None, about="whatever")


make: Any = Every
NAN, INF = float("nan"), float("inf")
GOOD: dict[str, list[Any]] = {
    "number": [0.5, 1, np.float32(0.25), np.longdouble(0.5), np.int8(1)],
    "whole": [0, 10**300, np.int64(5), np.uint8(0)],
    "flag": [True, np.True_],
    "text": ["", None],
    "word": ["b"],
    "mixed": [0.1, "auto"],
    "optional": [None, 9, np.int32(4)],
    "numbers": [(), [1.5, 2], (np.float32(3),)],
    "names": [None, [], ("a",)],
    "path": ["x", Path("x"), None],
    "hook": [print, None],
    "inner": ["no", Inner(size=2)],
    "anything": [object(), NAN],
}
BAD: dict[str, list[Any]] = {
    "number": [0, 1.5, True, "0.5", None, NAN, INF, 10**400, np.float32("nan"), 1j, np.array([0.5])],
    "whole": [-1, 1.0, True, "3", None, 10**400, np.float64(3), np.True_],
    "flag": [0, 1, "yes", None],
    "text": [3, b"x", True],
    "word": ["c", "A", None, ["a"], True],
    "mixed": [0, "profile", None, NAN, True],
    "optional": [0, 10, 1.5, True],
    "numbers": [None, 1, "12", (1, -1), (1, "2"), (NAN,), (True,), ((1, 2),), np.array([1.0])],
    "names": ["ab", 3, (1, 2), [None]],
    "path": [3, b"x"],
    "hook": [3],
    "inner": ["yes", Inner, None],
}


@pytest.mark.parametrize(("name", "good"), [(name, one) for name, all_ in GOOD.items() for one in all_])
def test_what_fits_is_taken_as_it_is(name: str, good: Any) -> None:
    taken = getattr(Every(**{name: good}), name)
    assert taken == tuple(good) if isinstance(good, list) else taken is good
    assert parameters(Every)[name].accepts(good)


def test_a_value_does_not_change_with_the_list_it_was_made_of() -> None:
    sizes = [3]
    model = MLP(hidden=sizes)
    sizes.append(4)
    assert model == MLP(hidden=(3,))
    assert hash(model) == hash(MLP(hidden=(3,)))


@pytest.mark.parametrize(("name", "bad"), [(name, one) for name, all_ in BAD.items() for one in all_])
def test_what_does_not_fit_is_refused_by_name(name: str, bad: Any) -> None:
    with pytest.raises(UsageError, match=f"^`{name}` must be ") as caught:
        Every(**{name: bad})
    assert str(caught.value).endswith(f", not {shortened(bad)}.")
    assert not parameters(Every)[name].accepts(bad)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("number", "a number above 0 and up to 1"),
        ("mixed", "a number above 0, or 'auto'"),
        ("optional", "a whole number of at least 1 and up to 9, or None"),
        ("numbers", "a list of numbers of at least 0"),
        ("path", "a text or a PathLike, or None"),
        ("hook", "a Callable, or None"),
        ("inner", "'no' or an Inner"),
    ],
)
def test_the_refusal_says_what_it_must_be(name: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        make(**{name: b"odd"})
    assert str(caught.value) == f"`{name}` must be {words}, not b'odd'."


# -- what a declaration says ---------------------------------------------------------------------------------------


def test_parameters_are_listed_as_they_were_declared() -> None:
    found = parameters(Every)
    assert list(found) == [field.name for field in dataclasses.fields(Every)]
    assert found["number"].about == "a number"
    assert found["number"].bounds == Bounds(above=0, most=1)
    assert found["optional"].kinds == (int,)
    assert found["optional"].optional
    assert not found["number"].optional
    assert found["number"].default == 0.5
    assert not found["hook"].option
    assert found["path"].option


def test_what_a_fit_leaves_is_no_parameter() -> None:
    @described
    class Method:
        alpha: float = parameter(default=1.0, about="weight", least=0)
        found_: float = learned(about="what was found")

    method = Method(alpha=-1)  # a method is checked when it is fitted, as scikit-learn wants it
    assert list(parameters(Method)) == ["alpha"]
    assert not hasattr(method, "found_")
    with pytest.raises(UsageError, match="`alpha` must be a number of at least 0, not -1"):
        check_all(method)
    with pytest.raises(TypeError):
        Method(1.0)  # type: ignore[call-arg]


# -- values --------------------------------------------------------------------------------------------------------


def test_values_are_equal_if_their_parameters_are() -> None:
    assert Every(number=0.25) == Every(number=0.25)
    assert Every(number=0.25) != Every()
    assert len({Every(), Every(), Every(number=0.25)}) == 2
    assert Every(path="here", hook=print) == Every()  # they do not decide the result
    assert hash(Every(path="here")) == hash(Every())
    assert len({Every(), Inner(), Linear(), MLP()}) == 4


def test_values_are_frozen_and_keyword_only() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Every().number = 0.25  # type: ignore[misc]
    with pytest.raises(TypeError):
        Every(0.5)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="nonsense"):
        Every(nonsense=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "made",
    [
        Every(),
        Every(number=0.25, word="b", numbers=[3, 4], inner=Inner(size=7)),
        Every(mixed="auto", names=("x",), optional=2),
    ],
)
def test_the_repr_says_what_differs_and_can_be_run(made: Every) -> None:
    assert eval(repr(made)) == made  # noqa: S307
    assert all(f"{name}=" not in repr(made) for name in ("flag", "whole", "path"))


def test_the_repr_hides_what_does_not_decide() -> None:
    assert repr(Every(path="secret", hook=print)) == "Every()"
    assert repr(make(whole=np.int64(3))) == "Every(whole=np.int64(3))"
    assert repr(Every(anything=NAN)) == "Every(anything=nan)"
