"""`cldrank data`: look at, convert, make and fetch ranking data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cldrank.cli import options
from cldrank.cli.derived import with_options
from cldrank.cli.output import (
    check_parquet_name,
    console,
    download_bar,
    new_table,
    print_json,
    progress_bar,
    say,
    working,
)
from cldrank.wording import some

if TYPE_CHECKING:
    from rich.progress import Progress

    from cldrank.catalogue import DataSource
    from cldrank.data.dataset import RankingDataset

Report = Callable[[str, int, int], None]

app = typer.Typer(no_args_is_help=True, help="Look at, convert, make and fetch ranking data.")


@app.command("list")
def list_known(
    name: Annotated[str | None, typer.Argument(help="A set to describe: shape, licence, how to get it.")] = None,
    as_json: options.Json = False,
) -> None:
    """List the public data sets that cldrank knows, and which of them are on this machine; or describe one.

    Example: `cldrank data list msrd`
    """
    from cldrank import catalogue

    if name is not None:
        source = catalogue.get(name)
        if as_json:
            print_json(source.as_dict())
        else:
            console.print(source.describe(), markup=False)
        return
    sources = [catalogue.get(key) for key in catalogue.names()]
    if as_json:
        print_json([source.as_dict() for source in sources])
        return
    table = new_table("name", "queries", "rows", "features", "how to get it", "here")
    for source in sources:
        counts = (source.shape.queries, source.shape.rows, source.shape.features)
        shown = ["–" if count is None else f"{count:,}" for count in counts]
        way = "tools/prepare.py" if source.prepared else "by hand" if source.gated else "fetch"
        table.add_row(source.key, *shown, way, "yes" if source.find() else "no")
    console.print(table)
    console.print("`cldrank data list NAME` describes one and says how to get it.", style="dim")


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(show_default=False)],
    accept_licence: Annotated[
        bool, options.spelled("--accept-licence", "Confirm that you have read the licence and accept it.")
    ] = False,
    force: Annotated[bool, options.spelled("--force", "Download it again even if it is present.")] = False,
    as_json: options.Json = False,
) -> None:
    """Download a data set, verify it and unpack it. If that needs a login, or a tool, print what to do instead.

    Example: `cldrank data fetch istella-s --accept-licence`, after which every command knows `istella-s:train`.
    """
    from cldrank import catalogue
    from cldrank.catalogue import download

    source = catalogue.get(name)
    with download_bar() as bar:
        fetched = download.fetch(source, accept_licence=accept_licence, force=force, progress=_files_reporter(bar))
    if as_json:
        print_json({"name": source.key, "folder": str(fetched.folder), "fresh": fetched.fresh})
        return
    console.print(f"{source.key} is {'now' if fetched.fresh else 'already'} in {fetched.folder}", markup=False)
    _say_terms(source)


def _files_reporter(bar: Progress) -> Report:
    """A function that moves a bar of its own for each file."""
    tasks: dict[str, Any] = {}

    def report(file: str, done: int, total: int) -> None:
        if file not in tasks:
            tasks[file] = bar.add_task(file)
        bar.update(tasks[file], completed=done, total=total)

    return report


def _say_terms(source: DataSource) -> None:
    say(f"Licence: {source.licence} ({source.homepage}). Cite: {source.citation}")


@app.command()
@with_options
def show(
    source: Annotated[
        list[str], typer.Argument(help="A file, a folder, a pattern, or a known data set.", show_default=False)
    ],
    *,
    reading: options.Reading,
    as_json: options.Json = False,
) -> None:
    """Load data and summarise it: a check that a file is what you think it is.

    Example: `cldrank data show train.txt`
    """
    dataset = reading.load(source)
    summary = _summary(dataset)
    if as_json:
        print_json(summary)
        return
    console.print(repr(dataset), markup=False)
    console.print("candidates per query: least {least}, median {median:g}, most {most}".format(**summary["candidates"]))
    if summary["labels"]:
        shares = ", ".join(f"{label}: {share:.1%}" for label, share in summary["labels"].items())
        console.print(f"labels: {shares}; queries without a label above 0: {summary['queries_without_relevant']:,}")
    console.print(f"features: {some(dataset.feature_names)}", markup=False)
    if summary["constant_features"]:
        console.print(f"constant features: {some(summary['constant_features'])}", markup=False)
    if summary["missing"]:
        named = [f"{name} ({share:.1%})" for name, share in summary["missing"].items()]
        console.print(f"missing values: {some(named)}", markup=False)
    if dataset.source_rows is not None:
        say("The rows of some queries were scattered in the file; they have been brought together.")


@app.command()
@with_options
def convert(
    source: Annotated[list[str], typer.Argument(help="What to read.", show_default=False)],
    out: Annotated[Path, options.spelled("--out -o FILE", "The Parquet file to write.", show_default=False)],
    as_list: Annotated[
        bool, options.spelled("--list", "One list column `features` instead of one column per feature.")
    ] = False,
    *,
    layout: options.Layout,
    as_json: options.Json = False,
) -> None:
    """Convert LETOR/SVMlight text, CSV, or Parquet of another layout, to Parquet.

    Example: `cldrank data convert train.txt.gz --out train.parquet`
    """
    from cldrank.data.table_rows import save_parquet

    check_parquet_name(out)
    options.check_outputs([out], source)
    dataset = layout.load(source)
    with working(f"writing {out} …"):
        save_parquet(dataset.blocks(), out, features="list" if as_list else "columns")
    if as_json:
        print_json({"out": str(out), **_summary(dataset)})
    else:
        console.print(f"wrote {out}: {dataset!r}", markup=False)


@app.command()
def make(
    kind: Annotated[str, typer.Argument(help="`web10k-like` or `yahoo-like`.", show_default=False)],
    queries: Annotated[int, options.spelled("--queries -n", "How many queries.", min=1)] = 1000,
    skip: Annotated[
        int, options.spelled("--skip", "Leave out as many queries, to test on others than the same seed trains.", min=0)
    ] = 0,
    seed: options.Seed = 0,
    out: Annotated[
        Path | None,
        options.spelled(
            "--out -o FILE", "The Parquet file to write; by default KIND-QUERIES-SEED[-skipN].parquet here."
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Make a synthetic data set in the shape of a published one. Its results are always labelled synthetic.

    Blocks stream to disk, so the set may be larger than memory. Example: `cldrank data make web10k-like -n 500`
    """
    from cldrank.data import synthetic
    from cldrank.data.table_rows import save_parquet

    target = out or Path(f"{kind}-{queries}-{seed}{f'-skip{skip}' if skip else ''}.parquet")
    check_parquet_name(target)
    options.check_outputs([target], [])
    blocks = synthetic.generate(kind, queries, seed, skip=skip)
    with progress_bar() as bar:
        task = bar.add_task(f"making {kind}", total=queries)

        def counted() -> Iterator[RankingDataset]:
            for block in blocks:
                yield block
                bar.advance(task, len(block))

        rows = save_parquet(counted(), target)
    if as_json:
        made = {"queries": queries, "skip": skip, "rows": rows, "seed": seed}
        print_json({"out": str(target), "kind": kind, "synthetic": True, **made})
    else:
        console.print(f"wrote {target}: {queries:,} queries, {rows:,} rows, synthetic", markup=False)


