"""`AffineClicks`: clicks as a slope times relevance plus a base, for each position."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank.arguments import check_choice, check_number, check_whole
from cldrank.errors import DataError, FormatError, Spelling, UsageError
from cldrank.files import save_json
from cldrank.propensity.parsing import as_floats, as_number, as_text, entry, numbers, symmetric, texts
from cldrank.propensity.propensities import Propensities, keep_array, normal_draws, places_of
from cldrank.reading import read_json
from cldrank.wording import positions

if TYPE_CHECKING:
    from cldrank.clicks.table import ClickTable

Floats = NDArray[np.float64]
FORMAT = "cldrank-affine-clicks"
_LEAST = 0.01  # of a slope, times its estimate, in a draw


@dataclass(frozen=True, eq=False, repr=False)
class AffineClicks:
    """P(click at k) = slope_k * relevance + base_k (Vardasbi, Oosterhuis and de Rijke 2020).

    slope, base   (k,) float64: entry 0 is position 1; slopes are above 0
    origin        where they come from, in words
    covariance    (2 k, 2 k) of slopes and bases, if they were estimated, else None
    confidence    of the intervals
    notes         what to know before they are used

    Relevance has no scale of its own: 2 * relevance + 1 explains the same clicks with other slopes and bases, and ranks
    alike. `anchored` are those with slope 1 and base 0 at the first position, where relevance is the probability of a
    click there; only these can be compared.

    >>> trust = AffineClicks.of(examined=[1, 0.5], relevant=[0.9, 0.9], irrelevant=[0.5, 0.2])
    >>> trust
    AffineClicks(slope 0.4, 0.35; base 0.5, 0.1; given)
    >>> trust.relevance([0.9, 0.1], position=[1, 2])
    array([1., 0.])
    >>> trust.anchored().relevance([0.9, 0.1], position=[1, 2])
    array([0.9, 0.5])
    """

    slope: Floats
    base: Floats
    origin: str = "given"
    covariance: Floats | None = None
    confidence: float | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        slope, base = as_floats(self.slope, "slope"), as_floats(self.base, "base")
        if slope.ndim != 1 or slope.shape != base.shape or not len(slope):
            raise DataError(f"slope and base have one entry for each position, not shapes {slope.shape}, {base.shape}.")
        with np.errstate(all="ignore"):
            parts = np.stack([slope, 1 / slope, slope / slope[0], slope[0] / slope])
        bad = ~(np.isfinite(parts) & (parts > 0)).all(axis=0) | ~np.isfinite(base)
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            raise DataError(
                f"position {at + 1} has slope {slope[at]} and base {base[at]}; slopes must be above 0, also relative "
                "to the first, and both must be finite."
            )
        keep_array(self, "slope", slope)
        keep_array(self, "base", base)
        if self.covariance is not None:
            covariance, size = as_floats(self.covariance, "covariance"), 2 * len(slope)
            if covariance.shape != (size, size):
                raise DataError(
                    f"covariance of {len(slope)} positions has shape {covariance.shape}; it must be {(size, size)}."
                )
            if not np.isfinite(covariance).all() or np.diag(covariance).min() < 0:
                raise DataError("covariance must be finite, without negative variances.")
            keep_array(self, "covariance", covariance)
        if (self.covariance is None) != (self.confidence is None):
            raise DataError("an interval needs covariance and confidence, both.")
        if self.confidence is not None and not 0 < as_number(self.confidence, "confidence") < 1:
            raise DataError(f"confidence must be between 0 and 1, not {self.confidence}.")

    @classmethod
    def of(cls, examined: ArrayLike, relevant: ArrayLike, irrelevant: ArrayLike) -> AffineClicks:
        """From P(examined), and P(click | examined) of relevant and of irrelevant results, at each position."""
        names = {"examined": examined, "relevant": relevant, "irrelevant": irrelevant}
        parts = [as_floats(part, name) for name, part in names.items()]
        try:
            rho, plus, minus = np.broadcast_arrays(*parts)
        except ValueError:
            shapes = ", ".join(f"{name} {part.shape}" for name, part in zip(names, parts, strict=True))
            raise DataError(f"there must be one entry for each position, not shapes {shapes}.") from None
        return cls(rho * (plus - minus), rho * minus)

    @classmethod
    def from_propensities(cls, propensities: Propensities) -> AffineClicks:
        """Examination alone: slope ρ, base 0."""
        return cls(propensities.values, np.zeros(len(propensities)), propensities.origin)

    def __len__(self) -> int:
        return len(self.slope)

    def __repr__(self) -> str:
        slope, base = (", ".join(f"{value:.4g}" for value in part[:8]) for part in (self.slope, self.base))
        more = ", …" if len(self) > 8 else ""
        return f"AffineClicks(slope {slope}{more}; base {base}{more}; {self.origin})"

    def __str__(self) -> str:
        """A table: one line per position, and what there is to know."""
        lines = [self.origin, f"{'position':>8}  {'slope':>24}  {'base':>24}"]
        (low, high), (below, above) = self.interval("slope"), self.interval("base")
        for at in range(len(self)):
            entries = (
                _entry(values[at], lows[at], highs[at], self.confidence is not None)
                for values, lows, highs in ((self.slope, low, high), (self.base, below, above))
            )
            lines.append(f"{at + 1:>8}  " + "  ".join(f"{entry:>24}" for entry in entries))
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        from cldrank.propensity.curve_view import affine_view

        return affine_view(self)

    @property
    def errors(self) -> tuple[Floats, Floats]:
        """The standard errors of slopes and bases, 0 where they were given."""
        if self.covariance is None:
            return np.zeros(len(self)), np.zeros(len(self))
        found = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        return found[: len(self)], found[len(self) :]

    def interval(self, name: str) -> tuple[Floats, Floats]:
        """Low and high of "slope" or "base" at each position."""
        from scipy.special import ndtri

        check_choice("name", name, ("slope", "base"))
        values, error = (self.slope, self.errors[0]) if name == "slope" else (self.base, self.errors[1])
        half = float(ndtri((1 + (self.confidence or 0.9)) / 2)) * error
        return values - half, values + half

    @property
    def uncertain(self) -> bool:
        """Whether `draws` differ: whether a covariance tells how far slopes and bases may be off."""
        return self.covariance is not None

    def draws(self, n: int, seed: int) -> tuple[Floats, Floats]:
        """(n, k) slopes and (n, k) bases that might have been estimated instead: normal draws from the covariance.

        Slopes stay above 1% of their estimates. Without a covariance, all draws are the same.

        >>> slopes, bases = AffineClicks(np.array([1, 0.5]), np.array([0, 0.1])).draws(2, seed=0)
        >>> slopes
        array([[1. , 0.5],
               [1. , 0.5]])
        """
        check_whole("n", n, least=1)
        check_whole("seed", seed, least=0)
        both = np.concatenate([self.slope, self.base])
        drawn = np.tile(both, (n, 1)) if self.covariance is None else normal_draws(both, self.covariance, n, seed)
        return np.maximum(drawn[:, : len(self)], _LEAST * self.slope), drawn[:, len(self) :]

    # -- use -----------------------------------------------------------------------------------------------------

    def relevance(self, rate: ArrayLike, position: ArrayLike) -> Floats:
        """(rate - base) / slope: the relevance that a click-through rate at a position implies."""
        slope, base = self.at(position)
        found: Floats = (np.asarray(rate, dtype=np.float64) - base) / slope
        return found

    def at(self, position: ArrayLike) -> tuple[Floats, Floats]:
        """Slope and base of each position, counted from 1."""
        places = places_of(position, len(self), "slope")
        return self.slope[places], self.base[places]

    def per_cell(self, clicks: ClickTable) -> tuple[Floats, Floats]:
        """(cells,) slope and base of each cell of a log."""
        return self.at(clicks.position)

    def anchored(self) -> AffineClicks:
        """The same with slope 1 and base 0 at the first position; an estimate is so already."""
        first, level = self.slope[0], self.base[0]
        if first == 1 and level == 0:
            return self
        slope = self.slope / first
        return AffineClicks(
            slope, self.base - slope * level, f"{self.origin}; anchored at position 1", notes=self.notes
        )

    def clip(self, minimum: float) -> AffineClicks:
        """The same with no slope below a share of the first, for less variance; those raised are certain.

        `origin` names them.
        """
        check_number("clip", minimum, above=0, most=1)
        least = minimum * self.slope[0]
        raised = np.flatnonzero(self.slope < least) + 1
        if not len(raised):
            return self
        where = positions(raised.tolist(), most=len(raised))
        origin = f"{self.origin}; slopes clipped to {least:g} at {where}"
        covariance = None if self.covariance is None else self.covariance.copy()
        if covariance is not None:
            covariance[raised - 1] = covariance[:, raised - 1] = 0.0
        return replace(self, slope=np.maximum(self.slope, least), origin=origin, covariance=covariance)

    def propensities(self) -> Propensities:
        """How much of a difference in relevance shows at each position, relative to the first: slope_k / slope_1."""
        from scipy.special import ndtri

        values = self.slope / self.slope[0]
        if self.covariance is None or self.confidence is None:
            return Propensities(values, f"slopes of {self.origin}", method="AffineClicks" if values.max() > 1 else None)
        size = len(self)
        turn = np.diag(1 / self.slope)
        turn[:, 0] -= 1 / self.slope[0]
        with np.errstate(all="ignore"):  # what is not finite is refused below
            covariance = turn @ self.covariance[:size, :size] @ turn.T
            half = float(ndtri((1 + self.confidence) / 2)) * np.sqrt(np.maximum(np.diag(covariance), 0.0))
            low, high = values * np.exp(-half), values * np.exp(half)
        return Propensities(
            values,
            f"slopes of {self.origin}",
            method="TrustBias",
            low=low,
            high=high,
            confidence=self.confidence,
            covariance=covariance,
            notes=("slopes alone: clicks that owe nothing to relevance are left out", *self.notes),
        )

    # -- files ---------------------------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Write them to a JSON file."""
        content: dict[str, Any] = {"format": FORMAT, "slope": self.slope.tolist(), "base": self.base.tolist()}
        content |= {"origin": self.origin, "notes": list(self.notes), "confidence": self.confidence}
        content["covariance"] = None if self.covariance is None else self.covariance.tolist()
        save_json(path, content, indent=1)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> AffineClicks:
        """Read what `save` wrote."""
        file = Path(path)
        if not file.is_file():
            raise UsageError(f"{file}: {'a folder, not a' if file.is_dir() else 'no such'} file of affine clicks.")
        content: Any = read_json(file, "JSON")
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise FormatError(
                "holds no slopes and bases; {} writes them, and propensities are for {}.",
                Spelling("TrustBias().fit(clicks).save", "`cldrank propensity estimate --method trust-bias`"),
                Spelling("Propensities.load", "--propensity"),
                path=file,
            )
        try:
            known = {name: entry(content, name, "the file") for name in ("slope", "base", "origin", "notes")}
            slope = numbers(known["slope"], "slope")
            covariance, confidence = (content.get(name) for name in ("covariance", "confidence"))
            return cls(
                slope,
                numbers(known["base"], "base"),
                as_text(known["origin"], "origin"),
                None if covariance is None else symmetric(covariance, "covariance", 2 * len(slope)),
                None if confidence is None else as_number(confidence, "confidence", 0, 1),
                texts(known["notes"], "notes"),
            )
        except DataError as error:
            raise FormatError(f"holds damaged slopes and bases: {error}", path=file) from None


def curve_of(found: Propensities | AffineClicks) -> Propensities:
    """The propensities themselves, or the slopes as propensities.

    >>> curve_of(AffineClicks(np.array([0.4, 0.2]), np.array([0.5, 0.1])))
    Propensities(1, 0.5; slopes of given)
    """
    return found.propensities() if isinstance(found, AffineClicks) else found


def _entry(value: float, low: float, high: float, known: bool) -> str:
    return f"{value:.4g} ({low:.3g} – {high:.3g})" if known else f"{value:.4g}"
