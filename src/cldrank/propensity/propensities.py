"""`Propensities`: the examination probability of each position, relative to the first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank._typing import Floats
from cldrank.arguments import check_number, check_whole
from cldrank.errors import DataError, UsageError
from cldrank.reading import reason
from cldrank.wording import count, positions

if TYPE_CHECKING:
    from cldrank.clicks.table import ClickTable
    from cldrank.documents import Figure

MISFIT = 0.01  # a p-value below refutes a model
LARGEST = 1e300  # numbers beyond it have no place in a figure
_WIDE = 1.6  # times the lower end of its interval: a larger estimate of a bound is not relied on


class CurveBase:
    """What every curve has: text, a figure, and a file."""

    def __str__(self) -> str:
        from cldrank.documents import terminal_text
        from cldrank.propensity.curve_document import curve_document

        return terminal_text(curve_document(self))

    def _repr_html_(self) -> str:
        from cldrank.documents import render_notebook
        from cldrank.propensity.curve_document import curve_document

        return render_notebook(curve_document(self))

    def plot(self, path: str | PathLike[str] | None = None) -> Figure | None:
        """Draw the curve with its intervals into an SVG file; without a path, for a notebook to show.

        >>> [series.name for series in Propensities.power(1, 3).plot().series]
        ['power law, eta 1']
        """
        from cldrank.propensity.curve_document import curve_figure, named_curves, save_chart

        if path is None:
            return curve_figure(named_curves(self))
        save_chart(named_curves(self), path)
        return None

    def save(self, path: str | PathLike[str]) -> None:
        """Write it to a JSON file; replicates are rounded to six digits."""
        from cldrank.files import save_json
        from cldrank.propensity.curve_files import curve_content

        save_json(path, curve_content(self), indent=1)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read what `save` wrote; `Propensities` also the truth beside a simulated log, and a JSON list of numbers.

        >>> import tempfile, pathlib
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Propensities.power(1, 2).save(pathlib.Path(folder) / "rho.json")
        ...     Propensities.load(pathlib.Path(folder) / "rho.json").values
        array([1. , 0.5])
        """
        from cldrank.propensity.curve_files import load_curve

        curve: Self = load_curve(path, cls)
        return curve

    def trusted(self) -> Self:
        """The same, exempt from the check against the log's own pages; slopes and bases are never checked."""
        return self

    def _check_array(self, name: str, shape: tuple[int, ...], scale: float = 1.0) -> None:
        """Keep an attribute as an array of this shape, divided by `scale`; refuse entries not finite, or negative."""
        part = getattr(self, name)
        if part is None:
            return
        array = as_floats(part, name)
        if array.shape != shape:
            raise DataError(f"{name} has shape {array.shape}; it must be {shape}.")
        with np.errstate(all="ignore"):
            array = array / scale
        beyond = ~(np.abs(array) < LARGEST)
        if beyond.any():
            raise DataError(f"{name} holds {array[beyond][0]}; all entries must be finite, and below {LARGEST:g}.")
        if (np.diag(array) if array.ndim > 1 else array).min() < 0:
            raise DataError(f"{name} holds a negative number.")
        keep_array(self, name, array)


@dataclass(frozen=True)
class Goodness:
    """How well a curve fits the clicks of candidates that were shown at several positions.

        statistic = mean over pairs of positions (k, l) of (residual / its standard error)^2
        residual  = log(clicks at l / clicks at k, of the candidates shown at both) - log(rho_l / rho_k)

    pairs     pairs of positions that could be tested
    p_value   how often resampling alone brings a larger statistic; below 0.01 refutes the position-based model
    worst     the pair of positions with the largest residual, in standard errors
    """

    statistic: float
    pairs: int
    p_value: float
    worst: tuple[int, int]

    def __str__(self) -> str:
        verdict = "contradict" if self.p_value < MISFIT else "agree with"
        agreement = f"clicks of the same candidates elsewhere {verdict} the curve"
        tested = f"{count(self.pairs, 'pair')} of positions, mean squared residual {self.statistic:.2f}"
        return f"{agreement}: {tested}, p = {self.p_value:.2g}, worst at {self.worst[0]} and {self.worst[1]}"


