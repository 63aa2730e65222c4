"""The likelihood of clicks under the position-based model with relevance by logistic regression, on cells."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.optimise import Derivatives, Vector
from cldrank.propensity.counts import Cells

Floats = NDArray[np.float64]

_BLOCK_VALUES = 1 << 22


class ExaminedRegression:
    """Mean log-likelihood of cells, less a penalty; parameters are log ρ_2 … log ρ_k, then β and its intercept.

        Σ_cells [c log q + (n - c) log(1 - q)] / Σ n - l2 ‖β‖²,    q = ρ_k γ(x),    γ(x) = σ(β·x + intercept)

    features   (rows, columns) float32, scaled, of the candidates that were shown
    row        (cells,) which of them a cell belongs to
    """

    def __init__(self, cells: Cells, features: NDArray[np.float32], row: IntArray, l2: float) -> None:
        self.cells, self.features, self.row, self.l2 = cells, features, row, l2
        self.total = float(cells.impressions.sum())
        self.n_positions, self.width = cells.size - 1, features.shape[1]
        self.missed = cells.impressions - cells.clicks

    def penalised(self, l2: float) -> ExaminedRegression:
        """The same cells under another penalty."""
        return ExaminedRegression(self.cells, self.features, self.row, l2)

    @property
    def start(self) -> Vector:
        """The optimum without features: click-through rates, all candidates alike."""
        rates = np.clip(self.cells.rates(), 1e-9, 1 - 1e-9)
        level = np.log(rates[0]) - np.log1p(-rates[0])
        return np.concatenate([np.log(rates[1:] / rates[0]), np.zeros(self.width), [level]])

    def scores(self, parameters: Vector) -> Floats:
        """(rows,) β·x + intercept."""
        beta = parameters[self.n_positions : -1]
        found: Floats = np.concatenate([block @ beta for _, block in self._blocks()])
        return found + float(parameters[-1])

    def logs(self, parameters: Vector) -> Floats:
        """(k,) log ρ."""
        return np.concatenate([[0.0], parameters[: self.n_positions]])

    # -- expectation and maximisation ----------------------------------------------------------------------------

    def em_step(self, parameters: Vector) -> Vector:
        """One step of regression-EM (Wang et al. 2018): ρ in closed form, and one Newton step of the regression.

        P(examined | no click) = ρ (1 - γ) / (1 - ρ γ),    P(relevant | no click) = (1 - ρ) γ / (1 - ρ γ)
        """
        from scipy.special import expit

        cells, scores = self.cells, self.scores(parameters)
        gamma = expit(scores)[self.row]
        rho = np.exp(np.minimum(self.logs(parameters), 0.0))[cells.place]
        left = np.maximum(1 - rho * gamma, 1e-12)
        examined = _summed(cells.place, cells.clicks + self.missed * rho * (1 - gamma) / left, cells.size)
        relevant = _summed(self.row, cells.clicks + self.missed * (1 - rho) * gamma / left, len(scores))
        shown = _summed(self.row, cells.impressions, len(scores))
        found = np.clip(examined / _summed(cells.place, cells.impressions, cells.size), 1e-9, 1.0)
        fitted = expit(scores)
        gradient = self._back(relevant - shown * fitted) / self.total
        hessian = self._gram(shown * fitted * (1 - fitted)) / self.total
        gradient[:-1] -= 2 * self.l2 * parameters[self.n_positions : -1]
        hessian[np.arange(self.width), np.arange(self.width)] += 2 * self.l2
        step = np.linalg.lstsq(hessian, gradient, rcond=1e-12)[0]
        return np.concatenate([np.log(found[1:] / found[0]), parameters[self.n_positions :] + step])

    # -- the observed likelihood ---------------------------------------------------------------------------------

    def __call__(self, parameters: Vector) -> Derivatives:
        """Value, gradient and Hessian."""
        place, n_rows, size = self.cells.place, len(self.features), self.cells.size
        value, first, second, mixed, curved, relevant = self._terms(parameters)
        beta, ends = parameters[self.n_positions : -1], slice(self.n_positions, None)
        gradient, hessian = np.zeros(len(parameters)), np.zeros((len(parameters), len(parameters)))
        gradient[: self.n_positions] = _summed(place, first, size)[1:]
        gradient[ends] = self._back(_summed(self.row, first * relevant, n_rows))
        inner = np.arange(self.n_positions)
        hessian[inner, inner] = _summed(place, second, size)[1:]
        hessian[ends, ends] = -self._gram(-_summed(self.row, curved, n_rows))
        across = _summed(self.row * size + place, mixed, n_rows * size).reshape(n_rows, size)[:, 1:]
        hessian[ends, : self.n_positions] = self._back(across)
        hessian[: self.n_positions, ends] = hessian[ends, : self.n_positions].T
        gradient /= self.total
        hessian /= self.total
        gradient[self.n_positions : -1] -= 2 * self.l2 * beta
        spots = np.arange(self.n_positions, len(parameters) - 1)
        hessian[spots, spots] -= 2 * self.l2
        return Derivatives(value / self.total - self.l2 * float(beta @ beta), gradient, hessian)

    def group_scores(self, parameters: Vector) -> Floats:
        """(groups, parameters) what each group adds to the gradient, penalty included by its impressions.

        At the optimum they add up to 0, and reweighting groups moves the optimum by H⁻¹ Σ_g (w_g - 1) of them.
        """
        from scipy.sparse import csr_matrix

        cells = self.cells
        _, first, _, _, _, relevant = self._terms(parameters)
        found = np.zeros((cells.n_groups, len(parameters)))
        found[:, : self.n_positions] = cells.by_group(cells.place, first, cells.size)[:, 1:]
        member = csr_matrix((first * relevant, (cells.group, self.row)), shape=(cells.n_groups, len(self.features)))
        for own, block in self._blocks():
            part = member[:, own]
            found[:, self.n_positions : -1] += part @ block
            found[:, -1] += np.asarray(part.sum(axis=1)).ravel()
        shown = _summed(cells.group, cells.impressions, cells.n_groups)
        beta = parameters[self.n_positions : -1]
        found[:, self.n_positions : -1] -= 2 * self.l2 * np.outer(shown, beta)
        return found / self.total

    def _terms(self, parameters: Vector) -> tuple[float, Floats, Floats, Floats, Floats, Floats]:
        """The log-likelihood, and of each cell its derivatives: by log ρ, twice, by both, by the score twice; 1 - γ.

        The first derivative by the score is that by log ρ times 1 - γ. All of the Hessian's terms that could make it
        rise are kept: Newton's method knows how to climb where it is not concave.
        """
        from scipy.special import expit, log_expit

        cells, missed = self.cells, self.missed
        scores = self.scores(parameters)[self.row]
        log_q = self.logs(parameters)[cells.place] + log_expit(scores)
        with np.errstate(divide="ignore", invalid="ignore"):
            left = -np.expm1(log_q)
            value = float((cells.clicks * log_q).sum() + (missed[missed > 0] * np.log(left[missed > 0])).sum())
            odds = np.where(missed > 0, missed * np.exp(log_q) / left, 0.0)
            second = -np.where(missed > 0, odds / left, 0.0)
        if not (left[missed > 0] > 0).all():
            value = np.nan  # a click probability above 1: outside
        first, unlike = cells.clicks - odds, expit(-scores)
        curved = second * unlike**2 - first * unlike * (1 - unlike)
        return value, first, second, second * unlike, curved, unlike

    # -- features, block by block --------------------------------------------------------------------------------

    def _blocks(self) -> Iterator[tuple[slice, Floats]]:
        size = max(1, _BLOCK_VALUES // max(self.width, 1))
        for start in range(0, len(self.features), size):
            own = slice(start, min(start + size, len(self.features)))
            yield own, self.features[own].astype(np.float64)

    def _back(self, values: Floats) -> Floats:
        """(columns + 1, …) Σ over rows of the value times (x, 1)."""
        inner = sum(block.T @ values[own] for own, block in self._blocks())
        return np.concatenate([inner, values.sum(axis=0)[None]])

    def _gram(self, weight: Floats) -> Floats:
        """(columns + 1, columns + 1) Σ weight (x, 1)(x, 1)ᵀ; weights of either sign."""
        found = np.zeros((self.width + 1, self.width + 1))
        for own, block in self._blocks():
            part = block * weight[own][:, None]
            found[:-1, :-1] += part.T @ block
            found[:-1, -1] += part.sum(axis=0)
        found[-1, :-1] = found[:-1, -1]
        found[-1, -1] = weight.sum()
        return found


def _summed(key: IntArray, values: Floats, size: int) -> Floats:
    """(size,) the sum of the values of each key."""
    return np.asarray(np.bincount(key, values, size), dtype=np.float64)
