"""Made-up results that look like real ones: all shipped experiments, with noise over seeds."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cldrank.experiment.results import SCHEMA, load_results
from cldrank.report.sections import Section, sections

METHODS = ("Naive", "IPS", "Heckman^rank", "RankAgg", "CLD", "CLD-pair", "Oracle")
MEASURES = ("nDCG@1", "nDCG@3", "AP")
EVIL = "</script><script>alert('x')</script>&\"' {}$\\_%|`#~^"
SIMULATION = {"sessions": 100_000, "depth": 5, "eta": 1.0, "noise": 0.1}

# labels that are not those of a method: its name, and what was chosen
_CHOSEN: dict[str, tuple[str, dict[str, Any]]] = {
    "CLD-pair+": ("cld-pair", {}),
    "Naive trees": ("naive", {"model": "trees"}),
    "IPS trees": ("ips", {"model": "trees"}),
    "CLD-pair trees": ("cld-pair", {"model": "trees"}),
    "Oracle trees": ("oracle", {"model": "trees"}),
    "XGBoost unbiased": ("xgboost", {"debias": "position"}),
    "LightGBM position": ("lightgbm", {"debias": "position"}),
}
BEYOND = tuple(_CHOSEN)
_CHOSEN |= {"Naive-L": ("naive", {"model": "linear"}), "Oracle-L": ("oracle", {"model": "linear"})}
_CHOSEN |= {f"{label} safe": (_CHOSEN[label][0], {**_CHOSEN[label][1], "safe": True}) for label in (*BEYOND, "Naive-L")}
LOOPED = ("Naive-L", "CLD", "Naive trees", "IPS trees", "CLD-pair trees", "Oracle-L", "Oracle trees")
ROUNDS = [{"loop.rounds": rounds} for rounds in range(1, 11)]

_FLOOR = {"nDCG@1": 0.383, "nDCG@3": 0.350, "AP": 0.294}
_CEILING = {"nDCG@1": 0.455, "nDCG@3": 0.416, "AP": 0.332}
_START = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)


_SHARES = {
    "Naive": 0.0, "IPS": 0.5, "Heckman^rank": 0.1, "RankAgg": 0.4, "CLD": 0.75, "CLD-pair": 0.8, "CLD-N": 0.3,
    "CLD-pair-L": 0.7, "Oracle": 1.0, "CLD-pair+": 0.85, "Naive trees": 0.1, "IPS trees": 0.6, "CLD-pair trees": 0.9,
    "XGBoost unbiased": 0.4, "LightGBM position": 0.3, "Oracle trees": 1.1,
}  # fmt: skip


def share(method: str, simulation: Mapping[str, float], assumed: float) -> float:
    """How much of the way from Naive to Oracle a method might make it, less with few sessions or a wrong η."""
    few = 0.5 * math.exp(-math.log10(simulation["sessions"] / 2_000))
    wrong = 0.3 * abs(assumed - simulation["eta"]) * ("Naive" not in method and "Oracle" not in method)
    return _SHARES.get(method, 0.5) - wrong - few


def configuration(method: str, seed: int, simulation: Mapping[str, float], assumed: float) -> dict[str, Any]:
    """What a unit was told; Oracle looks at no clicks."""
    home, chosen = _CHOSEN.get(method, (f"cldrank.methods:{method}", {"l2": 0.003}))
    described = {"class": home, "parameters": {**chosen, "seed": seed}, "defaults": {}}
    told = {"cldrank": "0.3.0", "data": {"name": "made"}, "method": described, "seed": seed}
    if method.startswith("Oracle"):
        return told
    parts = {"production": {"fraction": 0.01}, "simulation": dict(simulation), "propensities": {"eta": assumed}}
    return {**told, **parts}


def rows(
    experiment: str,
    *,
    data: str = "msrd",
    fold: str = "",
    synthetic: bool = False,
    settings: Iterable[Mapping[str, Any]] = ({},),
    methods: Sequence[str] = METHODS,
    seeds: Sequence[int] = range(5),
    measures: Sequence[str] = MEASURES,
    failing: Callable[[str, int], str] | None = None,
    simulation: Mapping[str, float] = SIMULATION,
) -> list[dict[str, Any]]:
    """The results of an experiment; `failing` says with which error a method fails with a seed."""
    made: list[dict[str, Any]] = []
    for setting in settings:
        chosen = {
            **simulation,
            **{
                key[11:]: value
                for key, value in setting.items()
                if key.startswith("simulation.") and key != "simulation.assumed_eta"
            },
        }
        assumed = setting.get("simulation.assumed_eta", chosen["eta"])
        for method in methods:
            for seed in seeds:
                key = json.dumps([experiment, data, setting, method, seed])
                unit = hashlib.sha256(key.encode()).hexdigest()[:16]
                random = np.random.default_rng(int(unit, 16))
                common = np.random.default_rng([seed, len(experiment)]).normal(0, 0.004)
                error = failing(method, seed) if failing else ""
                seconds = 5.0 * random.lognormal(0, 0.15)
                for measure in measures:
                    low, high = _FLOOR.get(measure, 0.3), _CEILING.get(measure, 0.4)
                    value = low + (high - low) * share(method, chosen, assumed) + common + random.normal(0, 0.003)
                    made.append(
                        {
                            "experiment": experiment,
                            "unit": unit,
                            "data": data,
                            "synthetic": synthetic,
                            "fold": fold,
                            "setting": json.dumps(setting, sort_keys=True),
                            "method": method,
                            "seed": seed,
                            "measure": measure,
                            "value": math.nan if error else value,
                            "status": "failed" if error else "ok",
                            "error": error,
                            "warnings": json.dumps(
                                ["the fit stopped after 200 steps"] if random.random() < 0.02 else []
                            ),
                            "seconds": seconds,
                            "configuration": json.dumps(configuration(method, seed, chosen, assumed)),
                            "data_fingerprint": hashlib.sha256(data.encode()).hexdigest(),
                            "versions": json.dumps(
                                {"cldrank": "0.3.0", "numpy": "2.1.3", "python": "3.11.9", "torch": "2.5.1"}
                            ),
                            "commit": "4f0c2d1e9a7b",
                            "command": f"cldrank experiment run {experiment} --data {data} --out results/{data}",
                            "finished": _START + timedelta(seconds=len(made)),
                        }
                    )
    return made


def every(data: str = "msrd", **options: Any) -> list[dict[str, Any]]:
    """All shipped experiments on a data set."""
    mild = {**SIMULATION, "eta": 0.1}
    assumed = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0]
    wide: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
        "rq1-cutoff": ("simulation.depth", [2, 3, 5, 7, 10, 15, 20], mild),
        "rq1-position": ("simulation.eta", [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0], SIMULATION),
        "rq2-sessions": (
            "simulation.sessions",
            [1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000],
            SIMULATION,
        ),
        "rq3-noise": ("simulation.noise", [0.0, 0.1, 0.2, 0.3, 0.4, 0.5], SIMULATION),
    }

    def failing(method: str, seed: int) -> str:
        return "the loss is not finite after 31 steps; lower the learning rate." if (method, seed) == ("IPS", 3) else ""

    made = rows("table1", data=data, simulation=mild, **options)
    for name, (key, values, simulation) in wide.items():
        stop = failing if name == "rq3-noise" else None
        settings = [{key: value} for value in values]
        made += rows(name, data=data, settings=settings, simulation=simulation, failing=stop, **options)
    crossed = [{"simulation.assumed_eta": eta, "simulation.depth": depth} for depth in (3, 5) for eta in assumed]
    without = tuple(method for method in METHODS if method != "Heckman^rank")
    made += rows("rq4-misspecified", data=data, settings=crossed, methods=without, **options)
    variants = ("Naive", "CLD", "CLD-N", "CLD-pair", "CLD-pair-L", "Oracle")
    made += rows("rq5-models", data=data, methods=variants, simulation=mild, **options)
    crossed = [
        {"simulation.assumed_eta": eta, "simulation.sessions": sessions}
        for eta in (0.5, 1.0, 2.0)
        for sessions in (1_000, 10_000, 100_000, 1_000_000)
    ]
    robust = ("Naive", "CLD", "CLD-pair", "Oracle", *BEYOND[:5])
    made += rows("rq6-robust", data=data, settings=crossed, methods=robust, **options)
    return made + rows("loop", data=data, settings=ROUNDS, methods=LOOPED, simulation=SIMULATION, **options)


def save(made: Sequence[Mapping[str, Any]], folder: Path) -> Path:
    """Leave results in a folder, as a run does at its end."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist([dict(row) for row in made], schema=SCHEMA), folder / "results.parquet")
    return folder