@dataclass(frozen=True, eq=False, repr=False)
class Propensities(CurveBase):
    """ρ_k, the probability that position k is examined, normalised to ρ_1 = 1.

    values        (k,) float64: entry 0 is position 1; above 0, and at most 1 unless they were estimated
    origin        their source, in words
    clipped       the positions that `clip` raised to its minimum
    raised        the positions that `raised_to` raised to a lower bound
    bound         whether they are a lower bound of the curve, as `Envelope` finds it, and not the curve

    Estimated ones also have

    method        the name of the estimator
    low, high     (k,) the interval of each position, at the given `confidence`
    covariance    (k, k) of log ρ, from resampling
    goodness      whether clicks of the same candidates at other positions agree
    notes         what to know before they are used
    replicates    (replicates, k) the resampled estimates that have all positions
    is_trusted    whether they are exempt from the check against a log's own pages, see `trusted`; left out of files

    >>> rho = Propensities.power(eta=1.0, k=4)
    >>> rho
    Propensities(1, 0.5, 0.3333, 0.25; power law, eta 1)
    >>> rho.at([1, 3, 3])
    array([1.        , 0.33333333, 0.33333333])
    >>> rho.clip(0.3)
    Propensities(1, 0.5, 0.3333, 0.3; power law, eta 1; clipped to 0.3 at position 4)
    """

    values: Floats
    origin: str = "given"
    clipped: tuple[int, ...] = ()
    raised: tuple[int, ...] = ()
    bound: bool = False
    method: str | None = None
    low: Floats | None = None
    high: Floats | None = None
    confidence: float | None = None
    covariance: Floats | None = None
    goodness: Goodness | None = None
    notes: tuple[str, ...] = ()
    replicates: Floats | None = field(default=None, compare=False)
    is_trusted: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        raw = as_floats(self.values, "propensities")
        if raw.ndim != 1 or not len(raw):
            raise DataError(f"propensities are a flat array, an entry for each position; not of shape {raw.shape}.")
        values = _relative(raw[None], "the propensity")[0]
        if self.method is None and values.max() > 1 + 1e-9:
            at = int(values.argmax())
            raise DataError(
                f"position {at + 1} would be examined more often than the first ({values[at]:.4g} times); "
                "only estimated propensities, those with a method, may be above 1."
            )
        values = values if self.method is not None else np.minimum(values, 1.0)
        keep_array(self, "values", values)
        for name in ("low", "high"):
            self._check_array(name, values.shape, raw[0])
        self._check_array("covariance", (len(values), len(values)))
        if self.replicates is not None:
            draws = as_floats(self.replicates, "replicates")
            if draws.ndim != 2 or len(draws) < 2 or draws.shape[1] != len(values):
                raise DataError(
                    f"replicates of {len(values)} propensities have shape {draws.shape}; they need two rows or more, "
                    "and a column for each position."
                )
            keep_array(self, "replicates", _relative(draws, "a replicate"))
        if (self.low is None) != (self.high is None) or (self.low is not None and self.confidence is None):
            raise DataError("an interval needs low, high and confidence, all three.")
        if self.confidence is not None:
            check_number("confidence", self.confidence, above=0, below=1)
        if self.low is not None and self.high is not None and (self.low > self.high).any():
            at = int(np.flatnonzero(self.low > self.high)[0])
            raise DataError(f"the interval of position {at + 1} is from {self.low[at]} to {self.high[at]}.")

    @classmethod
    def power(cls, eta: float, k: int) -> Propensities:
        """The power law (1/position)^eta down to position k.

        >>> Propensities.power(eta=0, k=3).values
        array([1., 1., 1.])
        """
        check_number("eta", eta, least=0)
        check_whole("k", k, least=1)
        return cls(np.arange(1, k + 1, dtype=np.float64) ** -float(eta), origin=f"power law, eta {eta:g}")

    @classmethod
    def parse(cls, text: str, k: int) -> Propensities:
        """From a text: `power:1.0`, `none` (all equal), or the path of a file that `save` wrote.

        >>> Propensities.parse("power:2", k=2).values
        array([1.  , 0.25])
        """
        kind, _, eta = ("power", ":", "0") if text == "none" else text.partition(":")
        if kind != "power":
            return cls.load(text)
        try:
            return cls.power(float(eta), k)
        except ValueError as error:
            raise UsageError(f"{text!r} is not a power law ({str(error).rstrip('.')}); write power:1.0.") from None

    def at(self, position: ArrayLike) -> Floats:
        """The propensity of each position, counted from 1."""
        return self.values[places_of(position, len(self.values), "propensity")]

    def per_cell(self, clicks: ClickTable) -> Floats:
        """(cells,) the propensity of each cell of a log."""
        return self.at(clicks.position)

    @property
    def errors(self) -> Floats | None:
        """(k,) the standard error of log ρ at each position, 0 at the first; None where it is unknown."""
        return None if self.covariance is None else np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    @property
    def uncertain(self) -> bool:
        """Whether `draws` differ: whether replicates or a covariance tell how far the values may be off."""
        return self.replicates is not None or self.covariance is not None

    def draws(self, n: int, seed: int) -> Floats:
        """(n, k) curves that might have been estimated instead, to propagate their uncertainty.

        Replicates drawn with replacement; without any, log-normal draws from the covariance; without that too, the
        values n times.

        >>> rho = Propensities(np.array([1, 0.5]), method="Pivot", replicates=[[1, 0.4], [1, 0.6]])
        >>> rho.draws(3, seed=0), rho.uncertain
        (array([[1. , 0.6],
               [1. , 0.6],
               [1. , 0.6]]), True)
        """
        check_whole("n", n, least=1)
        check_whole("seed", seed, least=0)
        if self.replicates is not None:
            return np.asarray(self.replicates[np.random.default_rng(seed).integers(len(self.replicates), size=n)])
        if self.covariance is not None:
            logs = normal_draws(np.log(self.values), self.covariance, n, seed)
            return np.exp(logs - logs[:, :1])
        return np.tile(self.values, (n, 1))

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        shown = [f"{value:.4g}" for value in self.values[:8]]
        if len(self.values) > 8:
            shown.append(f"… {self.values[-1]:.4g}")
        return f"Propensities({', '.join(shown)}; {self.origin})"

    def clip(self, minimum: float) -> Propensities:
        """A copy with smaller values raised to a minimum: less variance for some bias. `origin` names those raised.

        Intervals and replicates are clipped along; a value that is raised is certain.
        """
        check_number("clip", minimum, above=0, most=1)
        parts: dict[str, Any] = {name: getattr(self, name) for name in ("values", "low", "high", "replicates")}
        parts = {name: np.maximum(part, minimum) for name, part in parts.items() if part is not None}
        if all((part == getattr(self, name)).all() for name, part in parts.items()):
            return self
        below = self.values < minimum
        raised = tuple((np.flatnonzero(below) + 1).tolist())
        where = f"; clipped to {minimum:g} at {positions(raised, most=len(raised))}" if raised else ""
        return replace(
            self,
            origin=f"{self.origin}{where}",
            clipped=raised or self.clipped,
            covariance=None if self.covariance is None else np.where(below | below[:, None], 0.0, self.covariance),
            **parts,
        )

    def raised_to(self, envelope: Propensities) -> Propensities:
        """The same, raised to a lower bound of the curve wherever it lies significantly below that bound.

        envelope   the estimate of `Envelope`; positions that it lacks stay as they are

        A value below the interval of the bound is raised to the bound's own estimate or, if the interval is wide, to
        its lower end; `origin` and `raised` name the positions.

        >>> interval = {"low": [1, 0.3, 0.1], "high": [1, 0.5, 0.2], "confidence": 0.9}
        >>> bound = Propensities(np.array([1, 0.4, 0.12]), method="Envelope", bound=True, **interval)
        >>> Propensities.power(2, 3).raised_to(bound)
        Propensities(1, 0.4, 0.1111; power law, eta 2; raised to the bound of Envelope at position 2)
        """
        raised = self.refuted_by(envelope)
        if not raised:
            return self
        floor = np.zeros(len(self))
        at = np.array(raised) - 1
        least = envelope.values if envelope.low is None else envelope.low
        bound = np.where(envelope.values > _WIDE * least, least, envelope.values)[at]
        floor[at] = bound if self.method is not None else np.minimum(bound, 1.0)
        low, high = (None if end is None else np.maximum(end, floor) for end in (self.low, self.high))
        return replace(
            self,
            values=np.maximum(self.values, floor),
            origin=f"{self.origin}; raised to the bound of {envelope.method} at {positions(raised, most=len(raised))}",
            raised=tuple(sorted({*self.raised, *raised})),
            covariance=None,
            replicates=None,
            low=low,
            high=high,
        )

    def trusted(self) -> Self:
        """The same, exempt from the check of methods and comparisons against the log's own pages.

        >>> Propensities.power(1, 3).trusted().is_trusted
        True
        """
        return replace(self, is_trusted=True)

    def refuted_by(self, envelope: Propensities) -> tuple[int, ...]:
        """The positions, from 1, that lie below the interval of a lower bound; of an estimate, its whole interval."""
        if not isinstance(envelope, Propensities) or not envelope.bound:
            raise UsageError("a curve is compared with a lower bound; give the result of Envelope().fit(clicks).")
        most = self.values if self.high is None else self.high
        least = envelope.values if envelope.low is None else envelope.low
        size = min(len(most), len(least))
        return tuple((np.flatnonzero(most[:size] < np.minimum(least[:size], 1.0)) + 1).tolist())


