"""Feature scaling: learned from training data only, a pure function from then on, and saved with the ranker.

Features are float32 everywhere; wider numbers are rounded to it first. All arithmetic is in float64, over blocks of
rows, so that an array mapped from disk is never copied whole; tensors on a device are learned from and scaled there.
Every rule keeps the order of a feature's values, accepts values that did not occur in training, gives only finite
numbers, and gives 0 for a feature constant in training.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from array_api_compat import is_torch_array
from numpy.typing import ArrayLike, NDArray

from cldrank.arguments import shortened
from cldrank.errors import DataError, UsageError
from cldrank.feature_blocks import Moments, RemoteFeatures, as_float32, as_table, float_blocks, library_of, row_blocks
from cldrank.parameters import check_all, documented, parameter, parameters

__all__ = ["MinMax", "Scaling", "ScalingRule", "SignedLog", "Standard", "Unscaled", "fit", "rule_of"]

_LARGEST = float(np.finfo(np.float32).max)

Parameters = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class ScalingRule(ABC):
    """How to scale features, with its option; its text form parses back, for the command line and files."""

    name: ClassVar[str]
    arrays: ClassVar[tuple[str, ...]] = ("center", "factor")  # what it learns: a number per feature

    def __post_init__(self) -> None:
        check_all(self)

    @property
    def text(self) -> str:
        """The text form of the rule, with its option if that differs from the default.

        >>> Standard().text, Standard(clip=3).text, MinMax(clip=False).text
        ('standard', 'standard:clip=3', 'minmax:clip=false')
        """
        values = [(option, getattr(self, option.name)) for option in parameters(type(self)).values()]
        return self.name + "".join(f":{own.name}={value}".lower() for own, value in values if value != own.default)

    @staticmethod
    def of_text(text: str) -> ScalingRule | None:
        """The rule that a text stands for, None where it names none; a wrong option is refused."""
        name, colon, option = text.partition(":")
        if name not in RULES or not colon:
            return RULES[name]() if name in RULES else None
        option, _, value = (part.strip() for part in option.partition("="))
        known = parameters(RULES[name])
        if option not in known:
            usual = [f"{name}:{own.name}={str(own.default).lower()}" for own in known.values()]
            raise UsageError(f"`scaling={text!r}`: {name} has no such option; write {' or '.join([name, *usual])}.")
        try:
            return RULES[name](**{option: known[option].parse(value)})
        except UsageError as error:
            words = str(error).replace("`", "")  # the option of the rule, not that of a method
            raise UsageError(f"`scaling={text!r}`: {words}") from None

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value that can come out."""
        return -np.inf, np.inf

    @abstractmethod
    def _learn(self, features: Any) -> Parameters:
        """The parameters for a table of features: an array, a tensor or remote features."""

    def _before(self, block: Any) -> Any:
        """The transformation g, which comes first."""
        return block

    def _apply(self, block: Any, parameters: Any) -> Any:
        """clip((g(x) - center) * factor, low, high), with factor 0 for a constant feature; may overwrite the block."""
        block = self._before(block)
        block -= parameters["center"]
        block *= parameters["factor"]
        low, high = self.bounds  # float32 holds what comes out
        return library_of(block).clip(block, max(low, -_LARGEST), min(high, _LARGEST), out=block)


@documented
@dataclass(frozen=True)
class Standard(ScalingRule):
    """Mean 0 and standard deviation 1, with values clipped at `clip` standard deviations, or not at all with None.

    >>> fit(Standard(clip=1), [[0.0], [2.0], [4.0]]).transform([[1.0], [2.0], [100.0]]).ravel()
    array([-0.612,  0. ,  1. ], dtype=float32)
    """

    name = "standard"
    clip: float | None = parameter(
        default=5.0, about="most standard deviations from the mean", above=0, most=_LARGEST, kw_only=False
    )

    @property
    def bounds(self) -> tuple[float, float]:
        """Minus and plus `clip`."""
        return (-np.inf, np.inf) if self.clip is None else (-self.clip, self.clip)

    def _learn(self, features: Any) -> Parameters:
        moments = Moments.of(features, self._before)
        moving = moments.low < moments.high  # the deviation of a constant may round to something above 0
        deviation = np.sqrt(moments.squares / moments.rows, where=moving, out=np.ones_like(moments.squares))
        return {"center": moments.mean, "factor": np.where(moving, 1 / deviation, 0.0)}


@documented
@dataclass(frozen=True)
class SignedLog(Standard):
    """sign(x) log(1 + |x|), then as `Standard`: for heavy tails on either side.

    >>> fit("log", [[-1e6], [0.0], [1e6]]).transform([[-1e6], [0.0], [1e3]]).ravel().round(2)
    array([-1.22,  0. ,  0.61], dtype=float32)
    """

    name = "log"

    def _before(self, block: Any) -> Any:
        xp = library_of(block)
        magnitude = xp.abs(block)
        return xp.copysign(xp.log1p(magnitude, out=magnitude), block, out=magnitude)


@documented
@dataclass(frozen=True)
class MinMax(ScalingRule):
    """The range in training becomes 0 … 1; values beyond it are clipped, or not with `clip=False`.

    >>> fit("minmax", [[2.0], [6.0]]).transform([[3.0], [6.0], [9.0]]).ravel()
    array([0.25, 1. , 1. ], dtype=float32)
    """

    name = "minmax"
    clip: bool = parameter(default=True, about="whether values beyond the range become its ends", kw_only=False)

    @property
    def bounds(self) -> tuple[float, float]:
        """0 and 1, if it clips."""
        return (0.0, 1.0) if self.clip else (-np.inf, np.inf)

    def _learn(self, features: Any) -> Parameters:
        moments = Moments.of(features, self._before)
        low, span = moments.low, moments.high - moments.low
        return {"center": low, "factor": np.divide(1.0, span, where=span > 0, out=np.zeros_like(span))}


