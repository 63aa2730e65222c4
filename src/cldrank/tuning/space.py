"""What is tried: the values of each parameter, and a method with some of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cldrank.errors import UsageError
from cldrank.methods import Method
from cldrank.parameters import Parameter, parameters

Value = bool | int | float | str | None


@dataclass(frozen=True)
class Range:
    """Numbers from low to high, drawn uniformly or, with `log`, log-uniformly; whole numbers if both ends are whole.

    >>> 0.01 in Range(1e-3, 1e-2, log=True), 5 in Range(1, 4)
    (True, False)
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        are_numbers = all(_can_be_tried(end) and isinstance(end, int | float) for end in (self.low, self.high))
        least = 0 if self.log else -math.inf
        if not are_numbers or not least < self.low < self.high < math.inf:
            raise UsageError(
                f"a range goes from low to a larger high (above 0 by ratio), not {self.low!r} … {self.high!r}."
            )

    def __contains__(self, value: object) -> bool:
        is_number = isinstance(value, int | float) and (not self.is_whole or value == int(value))
        return is_number and self.low <= value <= self.high  # type: ignore[operator]

    @property
    def is_whole(self) -> bool:
        """Whether only whole numbers are meant."""
        return isinstance(self.low, int) and isinstance(self.high, int)


Values = Sequence[Value] | Range
Space = Mapping[str, Values]


def default_space(method: Method) -> dict[str, Values]:
    """The values that the parameters of a method and its model declare: those of the paper, which has C = 1.

    A parameter that is not at its default has been chosen, and is not searched.

    >>> from cldrank.methods import IPS, CLDPair
    >>> default_space(IPS()), list(default_space(CLDPair()))
    ({'l2': Range(low=0.001, high=0.01, log=True)}, ['l2', 'learning_rate', 'dropout'])
    """
    declared = tunable(method)
    now = values_of(method, list(declared))
    tried = {name: own.tried for name, own in declared.items() if own.tried and now[name] == own.default}
    return {name: parse_values(declared[name], text) for name, text in tried.items()}


def tunable(method: Method) -> dict[str, Parameter]:
    """The parameters of a method and its model that decide what is learned, and that have an effect on it."""
    unused = ("model", "run", *method.unheeded(type(method.model)))
    both = {**parameters(type(method)), **parameters(type(method.model))}
    return {name: declared for name, declared in both.items() if name not in unused}


def check_space(method: Method, space: Space) -> dict[str, Values]:
    """The space, refused where it names a parameter that the method does not have, or a value out of its bounds."""
    if not space:
        raise UsageError("the space is empty; name a parameter and its values.")
    declared = tunable(method)
    checked: dict[str, Values] = {}
    for name, values in space.items():
        if name not in declared:
            known = ", ".join(sorted(declared))
            raise UsageError(f"{method.label} has no parameter {name!r} to tune; it has {known}.")
        if isinstance(values, Range):
            if float in declared[name].kinds:
                values = Range(float(values.low), float(values.high), values.log)
            ends: Sequence[Value] = (values.low, values.high)
        elif isinstance(values, str) or not len(values) or not all(map(_can_be_tried, values)):
            raise UsageError(f"the values of {name} must be a list of numbers or words, or a Range, not {values!r}.")
        else:
            values = ends = tuple(values)
        for value in ends:
            declared[name].check(value)
        checked[name] = values
    return checked


def _can_be_tried(value: object) -> bool:
    """Whether it is a word or a number, and none too long for 64 bits."""
    if isinstance(value, int):
        return abs(value) < 1 << 63
    return isinstance(value, Value) and value == value  # NaN is unlike itself


def applied(method: Method, values: Mapping[str, Value]) -> Method:
    """A fresh method with some parameters changed, its own or those of its model."""
    from sklearn.base import clone

    fresh: Method = clone(method)
    return fresh.set_params(**{_long_name(method, name): value for name, value in values.items()})


def values_of(method: Method, names: Sequence[str]) -> dict[str, Value]:
    """The values that some parameters have now."""
    now = method.get_params()
    return {name: now[_long_name(method, name)] for name in names}


def _long_name(method: Method, name: str) -> str:
    """How scikit-learn spells a parameter of a method or of its model."""
    return name if name in parameters(type(method)) else f"model__{name}"


def parse_values(parameter: Parameter, text: str) -> Values:
    """The values of a parameter from a text: `LOW:HIGH`, `LOW:HIGH:log`, or some, separated by commas.

    >>> from cldrank.methods import CLDPair
    >>> known = tunable(CLDPair())
    >>> parse_values(known["learning_rate"], "1e-3,2e-3"), parse_values(known["l2"], "1e-3:1e-2:log")
    ((0.001, 0.002), Range(low=0.001, high=0.01, log=True))
    """
    low, colon, rest = text.partition(":")
    if not colon or not {int, float} & set(parameter.kinds):
        return tuple(parameter.parse(part) for part in text.split(","))
    high, _, how = rest.partition(":")
    if how not in ("", "log"):
        raise UsageError(f"`{parameter.name}`: {text!r} is not a range; write 0.05:0.3, or 1e-3:1e-2:log.")
    return Range(parameter.parse(low), parameter.parse(high), log=how == "log")
