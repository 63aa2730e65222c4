"""`cldrank evaluate` and `cldrank compare`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cldrank.cli import options
from cldrank.cli.derived import with_options
from cldrank.cli.output import console, new_table, print_json, print_title, save_table, say
from cldrank.errors import UsageError

if TYPE_CHECKING:
    from cldrank.data.dataset import RankingDataset
    from cldrank.evaluation import Evaluation

_RANKER_HELP = (
    "A saved ranker (its folder), or a file of scores: Parquet or CSV as `cldrank score` writes it, text with one "
    "number per row, or .npy."
)


@dataclass(frozen=True)
class Measuring:
    """What to measure and how, as the options say."""

    measure: Annotated[
        list[str] | None,
        options.spelled(
            "--measure -m MEASURE",
            "What to measure: nDCG@3, AP, RR, P@5, ERR@10, DCG@10, ARP; binary ones take a threshold, AP(rel=2). "
            "Repeat it, or separate by commas.",
        ),
    ] = None
    confidence: Annotated[float, options.spelled("--confidence", "The confidence level of the intervals.")] = 0.9
    skip_empty: Annotated[
        bool, options.spelled("--skip-empty", "Leave out queries without a relevant document instead of counting 0.")
    ] = False
    seed: options.Seed = 0

    def arguments(self) -> dict[str, Any]:
        """As functions of `cldrank.evaluation` take them."""
        from cldrank.evaluation import DEFAULT_MEASURES

        return {
            "measures": self.measure or DEFAULT_MEASURES,
            "empty": "skip" if self.skip_empty else "zero",
            "confidence": self.confidence,
            "seed": self.seed,
        }


@with_options
def evaluate(
    ranker: Annotated[Path, typer.Argument(help=_RANKER_HELP, show_default=False)],
    features: options.Features,
    per_query: Annotated[
        Path | None, options.spelled("--per-query FILE", "Write the values of every query to this Parquet file.")
    ] = None,
    record: Annotated[
        bool, options.spelled("--record", "Add the result to the ranker's folder: its description and its model card.")
    ] = False,
    *,
    measuring: Measuring,
    reading: options.Reading,
    as_json: options.Json = False,
) -> None:
    """Measure how well a ranker orders labelled candidates, with intervals over queries.

    Example: `cldrank evaluate ranker/ --features test.txt -m nDCG@3,AP`
    """
    from cldrank.evaluation import evaluate as run

    options.check_outside(per_query, ranker)
    options.check_outputs([per_query], [*features, ranker])
    if record:
        _check_recordable(ranker)
    dataset, model = _loaded(reading, features, ranker)
    result = run(model, dataset, **measuring.arguments())
    if per_query:
        _write_per_query(result, dataset, per_query)
    if record:
        from cldrank.rankers import record_evaluation

        record_evaluation(model, result, ranker)
    if as_json:
        print_json({"ranker": str(ranker), **result.as_dict()})
    else:
        print_evaluation(result, str(ranker))
        if per_query:
            say(f"values of every query: {per_query}")
        if record:
            say(f"recorded in {ranker / 'README.md'}")


@with_options
def compare(
    first: Annotated[Path, typer.Argument(help=_RANKER_HELP, show_default=False)],
    second: Annotated[Path, typer.Argument(help="The same, for the ranker to compare with.", show_default=False)],
    features: options.Features,
    *,
    measuring: Measuring,
    reading: options.Reading,
    as_json: options.Json = False,
) -> None:
    """Compare two rankers query by query: difference, interval, and a p-value by randomisation.

    Example: `cldrank compare new/ old/ --features test.txt`
    """
    from cldrank.evaluation import compare as run
    from cldrank.evaluation import data_label

    dataset, one, two = _loaded(reading, features, first, second)
    result = run(one, two, dataset, **measuring.arguments())
    if as_json:
        print_json({"first": str(first), "second": str(second), **result.as_dict()})
        return
    title = f"{first} against {second} on {data_label(dataset.name, dataset.synthetic)}, {dataset.n_queries:,} queries"
    print_title(title)
    table = new_table(
        "measure", "first", "second", "difference", f"{measuring.confidence:.0%} interval", "p", "won/tied/lost"
    )
    for name, found in result.items():
        table.add_row(
            name,
            f"{result.first[name]:.4f}",
            f"{result.second[name]:.4f}",
            f"{found.difference:+.4f}",
            f"{found.interval.low:+.4f} … {found.interval.high:+.4f}",
            f"{found.p_value:.2g}",
            f"{found.wins:,}/{found.ties:,}/{found.losses:,}",
        )
    console.print(table)


def print_evaluation(result: Evaluation, ranker: str) -> None:
    """The table of one evaluation."""
    from cldrank.evaluation import data_label

    title = f"{ranker} on {data_label(result.data, result.synthetic)}, {result.queries:,} queries"
    shown = next(iter(result.intervals.values()), None)
    print_title(title)
    table = new_table("measure", "mean", f"{shown.confidence:.0%} interval" if shown else "interval")
    for measure in result.per_query:
        interval = result.intervals.get(measure)
        bounds = f"{interval.low:.4f} … {interval.high:.4f}" if interval else "–"
        table.add_row(str(measure), f"{result[measure]:.4f}", bounds)
    console.print(table)


def _loaded(reading: options.Reading, features: list[str], *paths: Path) -> tuple[Any, ...]:
    """The candidates, then what each path holds: a ranker, which must know the features, or scores in a file."""
    from cldrank.data.scores import load_scores
    from cldrank.rankers import load_ranker

    rankers = {path: load_ranker(path) for path in paths if path.is_dir() or not path.exists()}  # one may be restored
    dataset: RankingDataset | None = None
    for path, ranker in rankers.items():
        if dataset is None:
            dataset = options.load_for_ranker(ranker, path, reading, features)
        options.check_ranker_features(ranker, path, dataset, features)
    data = reading.load(features) if dataset is None else dataset
    return data, *(rankers[path] if path in rankers else load_scores(path, data) for path in paths)


def _check_recordable(path: Path) -> None:
    """Refuse what the result cannot be recorded in, before anything is read."""
    from cldrank.rankers import check_replaceable

    if path.is_file():
        raise UsageError(f"--record is for rankers; {path} is a file of scores.")
    options.check_folder(path)
    check_replaceable(path)


def _write_per_query(result: Evaluation, dataset: RankingDataset, path: Path) -> None:
    import pyarrow as pa

    columns = {"query_id": pa.array(dataset.query_ids)}
    columns |= {str(measure): pa.array(values) for measure, values in result.per_query.items()}
    save_table(pa.table(columns), path)
