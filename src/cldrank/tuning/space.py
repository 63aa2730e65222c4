"""What is tried: the values of each parameter, and a method with some of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cldrank.errors import FormatError, Spelling, UsageError
from cldrank.estimators import Method
from cldrank.estimators.registry import unused_settings
from cldrank.parameters import parameters
from cldrank.reading import reading

Value = bool | int | float | str | None


def _can_be_tried(value: object) -> bool:
    """Whether it is a word or a number, and none too long for 64 bits."""
    if isinstance(value, int):
        return abs(value) < 1 << 63
    return isinstance(value, Value) and value == value  # NaN is unlike itself


@dataclass(frozen=True)
class Range:
    """All numbers from low to high; drawn evenly by ratio where `log` says so; whole ones if both ends are whole.

    >>> 0.01 in Range(1e-3, 1e-2, log=True), 5 in Range(1, 4)
    (True, False)
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        ends = self.low, self.high
        numbers = all(_can_be_tried(end) and isinstance(end, int | float) and abs(end) < math.inf for end in ends)
        if not numbers or not isinstance(self.log, bool) or not self.low < self.high or (self.log and self.low <= 0):
            raise UsageError(
                f"a range goes from low to a larger high (above 0 by ratio), not {self.low!r} … {self.high!r}."
            )

    def __contains__(self, value: object) -> bool:
        whole = isinstance(value, int | float) and (not self.is_whole or value == int(value))
        return whole and self.low <= value <= self.high  # type: ignore[operator]

    def spaced(self, points: int) -> tuple[float, ...]:
        """So many of them, evenly spaced (by ratio if `log`), rounded to 12 digits so that they print as meant.

        >>> Range(0.001, 0.1, log=True).spaced(3)
        (0.001, 0.01, 0.1)
        """
        spaced = np.geomspace if self.log else np.linspace
        return tuple(float(f"{value:.12g}") for value in spaced(self.low, self.high, points))

    @property
    def is_whole(self) -> bool:
        """Whether only whole numbers are meant."""
        return isinstance(self.low, int) and isinstance(self.high, int)


Values = Sequence[Value] | Range
Space = Mapping[str, Values]


def default_space(method: Method) -> dict[str, Values]:
    """The ranges that the parameters of a method and its model declare: those of the paper, which has C = 1.

    A parameter that is not at its default has been chosen, and is not searched.

    >>> from cldrank.estimators import IPS, CLDPair
    >>> default_space(IPS()), list(default_space(CLDPair()))
    ({'l2': Range(low=0.001, high=0.01, log=True)}, ['selection_weight', 'l2', 'learning_rate', 'dropout'])
    """
    declared = {**parameters(type(method)), **parameters(type(method.model))}
    now = values_of(method, list(tunable(method)))
    tried = {name: declared[name].tried for name, value in now.items() if value == declared[name].default}
    return dict(parse_range(f"{name}={text}") for name, text in tried.items() if text)


def tunable(method: Method) -> dict[str, str]:
    """The parameters that decide what is learned, by flat names, and how scikit-learn spells each.

    Those that have no effect on the method with its model are left out.

    >>> from cldrank.estimators import CLD
    >>> [tunable(CLD())[name] for name in ("gamma", "l2")]
    ['gamma', 'model__l2']
    """
    own = {name: name for name in parameters(type(method)) if name not in ("model", "run")}
    unused = unused_settings(type(method), type(method.model))
    return {**own, **{name: f"model__{name}" for name in parameters(type(method.model)) if name not in unused}}


def check_space(method: Method, space: Space) -> dict[str, Values]:
    """The space, refused where it names a parameter that the method does not have, or nothing to try."""
    if not space:
        remedy = Spelling("", ": --range NAME=VALUES")
        raise UsageError("the space is empty; name at least one parameter and its values{}.", remedy)
    for name, values in space.items():
        if name not in tunable(method):
            known = ", ".join(sorted(tunable(method)))
            raise UsageError(f"{method.label} has no parameter {name!r} to tune; it has {known}.")
        if isinstance(values, Range):
            continue
        if isinstance(values, str) or not len(values) or not all(_can_be_tried(value) for value in values):
            raise UsageError(f"the values of {name} must be a list of numbers or words, or a Range, not {values!r}.")
        declared = {**parameters(type(method)), **parameters(type(method.model))}[name]
        for value in values:
            declared.check(value)
    return {name: values if isinstance(values, Range) else tuple(values) for name, values in space.items()}


def applied(method: Method, values: Mapping[str, Value]) -> Method:
    """A fresh method with some parameters changed, its own or those of its model.

    >>> from cldrank.estimators import CLDPair
    >>> applied(CLDPair(), {"l2": 0.01, "dropout": 0.0, "batch_queries": 64}).model
    MLP(l2=0.01, batch_queries=64, dropout=0.0)
    """
    from sklearn.base import clone

    fresh: Method = clone(method)
    spelled = tunable(method)
    return fresh.set_params(**{spelled[name]: value for name, value in values.items()})


def values_of(method: Method, names: Sequence[str]) -> dict[str, Value]:
    """The values that some parameters have now.

    >>> from cldrank.estimators import CLDPair
    >>> values_of(CLDPair(), ["l2", "dropout"])
    {'l2': 0.001, 'dropout': 0.2}
    """
    now, spelled = method.get_params(), tunable(method)
    return {name: now[spelled[name]] for name in names}


def parse_range(text: str) -> tuple[str, Values]:
    """A parameter and its values from a text.

    >>> parse_range("learning_rate=1e-3,2e-3")
    ('learning_rate', (0.001, 0.002))
    >>> parse_range("l2=1e-3..1e-2:log")
    ('l2', Range(low=0.001, high=0.01, log=True))
    """
    name, equals, rest = text.partition("=")
    if not equals or not name or not rest:
        raise UsageError(f"{text!r} is not a range; write l2=1e-3..1e-2:log or learning_rate=1e-3,2e-3.")
    ends, _, how = rest.partition(":")
    if ".." not in rest:
        return name, tuple(_value(part) for part in rest.split(","))
    low, high = (_value(part) for part in ends.split("..", 1))
    if how not in ("", "log") or not all(isinstance(end, int | float) for end in (low, high)):
        raise UsageError(f"{text!r} is not a range of numbers; write {name}=0.05..0.3, or {name}=1e-3..1e-2:log.")
    return name, Range(low, high, how == "log")  # type: ignore[arg-type]


def read_space(path: str | Path) -> dict[str, Values]:
    """A space from a TOML file: a list of values for a parameter, or a table of `low`, `high` and `log`."""
    import tomllib

    if not Path(path).exists():
        raise UsageError(f"{path}: no such file; a space is a TOML file, with l2 = [0.001, 0.01], say.")
    with reading(path, "a TOML file"):
        found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    space: dict[str, Values] = {}
    for name, entry in found.items():
        if isinstance(entry, dict) and {"low", "high"} <= set(entry) <= {"low", "high", "log"}:
            try:
                space[name] = Range(**entry)
            except UsageError as error:
                raise FormatError(f"{name}: {error}", path=path) from None
        elif isinstance(entry, list):
            space[name] = tuple(entry)
        else:
            raise FormatError(
                f"{name} is {entry!r}; write a list of values, or {{low = 0.05, high = 0.3, log = false}}.", path=path
            )
    return space


def _value(text: str) -> Value:
    words: dict[str, Value] = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
