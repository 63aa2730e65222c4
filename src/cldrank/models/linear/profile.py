"""Estimating γ: the profile of the likelihood over a grid, then all parameters together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cldrank.models.linear.fitting import EDGE, SelectionFit, described, limits
from cldrank.models.linear.objective import SelectionObjective
from cldrank.optimise import Vector, newton

_GRID = (0.0, 0.3, 0.6, 0.9)  # on either side


def fit_profile(
    objective: SelectionObjective,
    names: tuple[str, ...],
    start: Vector,
    *,
    max_steps: int = 50,
    tolerance: float = 1e-9,
    cluster: bool = False,
) -> SelectionFit:
    """Maximise over γ as well: from the best γ of a coarse grid, as the likelihood may have several tops.

    A fit that ends, or would end, next to γ = ±1 has status `boundary`.
    """
    form = objective.form
    if form is None:
        raise AssertionError("a probit has no γ")
    best: tuple[float, float, Vector] | None = None
    passes = 0
    for side in (1.0, -1.0):
        point = start
        for gamma in _GRID if side > 0 else _GRID[1:]:
            fixed = objective.varied(replace(form, gamma=side * gamma), objective.free)
            found = newton(fixed.evaluate, point, max_steps=max_steps, tolerance=1e-3)
            passes += found.n_passes
            if found.status == "non_finite":
                break
            point = found.parameters
            if best is None or found.value > best[0]:
                best = (found.value, side * gamma, point)
    free = objective.varied(form, (*objective.free, "atanh_gamma"))
    begin = np.append(start, 0.0) if best is None else np.append(best[2], np.arctanh(best[1]))
    solution = newton(free.evaluate, begin, **limits(free, max_steps, tolerance))
    if abs(solution.parameters[-1]) > 0.8 * EDGE:
        solution = replace(solution, status="boundary")
    solution = replace(solution, n_passes=solution.n_passes + passes)
    return described(free, names, solution, cluster=cluster)
