"""Readers of experiments and of results."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from mutation import Random, as_toml, mutate_text, mutate_tree
from reader import Reader, WrongError, bytes_of

_EXPERIMENT: dict[str, Any] = {
    "title": "Small",
    "data": {"name": "web10k-like", "queries": 20, "test_queries": 10},
    "seeds": [0, 1],
    "measures": ["nDCG@3", "AP"],
    "production": {"fraction": 0.2},
    "simulation": {"sessions": 2000, "depth": 3, "eta": 1.0, "noise": 0.1},
    "vary": {"simulation.eta": [0.5, 1.0]},
    "methods": {"Naive": {"use": "naive"}, "CLD": {"gamma": 0.1, "l2": 1e-3}},
}


def _seed_toml(folder: Path) -> None:
    (folder / "small.toml").write_text(as_toml(_EXPERIMENT))


def _case_toml(seeds: Path, place: Path, random: Random) -> Path:
    name = "small.toml"
    kind = random.random()
    if kind < 0.1:
        return bytes_of(name)(seeds, place, random)
    if kind < 0.3:
        content = mutate_text((seeds / name).read_text(), random, ' \n=,[]{}"')
    else:
        content = as_toml(mutate_tree(_EXPERIMENT, random))
    if random.random() < 0.02:
        content += "odd = " + "[" * 5000
    (place / name).write_text(content, errors="surrogatepass")
    return place / name


def _read_toml(path: Path) -> None:
    from cldrank.experiment.experiment_file import read

    experiment = read(path)
    for setting in experiment.settings():
        repr(setting)
    if not all(math.isfinite(seed) and seed >= 0 for seed in experiment.seeds[:1000]):
        raise WrongError(f"seeds {experiment.seeds[:5]}")


EXPERIMENT_READERS = {"toml": Reader(_seed_toml, _case_toml, _read_toml, 6)}
