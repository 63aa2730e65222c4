"""Feature scaling: learned from training data only, a pure function from then on, and saved with the ranker.

Features are float32 everywhere; wider numbers are rounded to it first. All arithmetic is in float64, over blocks of
rows, so that an array mapped from disk is never copied whole. Every rule keeps the order of a feature's values, accepts
values that did not occur in training, gives only finite numbers, and gives 0 for a feature constant in training.

A rule has a text form that parses back, for the command line and files: `standard`, `standard:clip=none`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank.arguments import check_whole, shortened
from cldrank.errors import DataError, Spelling, UsageError, setting
from cldrank.feature_blocks import Moments, RemoteFeatures, as_float32, as_table, float_blocks, row_blocks
from cldrank.parameters import check_all, documented, parameter, parameters

__all__ = ["MinMax", "Quantile", "Scaling", "ScalingRule", "SignedLog", "Standard", "Unscaled", "fit", "rule_of"]

_SORT_VALUES = 1 << 24  # 64 MiB of float32: the columns that `Quantile` sorts at a time
_LARGEST = float(np.finfo(np.float32).max)

Parameters = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class ScalingRule(ABC):
    """How to scale features, with its options; `learn` finds its parameters, `apply` uses them."""

    name: ClassVar[str]

    def __post_init__(self) -> None:
        check_all(self)

    @property
    def text(self) -> str:
        """The text that stands for it, with the options that differ from the defaults.

        >>> Standard().text, Standard(clip=3).text, MinMax(clip=False).text
        ('standard', 'standard:clip=3', 'minmax:clip=false')
        """
        changed = {
            one.name: str(getattr(self, one.name)).lower()
            for one in parameters(type(self)).values()
            if getattr(self, one.name) != one.default
        }
        return ":".join([self.name, *[",".join(f"{name}={value}" for name, value in changed.items())] * bool(changed)])

    @staticmethod
    def of_text(text: str) -> ScalingRule | None:
        """The rule that a text stands for, None where it names none; a wrong option is refused.

        >>> ScalingRule.of_text("standard:clip=none"), ScalingRule.of_text("median")
        (Standard(clip=None), None)
        """
        name, colon, options = text.partition(":")
        if name not in RULES:
            return None
        given: dict[str, Any] = {}
        for entry in options.split(",") if colon else ():
            option, value = _option(text, entry)
            if option in given:
                raise UsageError("{} names {} twice.", setting("scaling", text), option)
            given[option] = value
        return RULES[name](**given)

    @abstractmethod
    def learn(self, features: Any, block_rows: int | None) -> Parameters:
        """The parameters for a table of features."""

    @abstractmethod
    def apply(self, block: NDArray[np.float64], parameters: Parameters) -> NDArray[np.float64]:
        """The scaled block; may overwrite the one given."""

    @abstractmethod
    def check(self, parameters: Parameters, n_features: int) -> None:
        """Refuse parameters that `learn` cannot have made."""


@dataclass(frozen=True)
class _Affine(ScalingRule):
    """clip((g(x) - center) * factor, low, high), with factor 0 for a constant feature."""

    def before(self, block: NDArray[np.float64]) -> NDArray[np.float64]:
        """The transformation g, which comes first."""
        return block

    @property
    @abstractmethod
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value that can come out."""

    def apply(self, block: NDArray[np.float64], parameters: Parameters) -> NDArray[np.float64]:
        block = self.before(block)
        block -= parameters["center"]
        block *= parameters["factor"]
        low, high = self.bounds
        return np.clip(block, max(low, -_LARGEST), min(high, _LARGEST), out=block)  # float32 holds what comes out

    def check(self, parameters: Parameters, n_features: int) -> None:
        _expect(parameters, {"center": np.float64, "factor": np.float64})
        for name, values in parameters.items():
            if values.shape != (n_features,):
                raise DataError(f"{name} of the scaling has shape {values.shape} for {n_features} features.")
        if (parameters["factor"] < 0).any():
            raise DataError("a factor of the scaling is negative; it would reverse the order of the feature.")