def _relative(rows: Floats, what: str) -> Floats:
    """Each row over its first entry; refused unless all are above 0 and finite, also relative to the first."""
    with np.errstate(all="ignore"):
        relative = rows / rows[:, :1]
        bad = ~((relative < LARGEST) & (relative > 0) & np.isfinite(1 / relative) & (rows > 0))
    if bad.any():
        row, at = (int(place[0]) for place in np.nonzero(bad))
        raise DataError(
            f"{what} of position {at + 1} is {rows[row, at]}; it must be above 0 and finite, and so must its ratio to "
            f"that of the first, {rows[row, 0]}."
        )
    return relative


def places_of(position: ArrayLike, size: int, what: str) -> NDArray[np.int64]:
    """Positions counted from 0, given them from 1; refused beyond the `size` positions that have `what`."""
    numbers = np.asarray(position)
    if numbers.size and not np.issubdtype(numbers.dtype, np.integer):
        raise DataError(f"positions are whole numbers, not {numbers.dtype}.")
    beyond = (numbers < 1) | (numbers > size)
    if beyond.any():
        raise DataError(f"there is no {what} for position {numbers[beyond].ravel()[0]}; these go from 1 to {size}.")
    return numbers.astype(np.int64) - 1


def normal_draws(mean: Floats, covariance: Floats, n: int, seed: int) -> Floats:
    """(n, k) normal draws."""
    scale, turn = np.linalg.eigh(covariance)
    root = turn * np.sqrt(np.maximum(scale, 0.0))  # rounding makes a zero negative
    return np.asarray(mean + np.random.default_rng(seed).standard_normal((n, len(mean))) @ root.T)


def keep_array(owner: object, name: str, array: Floats) -> None:
    """Set a read-only array on a frozen dataclass."""
    array.flags.writeable = False
    object.__setattr__(owner, name, array)


def as_floats(value: Any, name: str) -> Floats:
    """A copy as float64, of whatever shape."""
    try:
        return np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{name} cannot be read as numbers ({reason(error)}).") from None
