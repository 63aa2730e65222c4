"""`cldrank demo`: the whole chain on an embedded default."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cldrank.cli import options
from cldrank.cli.evaluate import print_evaluation
from cldrank.cli.output import console, print_json, working


def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where to leave the data and the ranker.")
    ] = Path("demo"),
    queries: Annotated[int, typer.Option("--queries", "-n", min=10, help="How many queries to make.")] = 1000,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Make synthetic data, train a ranker on it, and measure the ranker on queries it has not seen."""
    from cldrank.data import synthetic
    from cldrank.estimators.oracle import Oracle
    from cldrank.evaluation import evaluate
    from cldrank.rankers import load_ranker

    out.mkdir(parents=True, exist_ok=True)
    paths = {part: out / f"{part}.parquet" for part in ("train", "test")}

    def step(text: str, command: str) -> None:
        if not as_json:
            console.print(f"[bold]{text}[/]\n  [dim]$ {command}[/]")

    step("1. Synthetic candidates in the shape of WEB10K", f"cldrank data make web10k-like -n {queries} --seed {seed}")
    with working("making data …"):
        train, test = synthetic.make("web10k-like", queries, seed).split(0.8, seed=seed)
        for part, dataset in (("train", train), ("test", test)):
            dataset.to_parquet(paths[part])
    if not as_json:
        for part, dataset in (("train", train), ("test", test)):
            counts = f"{dataset.n_queries:,} queries, {dataset.n_rows:,} candidates, {dataset.n_features} features"
            console.print(f"  {paths[part]}: {counts}", markup=False)

    folder = out / "ranker"
    step(
        "2. A linear ranker from the expert labels", f"cldrank train oracle --features {paths['train']} --out {folder}"
    )
    with working("training …"):
        Oracle().fit(train).ranker_.save(folder)
    ranker = load_ranker(folder)

    step("3. Measured on queries it has not seen", f"cldrank evaluate {folder} --features {paths['test']}")
    result = evaluate(ranker, test)
    if as_json:
        print_json({"out": str(out), **result.as_dict()})
    else:
        print_evaluation(result, str(folder))
