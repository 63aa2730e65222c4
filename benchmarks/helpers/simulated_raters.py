"""Grades from 0 to 3 by raters who agree with labels as well as is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MACHINE, PEOPLE = 0.83, 0.95  # how often a relevant candidate is rated higher than one that is not
RATED = {"all": 1.0, "tenth": 0.1}
_SHARES = (0.5, 0.75, 0.9)  # of candidates below grades 1, 2 and 3


def grades(labels: Any, relevant: NDArray[np.bool_], auc: float, random: np.random.Generator) -> Floats:
    """Grades of labels beside noise, as much of it as gives the concordance `auc` with what is relevant."""
    values = np.asarray(labels, dtype=np.float64)
    noise, least, most = random.normal(size=len(values)), 0.01, 20.0
    rated = values
    for _ in range(30):
        middle = np.sqrt(least * most)
        latent = values / values.std() + middle * noise
        rated = np.digitize(latent, np.quantile(latent, _SHARES)).astype(np.float64)
        above, below = (np.bincount(rated[chosen].astype(int), minlength=4) for chosen in (relevant, ~relevant))
        reached = above @ (np.cumsum(below) - below / 2) / (above.sum() * below.sum())
        least, most = (middle, most) if reached > auc else (least, middle)
    return rated


def machine_grades(labels: Any, relevant: NDArray[np.bool_], rated: str, seed: int) -> Floats:
    """Grades by a machine, of "all" candidates or of a "tenth", NaN for others."""
    random = np.random.default_rng([seed, 11])
    every = grades(labels, relevant, MACHINE, random)
    return np.where(random.random(len(every)) < RATED[rated], every, np.nan)
