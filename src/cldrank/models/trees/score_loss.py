"""The squared error of scores, row by row: what trees are fitted by where the scores themselves are known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cldrank.models.pairs import Slopes
from cldrank.models.targets import Targets


class ScoreLoss:
    """Σ w (f - target)² / Σ w over the rows that are not held out.

    >>> targets = Targets(np.arange(2), np.array([1.0, 3.0]), np.ones(2), np.array([0, 1]))
    >>> loss = ScoreLoss(targets, np.array([False, True]))
    >>> slopes = loss.at(np.zeros(2, dtype=np.float32))
    >>> slopes.gradient, slopes.loss, loss.judge(np.zeros(2, dtype=np.float32))
    (array([-1.,  0.], dtype=float32), 1.0, (9.0, None))
    """

    def __init__(self, targets: Targets, is_held: NDArray[np.bool_]) -> None:
        self._target, self._weight, self._is_held = targets.target, targets.weight, is_held
        self._hessian = np.where(is_held, 0.0, targets.weight).astype(np.float32)

    def at(self, scores: NDArray[np.float32]) -> Slopes:
        """Half the derivatives at the score of each row."""
        gradient = self._hessian * (scores - self._target)
        return Slopes(gradient.astype(np.float32), self._hessian, self._mean_error(scores, ~self._is_held))

    def judge(self, scores: NDArray[np.float32]) -> tuple[float | None, None]:
        """The loss on the rows held out, if there are any; which preferences scores agree with is not asked."""
        return (self._mean_error(scores, self._is_held) if self._is_held.any() else None), None

    def _mean_error(self, scores: NDArray[np.float32], rows: NDArray[np.bool_]) -> float:
        return float(np.average((scores[rows] - self._target[rows]) ** 2, weights=self._weight[rows]))
