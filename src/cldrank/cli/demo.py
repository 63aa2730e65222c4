"""`cldrank demo`: the whole chain on an embedded default."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cldrank.cli import options
from cldrank.cli.output import console, new_table, print_json, working
from cldrank.errors import CldrankWarning

if TYPE_CHECKING:
    from cldrank.data.dataset import RankingDataset
    from cldrank.evaluation import Evaluation

_KIND = "web10k-like"
_ETA, _CUTOFF, _NOISE, _SESSIONS = 1.0, 5, 0.1, 100_000
_MEASURES = ("nDCG@1", "nDCG@3", "nDCG@10")


def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where to leave data, clicks and rankers.")
    ] = Path("demo"),
    queries: Annotated[int, typer.Option("--queries", "-n", min=50, help="How many queries to make.")] = 1000,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Make synthetic data, simulate biased clicks on it, train rankers from the clicks, and compare them."""
    out.mkdir(parents=True, exist_ok=True)
    quiet = as_json

    def step(text: str, *commands: str) -> None:
        if not quiet:
            console.print(f"[bold]{text}[/]")
            for command in commands:
                console.print(f"  $ {command}", style="dim", markup=False, soft_wrap=True)

    tests = max(queries // 2, 25)
    step(
        "1. Synthetic candidates in the shape of WEB10K",
        f"cldrank data make {_KIND} -n {queries} --seed {seed} -o {out}/train.parquet",
        f"cldrank data make {_KIND} -n {tests} --seed {seed + 1} -o {out}/test.parquet",
    )
    train, test = _make(out / "train.parquet", queries, seed), _make(out / "test.parquet", tests, seed + 1)
    step(
        f"2. Clicks on the top {_CUTOFF} of a production ranker, biased by position",
        f"cldrank simulate {out}/train.parquet --sessions 1e5 --eta {_ETA:g} --cutoff {_CUTOFF} --noise {_NOISE} "
        f"--seed {seed} -o {out}/cells.parquet",
    )
    production, clicks = _click(train, seed)
    clicks.write(out / "cells.parquet")
    step(
        "3. Rankers from those clicks, and the ceiling from expert labels",
        f"cldrank train cld -f {out}/train.parquet -c {out}/cells.parquet -p power:{_ETA:g} -o {out}/cld",
        "… and naive, ips, heckman, oracle",
    )
    rankers = {"production": production, **_train(train, clicks, out)}
    step("4. Measured on queries none of them has seen", f"cldrank evaluate {out}/cld -f {out}/test.parquet")
    from cldrank.evaluation import evaluate

    results = {name: evaluate(ranker, test, _MEASURES) for name, ranker in rankers.items()}
    if as_json:
        print_json({"out": str(out), "methods": {name: result.as_dict() for name, result in results.items()}})
    else:
        _print(results)


def _make(path: Path, queries: int, seed: int) -> RankingDataset:
    from cldrank.data import synthetic

    with working(f"making {path} …"):
        dataset = synthetic.make(_KIND, queries, seed)
        dataset.to_parquet(path)
    return dataset


def _click(train: RankingDataset, seed: int) -> tuple[Any, Any]:
    from cldrank.clicks.simulate import PositionBased, Simulation, TopK
    from cldrank.estimators import SVMRank

    with working("simulating clicks …"):
        production = SVMRank(seed=seed).fit(train)
        model = PositionBased(eta=_ETA, noise=_NOISE)
        simulation = Simulation(train, production.predict(train), model=model, policy=TopK(), cutoff=_CUTOFF)
        return production, simulation.draw(_SESSIONS, seed=seed)


def _train(train: RankingDataset, clicks: Any, out: Path) -> dict[str, Any]:
    from cldrank import estimators
    from cldrank.propensity import Propensities

    rho = Propensities.power(_ETA, _CUTOFF)
    methods = {
        "naive": estimators.Naive(),
        "ips": estimators.IPS(),
        "heckman": estimators.HeckmanRank(),
        "cld": estimators.CLD(),
        "oracle": estimators.Oracle(),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CldrankWarning)
        for name, method in methods.items():
            with working(f"training {name} …"):
                method.fit(train, clicks, rho).ranker_.save(out / name)
    return methods


def _print(results: dict[str, Evaluation]) -> None:
    from cldrank.evaluation import described

    first = next(iter(results.values()))
    console.print(f"{described(first.data, first.synthetic)}, {first.queries:,} queries", style="bold", markup=False)
    table = new_table("method", *_MEASURES)
    for name, result in results.items():
        halves = {measure: (interval.high - interval.low) / 2 for measure, interval in result.intervals.items()}
        table.add_row(name, *(f"{result[measure]:.3f} ± {half:.3f}" for measure, half in halves.items()))
    console.print(table)
    console.print("mean over queries ± half of its 90% bootstrap interval", style="dim")