@documented
@dataclass(frozen=True)
class Standard(_Affine):
    """Mean 0 and standard deviation 1, with values clipped at `clip` standard deviations, or not at all with None.

    Without clipping a ranker is an affine function of its features up to its first layer, which every search engine can
    express; a value far outside of what training saw then counts in full. Only float32's largest number bounds it.

    >>> train, unseen = [[0.0], [2.0], [4.0]], [[1.0], [2.0], [100.0]]
    >>> fit(Standard(clip=1), train).transform(unseen).ravel()
    array([-0.612,  0. ,  1. ], dtype=float32)
    >>> fit(Standard(clip=None), train).transform(unseen).ravel()
    array([-0.612,  0. ,  60.01 ], dtype=float32)
    """

    name = "standard"
    clip: float | None = parameter(
        default=5.0, about="most standard deviations from the mean", above=0, most=_LARGEST, kw_only=False
    )

    @property
    def bounds(self) -> tuple[float, float]:
        """Minus and plus `clip`."""
        return (-np.inf, np.inf) if self.clip is None else (-self.clip, self.clip)

    def learn(self, features: Any, block_rows: int | None) -> Parameters:
        """Mean, and one over the standard deviation."""
        moments = Moments.of(features, self.before, block_rows)
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

    def before(self, block: NDArray[np.float64]) -> NDArray[np.float64]:
        """sign(x) log(1 + |x|)."""
        magnitude = np.abs(block)
        return np.copysign(np.log1p(magnitude, out=magnitude), block, out=magnitude)


@documented
@dataclass(frozen=True)
class MinMax(_Affine):
    """The range in training becomes 0 … 1; values beyond it are clipped, or not with `clip=False`.

    >>> fit("minmax", [[2.0], [6.0]]).transform([[3.0], [6.0], [9.0]]).ravel()
    array([0.25, 1. , 1. ], dtype=float32)
    >>> fit(MinMax(clip=False), [[2.0], [6.0]]).transform([[3.0], [6.0], [9.0]]).ravel()
    array([0.25, 1. , 1.75], dtype=float32)
    """

    name = "minmax"
    clip: bool = parameter(default=True, about="whether values beyond the range become its ends", kw_only=False)

    @property
    def bounds(self) -> tuple[float, float]:
        """0 and 1, if it clips."""
        return (0.0, 1.0) if self.clip else (-np.inf, np.inf)

    def learn(self, features: Any, block_rows: int | None) -> Parameters:
        """The smallest value, and one over the range."""
        moments = Moments.of(features, self.before, block_rows)
        low, span = moments.low, moments.high - moments.low
        return {"center": low, "factor": np.divide(1.0, span, where=span > 0, out=np.zeros_like(span))}


