"""`cldrank simulate`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cldrank.cli import options
from cldrank.cli.output import console, new_table, print_json, progress_bar, say, working
from cldrank.cli.simulate_options import chosen_parts, parsed_number
from cldrank.errors import UsageError, setting
from cldrank.files import recover_folder
from cldrank.wording import some

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cldrank.clicks.simulate import Simulation
    from cldrank.data.dataset import RankingDataset

_PRODUCTION = "The production ranker"


class Sample(StrEnum):
    """How the labels of the production ranker are drawn."""

    queries = "queries"
    rows = "rows"


def simulate(
    ctx: typer.Context,
    features: Annotated[
        list[str],
        typer.Argument(
            metavar="FEATURES",
            help="Labelled candidates: a LETOR/SVMlight or Parquet file, a folder or pattern of parts, or a known data "
            "set such as `mq2008:train`.",
            show_default=False,
        ),
    ],
    sessions: Annotated[
        str, typer.Option("--sessions", "-n", metavar="COUNT", help="How many pages are shown, such as 1e5.")
    ] = "1e5",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Save cells: counts by document and position, for training."),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option("--log", metavar="FILE", help="Save the raw log, one row per impression, session by session."),
    ] = None,
    depth: Annotated[int, typer.Option("--depth", "-k", min=1, help="How many results a page shows.")] = 5,
    relevant_from: Annotated[
        float | None,
        typer.Option(
            help="The lowest label that counts as relevant. [default: 3 if any label reaches it, else 1]",
            show_default=False,
        ),
    ] = None,
    seed: options.Seed = 0,
    production: Annotated[
        str,
        typer.Option(
            metavar="svm|FOLDER|FILE|column:NAME",
            help="`svm` trains a linear SVM-rank on a fraction of the labels; or the folder of a saved ranker, a file "
            "of scores, or a feature to rank by.",
            rich_help_panel=_PRODUCTION,
        ),
    ] = "svm",
    fraction: Annotated[
        float | None,
        typer.Option(help="svm: of the labelled rows. [default: 0.01]", rich_help_panel=_PRODUCTION),
    ] = None,
    sample: Annotated[
        Sample | None,
        typer.Option(
            help="svm: draw the fraction as whole queries (the default) or as single rows.",
            rich_help_panel=_PRODUCTION,
        ),
    ] = None,
    save_production: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="svm: save the production ranker.", rich_help_panel=_PRODUCTION),
    ] = None,
    column: options.Columns = None,
    groups: options.Groups = None,
    n_features: options.FeatureCount = None,
    missing: options.Missing = None,
    cache: options.Cached = True,
    as_json: options.Json = False,
) -> None:
    """Simulate clicks on labelled candidates: a production ranker shows pages, people examine and click them.

    Each session draws a query, is shown the top results, examines position k with probability (1/k)^eta, clicks what
    is relevant and, with probability `--noise`, what is not. `--out` counts any number of sessions at once, exactly;
    `--log` saves them one by one; with both, the cells are those of the log. The truth (all parameters, the
    propensities) is saved beside each file, as FILE.json.

    Example: `cldrank simulate train.txt --sessions 1e6 --eta 1 --depth 5 --noise 0.1 --out cells.parquet`
    """
    from cldrank.clicks.simulate import Simulation
    from cldrank.clicks.simulate.simulation import whole_sessions
    from cldrank.clicks.simulate.truth import has_truth, truth_path

    count = whole_sessions(parsed_number(sessions, "sessions"))
    if out is None and log is None:
        raise UsageError("say where to write: --out FILE for cells, --log FILE for a raw log, or both.")
    ranked_by = [production] if Path(production).is_file() else []
    truths = [truth_path(path) for path in (out, log) if path is not None and has_truth(path)]
    options.check_outputs([out, log, *truths], [*features, *(groups or []), *ranked_by])
    if save_production is not None:
        options.check_ranker_folder(save_production)
    model, policy = chosen_parts(ctx.obj)
    training = {"fraction": fraction, "sample": sample and str(sample), "save_production": save_production}
    _check_production(production, training)
    dataset = options.Reading(column, groups, n_features, missing, cache).load(features)
    scores, origin = _production(production, dataset, training, seed)
    simulation = Simulation(dataset, scores, model, policy, depth, relevant_from, origin)
    result = _run(simulation, count, seed, out, log)
    if as_json:
        print_json(result)
    else:
        _print(simulation, result)


def _run(simulation: Simulation, sessions: int, seed: int, out: Path | None, log: Path | None) -> dict[str, Any]:
    """Draw and save; what came of it, for JSON."""
    import numpy as np

    from cldrank.clicks.simulate import save_truth, truth_of

    result: dict[str, Any] = {}
    truth = truth_of(simulation, sessions, seed, by_session=log is not None)
    with _reporting(sessions, bars=log is not None or not simulation.counts_all) as report:
        if log is None:
            cells = simulation.draw(sessions, seed=seed, progress=report)
            counts = [
                np.bincount(cells.position, values, simulation.longest_page + 1)[1:]
                for values in (cells.impressions, cells.clicks)
            ]
        else:
            found = simulation.save_log(log, sessions, seed=seed, count=out is not None, progress=report)
            counts = [found.impressions, found.clicks]
            result |= {"log": str(log), "log_truth": _path(save_truth(truth, log))}
            cells = found.cells  # type: ignore[assignment]  # None only if nobody asked for them
    if out is not None:
        cells.save(out)
        result |= {"out": str(out), "out_truth": _path(save_truth(truth, out)), "cells": cells.n_cells}
    result["by_position"] = [
        {"position": place, "impressions": int(shown), "clicks": int(clicked)}
        for place, (shown, clicked) in enumerate(zip(*counts, strict=True), 1)
    ]
    return {**result, "truth": truth}


def _path(path: Path | None) -> str | None:
    return None if path is None else str(path)


@contextmanager
def _reporting(sessions: int, bars: bool) -> Iterator[Callable[[int], None] | None]:
    """A bar to report sessions to, where it takes a while."""
    if not bars:
        yield None
        return
    with progress_bar() as bar:
        task = bar.add_task("sessions", total=sessions)
        yield lambda done: bar.update(task, completed=done)


def _print(simulation: Simulation, result: dict[str, Any]) -> None:
    """The result for people."""
    truth = result["truth"]
    synthetic = " (synthetic)" if truth["data"]["synthetic"] else ""
    console.print(
        f"{truth['sessions']:,} sessions on {truth['data']['name'] or 'data without a name'}{synthetic}, "
        f"{truth['data']['queries']:,} queries; relevant: label {truth['relevance']['relevant_from']:g} or more",
        style="bold",
        markup=False,
    )
    console.print(f"production: {_origin(simulation)}", markup=False)
    table = new_table("position", "examined", "impressions", "clicks", "click rate")
    examination = truth["examination"] or [None] * simulation.longest_page
    for entry, examined in zip(result["by_position"], examination, strict=True):
        table.add_row(
            str(entry["position"]),
            "–" if examined is None else f"{examined:.3f}",
            f"{entry['impressions']:,}",
            f"{entry['clicks']:,}",
            f"{entry['clicks'] / max(entry['impressions'], 1):.4f}",
        )
    console.print(table)
    for kind in ("log", "out"):
        if kind in result:
            truth_file = result[f"{kind}_truth"]
            beside = f", and the truth about it in {truth_file}" if truth_file else ""
            console.print(f"wrote {result[kind]}{beside}", markup=False)


def _origin(simulation: Simulation) -> str:
    origin = simulation.production
    if origin["kind"] == "svm":
        return f"SVM-rank on {origin['rows']:,} labelled rows, {origin['pairs']:,} pairs"
    return f"{origin['kind']} {origin['source']}"


def _check_production(production: str, training: dict[str, Any]) -> None:
    if production == "svm":
        return
    useless = [key for key, value in training.items() if value is not None]
    if useless:
        raise UsageError(f"{setting(useless[0]).shell} is for --production svm; {production} is used as it is.")
    if not production.startswith("column:") and not Path(production).exists():
        raise UsageError(
            f"--production {production}: there is no such ranker folder or score file; "
            "say svm, column:NAME, a folder or a file."
        )


def _production(
    production: str, dataset: RankingDataset, training: dict[str, Any], seed: int
) -> tuple[NDArray[Any], dict[str, Any]]:
    """The score of each row, and where it comes from."""
    if production == "svm":
        return _trained(dataset, training, seed)
    kind, _, name = production.partition(":")
    if kind == "column":
        if name not in dataset.feature_names:
            raise UsageError(f"there is no feature {name!r} to rank by; there are {some(dataset.feature_names, 5)}.")
        return dataset.features[:, dataset.feature_names.index(name)], {"kind": "column", "source": name}
    recover_folder(production)
    if Path(production).is_dir():
        from dataclasses import asdict

        from cldrank.rankers import load_ranker

        ranker = load_ranker(production)
        return ranker.score(dataset), {"kind": "ranker", "source": production, **asdict(ranker.provenance)}
    from cldrank.data.scores import read_scores

    return read_scores(production, dataset), {"kind": "scores", "source": production}


def _trained(dataset: RankingDataset, training: dict[str, Any], seed: int) -> tuple[NDArray[Any], dict[str, Any]]:
    from cldrank.estimators.svm_rank import SVMRank

    chosen = {key: training[key] for key in ("fraction", "sample") if training[key] is not None}
    with working("training the production ranker …"):
        machine = SVMRank(seed=seed, **chosen).fit(dataset)
    if training["save_production"] is not None:
        machine.ranker_.save(training["save_production"])
        say(f"the production ranker: {training['save_production']}")
    origin = {"kind": "svm", "rows": machine.n_rows_, "pairs": machine.n_pairs_}
    return machine.predict(dataset), {**origin, **machine.ranker_.provenance.parameters}
