"""Whether relevance can be separated from position: what features explain of the order, how far they move a curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.propensity.counts import Cells
from cldrank.propensity.parsing import as_number, as_whole, entry

Floats = NDArray[np.float64]

DETERMINED = 0.98  # features that explain more of the order than this leave nothing to estimate from
_EXPLAINED = 0.5
_MOVED = 0.1
_ALWAYS = 0.3  # whatever the error
_SENSITIVE = 0.1
_BLOCK_VALUES = 1 << 22
_SURE = 3.0  # standard errors
_FARTHEST = 700.0  # a log propensity beyond has no number


@dataclass(frozen=True)
class Confounding:
    """How much the estimate rests on the model of relevance, which the log itself cannot test.

    explained     0 … 1: of the contrast of positions that the features explain best, the share of variance that they
                  explain (the largest squared canonical correlation, adjusted for their number)
    moved         how far the model of relevance moved log ρ from plain click-through rates, at most
    error         the standard error of that; None where it is not known
    position      where
    sensitivity   how far log ρ moves, at most, if the penalty of the regression is ten times larger or smaller; None
                  for networks

    In a random order nothing is explained and nothing is moved. Where a ranker puts the relevant on top, features must
    move the curve; the relevance that they do not know still counts as position, and the log does not show how much.
    """

    explained: float
    moved: float
    error: float | None
    position: int
    sensitivity: float | None = None

    @property
    def reasons(self) -> tuple[str, ...]:
        """What makes the estimate doubtful, in words; empty where nothing does."""
        found = []
        if abs(self.moved) > max(_MOVED, min(_SURE * (self.error or 0.0), _ALWAYS)):
            found.append(
                f"the model of relevance moved position {self.position} by {np.expm1(self.moved):+.0%} from its "
                "click-through rate, so what it does not know of relevance may count as position, too"
            )
        if self.explained > _EXPLAINED:
            found.append(
                f"features explain {self.explained:.0%} of a contrast of positions, so they may stand in for it"
            )
        if self.sensitivity is not None and self.sensitivity > _SENSITIVE:
            found.append(f"another penalty moves a position by {np.expm1(self.sensitivity):.0%}")
        return tuple(found)

    @property
    def doubtful(self) -> bool:
        """Whether the log leaves it open how much of the curve is position."""
        return bool(self.reasons)

    def __str__(self) -> str:
        if self.doubtful:
            return f"relevance and position are confounded: {'; '.join(self.reasons)}"
        return (
            f"relevance and position can be told apart: features explain {self.explained:.0%} of the order, and the "
            f"model of relevance moved no position by more than {np.expm1(abs(self.moved)):.1%}"
        )

    @classmethod
    def parsed(cls, content: Any, positions: int) -> Confounding:
        """From a file of this many positions."""
        found = {
            name: entry(content, name, "confounding")
            for name in ("explained", "moved", "error", "position", "sensitivity")
        }
        error, sensitivity = (
            None if found[name] is None else as_number(found[name], f"{name}, of confounding,", 0)
            for name in ("error", "sensitivity")
        )
        return cls(
            as_number(found["explained"], "explained, of confounding,", 0, 1),
            as_number(found["moved"], "moved, of confounding,", -_FARTHEST, _FARTHEST),
            error,
            as_whole(found["position"], "position, of confounding,", 1, positions),
            sensitivity,
        )


def explained_order(features: NDArray[np.float32], cells: Cells, row: IntArray) -> float:
    """The largest squared canonical correlation of features and positions over cells, adjusted as R² is.

    features   (rows, columns) of the candidates shown
    row        (cells,) which of them a cell belongs to
    """
    rows, size = len(features), cells.size
    weight = cells.impressions / cells.impressions.sum()
    shown = np.bincount(row, weight, rows)
    share = np.bincount(cells.place, weight, size)
    by_row = np.bincount(row * size + cells.place, weight, rows * size).reshape(rows, size) - np.outer(shown, share)
    means = shown @ features
    gram, cross = np.zeros((features.shape[1],) * 2), np.zeros((features.shape[1], size))
    step = max(1, _BLOCK_VALUES // max(features.shape[1], 1))
    for own in (slice(start, start + step) for start in range(0, rows, step)):
        centred = features[own] - means
        gram += (centred * shown[own][:, None]).T @ centred
        cross += centred.T @ by_row[own]
    positions = np.diag(share) - np.outer(share, share)
    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-10 * max(float(values.max(initial=0.0)), 1e-300)
    whitened = (vectors[:, kept] / np.sqrt(values[kept])).T @ cross
    found = np.linalg.eigvals(np.linalg.pinv(positions, rcond=1e-10, hermitian=True) @ (whitened.T @ whitened))
    largest = float(np.clip(found.real.max(initial=0.0), 0.0, 1.0))
    freedom = len(row) - int(kept.sum()) - 1
    return max(0.0, 1 - (1 - largest) * (len(row) - 1) / freedom) if freedom > 0 else 1.0


def confounding(
    values: Floats, plain: Floats, errors: Floats | None, explained: float, sensitivity: float | None
) -> Confounding:
    """Compare an estimate with plain click-through rates; `errors` are those of the difference of the logs."""
    moved = np.log(values) - np.log(plain)
    at = int(np.abs(moved).argmax())
    error = None if errors is None else float(errors[at])
    return Confounding(explained, float(moved[at]), error, at + 1, sensitivity)