@documented
@dataclass(frozen=True)
class Quantile(ScalingRule):
    """The share of training values below, with half of those equal: 0 … 1, evenly spread whatever the distribution.

    Exact at `knots` values of each feature, evenly spaced by rank, and linear between them.

    >>> fit("quantile", [[0.0], [0.0], [0.0], [7.0], [1e6]]).transform([[0.0], [7.0], [1e6], [1e9]]).ravel()
    array([0.25, 0.75, 1. , 1. ], dtype=float32)
    """

    name = "quantile"
    knots: int = parameter(default=1000, about="values of a feature that are exact", least=2, kw_only=False)

    def learn(self, features: Any, block_rows: int | None) -> Parameters:
        """Knots and their levels, feature after feature; those of feature i are at offsets[i] … offsets[i+1]-1."""
        if isinstance(features, RemoteFeatures):
            raise UsageError(
                "a quantile scaling sorts whole columns, which these features do not allow, as they are not on this "
                "machine; choose {}, which also tames long tails.",
                setting("scaling", "log"),
            )
        del block_rows  # a sort needs whole columns: bounded by _SORT_VALUES, or one column where that is more
        rows, width = features.shape
        ranks = np.unique(np.rint(np.linspace(0, rows - 1, self.knots)).astype(np.int64))
        group = max(1, _SORT_VALUES // rows)
        knots, levels = [], []
        for first in range(0, width, group):
            columns = np.array(as_float32(features[:, first : first + group], column=first).T, order="C")
            columns.sort(axis=1)
            for column in columns:
                values = np.unique(column[ranks])
                ties = np.searchsorted(column, values, "left") + np.searchsorted(column, values, "right") - 1
                knots.append(values)
                levels.append(ties / max(2 * (rows - 1), 1) if len(values) > 1 else np.zeros(1))
        return {
            "knots": np.concatenate(knots).astype(np.float64),
            # levels that float32 can hold, so that rounding the result keeps the order also next to a knot
            "levels": np.concatenate(levels).astype(np.float32).astype(np.float64),
            "offsets": np.cumsum([0, *map(len, knots)], dtype=np.int64),
        }

    def apply(self, block: NDArray[np.float64], parameters: Parameters) -> NDArray[np.float64]:
        """Linear interpolation between the knots, one feature at a time."""
        columns = np.array(block.T, order="C")
        offsets = parameters["offsets"]
        for index, column in enumerate(columns):
            own = slice(offsets[index], offsets[index + 1])
            columns[index] = np.interp(column, parameters["knots"][own], parameters["levels"][own])
        return columns.T

    def check(self, parameters: Parameters, n_features: int) -> None:
        """Refuse knots that do not rise, levels that fall or leave 0 … 1, offsets that do not fit."""
        _expect(parameters, {"knots": np.float64, "levels": np.float64, "offsets": np.int64})
        knots, levels, offsets = (parameters[name] for name in ("knots", "levels", "offsets"))
        fits = offsets.shape == (n_features + 1,) and knots.shape == levels.shape == (offsets[-1],)
        if not fits or offsets[0] != 0 or (np.diff(offsets) < 1).any():
            raise DataError(f"the knots of the quantile scaling do not fit {n_features} features.")
        inside = np.ones(max(len(knots) - 1, 0), dtype=bool)
        inside[offsets[1:-1] - 1] = False  # from one feature to the next, anything goes
        if (np.diff(knots)[inside] <= 0).any() or (np.diff(levels)[inside] < 0).any():
            raise DataError("the knots of the quantile scaling do not rise.")
        if levels.min() < 0 or levels.max() > 1:
            raise DataError("a level of the quantile scaling lies outside 0 … 1.")


@dataclass(frozen=True)
class Unscaled(ScalingRule):
    """Features as they are.

    >>> fit(None, [[3.0]]).transform([[5.0]])
    array([[5.]], dtype=float32)
    """

    name = "none"

    def learn(self, features: Any, block_rows: int | None) -> Parameters:
        """Nothing, but values that are not finite are still refused."""
        if not isinstance(features, RemoteFeatures):  # which are checked where they are
            for _ in float_blocks(features, block_rows):
                pass
        return {}

    def apply(self, block: NDArray[np.float64], parameters: Parameters) -> NDArray[np.float64]:
        """The block itself."""
        del parameters
        return block

    def check(self, parameters: Parameters, n_features: int) -> None:
        """Refuse any parameter."""
        del n_features
        _expect(parameters, {})


RULES: dict[str, type[ScalingRule]] = {rule.name: rule for rule in (Standard, MinMax, SignedLog, Quantile, Unscaled)}


def rule_of(scaling: str | ScalingRule | None) -> ScalingRule:
    """The rule that a text stands for; a rule stands for itself, and None for no scaling.

    >>> rule_of("standard"), rule_of("log:clip=none")
    (Standard(clip=5.0), SignedLog(clip=None))
    """
    if scaling is None:
        return Unscaled()
    if isinstance(scaling, ScalingRule):
        return scaling
    rule = ScalingRule.of_text(scaling) if isinstance(scaling, str) else None
    if rule is not None:
        return rule
    known = ", ".join(map(repr, RULES))
    raise UsageError(f"scaling {scaling!r} is not known; choose {known} or None, or a rule such as Standard(clip=3).")


def _option(text: str, entry: str) -> tuple[str, Any]:
    """The name and the value of one option of a rule's text."""
    rule = text.partition(":")[0]
    known = parameters(RULES[rule])
    name, equals, value = (part.strip() for part in entry.partition("="))
    if not equals or name not in known:
        usual = ", ".join(f"{one.name}={str(one.default).lower()}" for one in known.values())
        knows = f"the options of {rule} are, with their defaults, {rule}:{usual}" if known else f"{rule} has no options"
        raise UsageError("{}: {}.", setting("scaling", text), knows)
    try:
        return name, known[name].parse(value)
    except UsageError as error:
        words = Spelling(error.said("python"), error.said("shell").removeprefix("--"))
        raise UsageError("{}: {}", setting("scaling", text), words) from None


def fit(
    scaling: str | ScalingRule | None, features: ArrayLike | RemoteFeatures, *, block_rows: int | None = None
) -> Scaling:
    """Learn a scaling from the features of the training data.

    >>> fit("standard", [[1.0, 7.0], [3.0, 7.0]]).transform([[3.0, 7.0], [1e30, 8.0]])
    array([[1., 0.], [5., 0.]], dtype=float32)
    """
    rule = rule_of(scaling)
    table = as_table(features)
    rows, width = table.shape
    if not rows * width:
        raise DataError(f"a scaling cannot be learned from a table of {rows} rows × {width} features.")
    return Scaling(rule, table.shape[1], rule.learn(table, block_rows))


@dataclass(frozen=True, eq=False)
class Scaling:
    """A rule with what it learned: a pure function from features to scaled features.

    >>> found = fit("minmax", [[0.0], [4.0]])
    >>> found, found.transform([[1.0]])
    (Scaling(MinMax(clip=True), 1 features), array([[0.25]], dtype=float32))
    """

    rule: ScalingRule
    n_features: int
    parameters: Parameters

    def __post_init__(self) -> None:
        self.rule.check(self.parameters, self.n_features)
        frozen = {name: values.copy() for name, values in self.parameters.items()}
        for values in frozen.values():
            values.flags.writeable = False
        object.__setattr__(self, "parameters", frozen)

    def __repr__(self) -> str:
        return f"Scaling({self.rule}, {self.n_features} features)"

    def transform(self, features: ArrayLike, *, block_rows: int | None = None) -> NDArray[np.float32]:
        """The scaled features, float32, in a new array."""
        table = as_table(features)
        result = np.empty(table.shape, dtype=np.float32)
        for rows, block in self.blocks(table, block_rows=block_rows):
            result[rows] = block
        return result

    def blocks(
        self, features: ArrayLike, *, block_rows: int | None = None, names: Sequence[str] = ()
    ) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        """The scaled features block after block, each with the rows it holds: for tables too large to scale at once.

        names   of the features, for messages
        """
        table = as_table(features)
        if table.shape[1] != self.n_features:
            raise DataError(f"the scaling was learned from {self.n_features} features, not {table.shape[1]}.")
        for start, stop in row_blocks(table, block_rows):
            block = as_float32(table[start:stop], row=start, names=names).astype(np.float64)
            yield slice(start, stop), self.rule.apply(block, self.parameters).astype(np.float32, order="C")

    def to_state(self) -> tuple[dict[str, Any], Parameters]:
        """The scaling as a configuration that JSON can hold, and named arrays."""
        config = {"method": self.rule.name, "options": asdict(self.rule), "n_features": self.n_features}
        return config, dict(self.parameters)

    @classmethod
    def from_state(cls, config: Any, parameters: Parameters) -> Self:
        """The scaling that `to_state` described; anything else is refused."""
        if not isinstance(config, Mapping) or not {"method", "options", "n_features"} <= config.keys():
            raise DataError("the scaling needs the entries 'method', 'options' and 'n_features'.")
        name, options, n_features = config["method"], config["options"], config["n_features"]
        if not isinstance(name, str) or name not in RULES:
            raise DataError(f"there is no scaling {shortened(name)}; there are {', '.join(RULES)}.")
        if not isinstance(options, Mapping):
            raise DataError(f"options of the scaling must be a table, not {shortened(options)}.")
        try:
            check_whole("n_features", n_features, least=1)
            rule = RULES[name](**options)
        except (TypeError, UsageError) as error:
            raise DataError(f"the scaling cannot be made from {shortened(dict(config))}: {error}") from None
        return cls(rule, n_features, parameters)


def _expect(parameters: Parameters, dtypes: Mapping[str, type[np.generic]]) -> None:
    if parameters.keys() != dtypes.keys():
        raise DataError(f"the scaling has the arrays {sorted(parameters)}; it needs {sorted(dtypes)}.")
    for name, dtype in dtypes.items():
        if parameters[name].dtype != dtype or parameters[name].ndim != 1:
            raise DataError(f"{name} of the scaling must be a flat {np.dtype(dtype)} array.")
        if not np.isfinite(parameters[name]).all():
            raise DataError(f"{name} of the scaling has a value that is not finite.")
