"""Data drawn from the model itself, fitted again: do estimates and intervals come out right?

    python tests/methods/recovery.py

prints the table in docs/results/linear.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cldrank import scaling
from cldrank.likelihood import Form
from cldrank.models.linear.design import Design
from cldrank.models.linear.objective import SelectionObjective
from cldrank.models.linear.rows import LocalRows, View
from cldrank.models.linear.selection_fit import SelectionFit, fit_profile
from cldrank.models.targets import Observations

Floats = NDArray[np.float64]

NAMES = ("x1", "x2", "x3")
BETA, OMEGA = np.array([0.6, 0.9, 0.2]), np.array([0.8, -0.5, 1.0, -0.4])  # with their intercepts
GAMMA, SIGMA = 0.5, 0.7
TRUTH = np.concatenate([BETA, OMEGA, [SIGMA, GAMMA]])


class Recovery(NamedTuple):
    """Over all draws: estimates, their standard errors and their clustered ones (draws × parameters), and statuses."""

    estimates: Floats
    errors: Floats
    clustered: Floats
    statuses: list[str]


def draw(seed: int, rows: int = 2000) -> SelectionObjective:
    """Rows of the model: x3 is seen by selection alone; about four in ten are shown."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(rows, 3)).astype(np.float32)
    extended = np.hstack([features, np.ones((rows, 1))]).astype(np.float64)
    noise = random.multivariate_normal([0, 0], [[1, GAMMA * SIGMA], [GAMMA * SIGMA, SIGMA**2]], size=rows)
    shown = extended @ OMEGA + noise[:, 0] > 0
    target = extended[:, [0, 1, 3]] @ BETA + noise[:, 1]
    place = np.flatnonzero(shown)
    observed = Observations(
        rows=np.arange(rows),
        queries=np.arange(rows) // 4,
        absent=(~shown).astype(np.float64),
        shown=place,
        offsets=np.arange(len(place) + 1),
        target=target[place],
        weight=np.ones(len(place)),
        spread=np.zeros(len(place)),
    )
    design = Design(LocalRows(features, observed, View(scaling.fit(None, features))))
    form = Form(0.0, 1.0, gaussian=True)
    return SelectionObjective(design, form, 0.0, relevance=np.array([0, 1]), free=("log_sigma",))


def refit(objective: SelectionObjective, *, cluster: bool = False) -> SelectionFit:
    """All parameters estimated."""
    return fit_profile(objective, NAMES, np.zeros(objective.n_parameters), cluster=cluster)


def recover(draws: int, rows: int = 2000) -> Recovery:
    """Estimates of many draws."""
    found, robust = [], []
    for seed in range(draws):
        objective = draw(seed, rows)
        found.append(refit(objective))
        robust.append(refit(objective, cluster=True).estimates.standard_errors)
    return Recovery(
        np.array([fit.estimates.values for fit in found]),
        np.array([fit.estimates.standard_errors for fit in found]),
        np.array(robust),
        [fit.solution.status for fit in found],
    )


def coverage(estimates: Floats, errors: Floats, level: float = 1.959964) -> Floats:
    """How often the 95% intervals hold the truth."""
    share: Floats = np.mean(np.abs(estimates - TRUTH) <= level * errors, axis=0)
    return share


def main() -> None:
    """Print the table."""
    draws = 200
    found = recover(draws)
    own, robust = coverage(found.estimates, found.errors), coverage(found.estimates, found.clustered)
    names = [*("relevance x1", "relevance x2", "relevance (intercept)"), *(f"selection {name}" for name in NAMES)]
    names += ["selection (intercept)", "sigma", "gamma"]
    lines = ["| parameter | truth | mean estimate | sd of estimates | mean std. error | coverage | clustered |"]
    lines.append("|---|---|---|---|---|---|---|")
    for place, name in enumerate(names):
        values = found.estimates[:, place]
        lines.append(
            f"| {name} | {TRUTH[place]:g} | {values.mean():.3f} | {values.std(ddof=1):.4f} | "
            f"{found.errors[:, place].mean():.4f} | {own[place]:.1%} | {robust[place]:.1%} |"
        )
    lines.append(f"\n{draws} draws, {found.statuses.count('converged')} converged")
    print("\n".join(lines))  # noqa: T201


if __name__ == "__main__":
    main()