@dataclass(frozen=True)
class Unscaled(ScalingRule):
    """Features as they are.

    >>> fit(None, [[3.0]]).transform([[5.0]])
    array([[5.]], dtype=float32)
    """

    name = "none"
    arrays = ()

    def _learn(self, features: Any) -> Parameters:
        if isinstance(features, np.ndarray):  # others were checked where they are
            for _ in float_blocks(features):
                pass  # refuses what is not finite
        return {}

    def _apply(self, block: Any, parameters: Any) -> Any:
        del parameters
        return block


RULES: dict[str, type[ScalingRule]] = {rule.name: rule for rule in (Standard, MinMax, SignedLog, Unscaled)}


def rule_of(scaling: str | ScalingRule | None) -> ScalingRule:
    """The rule with this text form; a rule is returned as it is, and None means no scaling.

    >>> rule_of("standard"), rule_of("log:clip=none")
    (Standard(clip=5.0), SignedLog(clip=None))
    """
    rule = ScalingRule.of_text(scaling) if isinstance(scaling, str) else Unscaled() if scaling is None else scaling
    if isinstance(rule, ScalingRule):
        return rule
    known = ", ".join(map(repr, RULES))
    raise UsageError(f"scaling {scaling!r} is not known; choose {known} or None, or a rule such as Standard(clip=3).")


def fit(scaling: str | ScalingRule | None, features: ArrayLike | RemoteFeatures) -> Scaling:
    """Learn a scaling from the features of the training data: an array, or a tensor of finite numbers on a device.

    >>> fit("standard", [[1.0, 7.0], [3.0, 7.0]]).transform([[3.0, 7.0], [1e30, 8.0]])
    array([[1., 0.], [5., 0.]], dtype=float32)
    """
    rule = rule_of(scaling)
    table = _as_table(features)
    rows, width = table.shape
    if not rows * width:
        raise DataError(f"a scaling cannot be learned from a table of {rows} rows × {width} features.")
    return Scaling(rule, width, rule._learn(table))


@dataclass(frozen=True, eq=False)
class Scaling:
    """A rule with what it learned: a pure function from features to scaled features.

    >>> fitted = fit("minmax", [[0.0], [4.0]])
    >>> fitted, fitted.transform([[1.0]])
    (Scaling(MinMax(clip=True), 1 features), array([[0.25]], dtype=float32))
    """

    rule: ScalingRule
    n_features: int
    parameters: Parameters

    def __post_init__(self) -> None:
        names, width = self.rule.arrays, self.n_features
        if self.parameters.keys() != set(names):
            raise DataError(f"the scaling has the arrays {sorted(self.parameters)}; it needs {sorted(names)}.")
        frozen = {name: values.copy() for name, values in self.parameters.items()}
        for name, values in frozen.items():
            if values.dtype != np.float64 or values.shape != (width,) or not np.isfinite(values).all():
                raise DataError(f"{name} of the scaling must be {width} finite float64 numbers, as many as features.")
            if name == "factor" and (values < 0).any():
                raise DataError("a factor of the scaling is negative; it would reverse the order of the feature.")
            values.flags.writeable = False
        object.__setattr__(self, "parameters", frozen)

    def __repr__(self) -> str:
        return f"Scaling({self.rule}, {self.n_features} features)"

    def transform(self, features: ArrayLike, out: Any = None) -> Any:
        """The scaled features, float32, in a new array (a tensor for a tensor) or in `out`, which may be `features`."""
        table = _as_table(features)
        if out is None:
            out = np.empty(table.shape, np.float32) if isinstance(table, np.ndarray) else table.new_empty(table.shape)
        for rows, block in self.blocks(table):
            out[rows] = block
        return out

    def blocks(
        self, features: ArrayLike, *, block_rows: int | None = None, names: Sequence[str] = ()
    ) -> Iterator[tuple[slice, Any]]:
        """The scaled features block after block, each with its rows; `names` are those of features, for messages."""
        table = _as_table(features)
        if table.shape[1] != self.n_features:
            raise DataError(f"the scaling was learned from {self.n_features} features, not {table.shape[1]}.")
        own: Any = self.parameters
        is_array = isinstance(table, np.ndarray | RemoteFeatures)  # the latter refuse to give rows
        if not is_array:
            own = {name: library_of(table).tensor(values, device=table.device) for name, values in own.items()}
        for start, stop in row_blocks(table, block_rows):
            if is_array:
                block = as_float32(table[start:stop], row=start, names=names).astype(np.float64)
                yield slice(start, stop), self.rule._apply(block, own).astype(np.float32, order="C")
            else:
                yield slice(start, stop), self.rule._apply(table[start:stop].double(), own)

    def to_state(self) -> tuple[dict[str, Any], Parameters]:
        """The rule as JSON can hold it, and named arrays."""
        return {"method": self.rule.name, **asdict(self.rule)}, dict(self.parameters)

    @classmethod
    def from_state(cls, config: dict[str, Any], n_features: int, parameters: Parameters) -> Self:
        """The scaling that `to_state` described; anything else is refused."""
        options = dict(config)
        try:
            return cls(RULES[options.pop("method")](**options), n_features, parameters)
        except (KeyError, TypeError, UsageError) as error:
            raise DataError(f"a scaling cannot be made from {shortened(config)}: {error!r}.") from None


def _as_table(features: Any) -> Any:
    return features if is_torch_array(features) else as_table(features)
