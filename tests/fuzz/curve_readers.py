"""Readers of propensities, those of segments, and slopes and bases."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from reader import Reader, WrongError, json_of, same

import cldrank as cr


def _seed_propensities(folder: Path) -> None:
    rho = cr.Propensities(
        np.array([1.0, 0.6, 0.4]),
        "a test",
        method="AllPairs",
        low=np.array([1.0, 0.5, 0.3]),
        high=np.array([1.0, 0.7, 0.5]),
        confidence=0.9,
        covariance=np.diag([0.0, 0.01, 0.02]),
        replicates=np.array([[1.0, 0.55, 0.45], [1.0, 0.65, 0.35], [1.0, 0.6, 0.4]]),
        notes=("a note",),
    )
    rho.save(folder / "rho.json")
    from cldrank.propensity import AffineClicks

    AffineClicks(np.array([0.9, 0.5]), np.array([0.01, 0.02])).save(folder / "affine.json")


def _read_propensities(path: Path) -> None:
    rho = cr.Propensities.load(path)
    content = json.loads(path.read_text())
    values = content.get("values", content.get("propensities")) if isinstance(content, dict) else content
    told = np.asarray(values, dtype=np.float64)
    same(rho.values, told / told[0], "propensities, relative to the first")
    if not np.isfinite(rho.values).all() or (rho.values <= 0).any():
        raise WrongError(f"propensities {rho.values}")
    for array in (rho.low, rho.high):
        if array is not None and array.shape != rho.values.shape:
            raise WrongError("arrays of other lengths")
    draws = rho.draws(5, seed=0)
    if draws.shape != (5, len(rho)) or not (rho.replicates is None or (np.isfinite(draws) & (draws > 0)).all()):
        raise WrongError(f"draws {draws}")
    str(rho), repr(rho), rho.plot()


def _read_affine(path: Path) -> None:
    from cldrank.propensity import AffineClicks

    found = AffineClicks.load(path)
    content = json.loads(path.read_text())
    same(found.slope, np.asarray(content["slope"], dtype=np.float64), "slopes")
    if not (np.isfinite(found.slope).all() and np.isfinite(found.base).all()):
        raise WrongError("slopes or bases that are not finite")
    str(found), repr(found)


CURVE_READERS = {
    "propensities": Reader(_seed_propensities, json_of("rho.json"), _read_propensities, 12),
    "affine": Reader(_seed_propensities, json_of("affine.json"), _read_affine, 8),
}