@app.command()
def cache(
    clear: Annotated[bool, options.spelled("--clear", "Remove all of it. Downloaded data sets stay.")] = False,
    as_json: options.Json = False,
) -> None:
    """Show how much the cache of loaded files takes, or clear it."""
    from cldrank.catalogue import cache_folder
    from cldrank.data import store

    removed = store.clear() if clear else 0
    entries, size = store.usage()
    if as_json:
        print_json({"folder": str(cache_folder()), "entries": entries, "bytes": size, "removed": removed})
    else:
        done = f"removed {removed}; " if clear else ""
        console.print(f"{cache_folder()}: {done}{entries} cached loads, {size / 2**20:,.1f} MiB", markup=False)


def _summary(dataset: RankingDataset) -> dict[str, Any]:
    import numpy as np

    labels: dict[str, float] = {}
    without = 0
    if dataset.labels is not None:
        values, counts = np.unique(dataset.labels, return_counts=True)
        labels = {f"{value:g}": count / dataset.n_rows for value, count in zip(values, counts, strict=True)}
        best = np.maximum.reduceat(dataset.labels, dataset.offsets[:-1])
        without = int(np.count_nonzero(best <= 0))
    low, high = (np.full(dataset.n_features, np.nan) for _ in range(2))  # missing values aside
    missing = np.zeros(dataset.n_features, dtype=np.int64)
    for part in dataset.blocks():
        low, high = np.fmin(low, np.fmin.reduce(part.features)), np.fmax(high, np.fmax.reduce(part.features))
        missing += np.isnan(part.features).sum(axis=0) if dataset.has_missing else 0
    shares = missing / dataset.n_rows
    return {
        "name": dataset.name,
        "synthetic": dataset.synthetic,
        "queries": dataset.n_queries,
        "rows": dataset.n_rows,
        "features": dataset.n_features,
        "candidates": {
            "least": int(dataset.sizes.min()),
            "median": float(np.median(dataset.sizes)),
            "most": int(dataset.sizes.max()),
        },
        "labels": labels,
        "queries_without_relevant": without,
        "constant_features": [name for name, flat in zip(dataset.feature_names, low == high, strict=True) if flat],
        "missing": {name: float(share) for name, share in zip(dataset.feature_names, shares, strict=True) if share},
        "document_ids": dataset.doc_ids is not None,
        "regrouped": dataset.source_rows is not None,
    }