def only(folder: Path, *arguments: Any, **options: Any) -> Section:
    """The one section of results that are left in a folder."""
    (section,) = sections(load_results(save(rows(*arguments, **options), folder)))
    return section


class Made:
    """What tests make results with: they cannot import from here."""

    methods, measures, evil, simulation, beyond = METHODS, MEASURES, EVIL, SIMULATION, BEYOND
    looped, rounds = LOOPED, ROUNDS
    rows = staticmethod(rows)
    every = staticmethod(every)
    save = staticmethod(save)
    only = staticmethod(only)


@pytest.fixture(scope="session")
def made() -> type[Made]:
    """Makes results."""
    return Made


@pytest.fixture(scope="session")
def all_shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with results of all shipped experiments, and of table 1 on the paper's data and on a synthetic set."""
    mild = {**SIMULATION, "eta": 0.1}
    found = every()
    found += rows("table1", data="web10k", fold="fold1", simulation=mild)
    found += rows("table1", data="web10k-like", synthetic=True, simulation=mild, methods=(*METHODS, "Mine"))
    return save(found, tmp_path_factory.mktemp("every"))


@pytest.fixture(scope="session")
def found(all_shipped: Path) -> dict[tuple[str, str], Section]:
    """The sections of that folder by experiment and data set."""
    return {(section.units[0]["experiment"], section.data): section for section in sections(load_results(all_shipped))}


@pytest.fixture(scope="session")
def evil(made: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results whose every text is hostile."""
    rows = made.rows(
        made.evil, data=made.evil, methods=("Naive", made.evil, "_hidden", "Oracle"), fold=made.evil,
        failing=lambda method, seed: made.evil if (method, seed) == (made.evil, 0) else "",
    )  # fmt: skip
    rows += made.rows("varied", data=made.evil, methods=(made.evil, "$x^2$"), settings=[
        {made.evil: 1, "simulation.a|b": made.evil}, {made.evil: 2, "simulation.a|b": made.evil}
    ])  # fmt: skip
    for row in rows:
        row |= dict.fromkeys(("commit", "command", "data_fingerprint"), made.evil)
        row["warnings"] = '["</script>\\n|<b>"]'
    return Path(made.save(rows, tmp_path_factory.mktemp("evil")))
