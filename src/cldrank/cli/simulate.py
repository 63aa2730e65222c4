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
from cldrank.errors import UsageError
from cldrank.files import recover_folder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cldrank.clicks.simulate import Simulation
    from cldrank.data.dataset import RankingDataset

_MODEL, _POLICY, _PRODUCTION = "Who clicks", "What is shown", "The production ranker"


class Model(StrEnum):
    """The click models."""

    pbm = "pbm"
    trust = "trust"
    cascade = "cascade"
    dcm = "dcm"


class PolicyName(StrEnum):
    """The logging policies."""

    top = "top"
    neighbour_swaps = "neighbour-swaps"
    first_swaps = "first-swaps"
    shuffled = "shuffled"
    plackett_luce = "plackett-luce"


class Shuffle(StrEnum):
    """What is shuffled."""

    page = "page"
    candidates = "candidates"


class Sample(StrEnum):
    """How the labels of the production ranker are drawn."""

    queries = "queries"
    rows = "rows"


# which options belong to which model and policy, by the name of the parameter
_TAKES: dict[str, dict[str, str]] = {
    "pbm": {"eta": "eta", "noise": "noise"},
    "trust": {"eta": "eta", "epsilon_plus": "epsilon_plus", "epsilon_minus": "epsilon_minus"},
    "cascade": {"noise": "noise"},
    "dcm": {"noise": "noise", "continuation": "continuation"},
    "top": {},
    "neighbour-swaps": {"swap_probability": "probability"},
    "first-swaps": {"swap_probability": "probability", "swap_positions": "positions"},
    "shuffled": {"share": "share", "shuffle": "of"},
    "plackett-luce": {"temperature": "temperature"},
}


def simulate(
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
        str, typer.Option("--sessions", "-n", metavar="COUNT", help="How many pages are shown; 1e5 will do.")
    ] = "1e5",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Write cells: counts by document and position, for training."),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option("--log", metavar="FILE", help="Write the raw log, one row per impression, session by session."),
    ] = None,
    cutoff: Annotated[int, typer.Option("--cutoff", "-k", min=1, help="Results on a page, K.")] = 5,
    relevant_from: Annotated[
        float | None,
        typer.Option(
            help="The lowest label that counts as relevant. [default: 3 where labels reach it, else 1]",
            show_default=False,
        ),
    ] = None,
    seed: options.Seed = 0,
    model: Annotated[
        Model,
        typer.Option(
            help="`pbm`: position-based. `trust`: high positions are trusted, relevant or not. `cascade`: read from "
            "the top, stop at the first click. `dcm`: the same, but some read on after a click.",
            rich_help_panel=_MODEL,
        ),
    ] = Model.pbm,
    eta: Annotated[
        float | None,
        typer.Option(help="pbm, trust: position k is examined with (1/k)^eta. [default: 1]", rich_help_panel=_MODEL),
    ] = None,
    noise: Annotated[
        float | None,
        typer.Option(
            help="pbm, cascade, dcm: an examined irrelevant result is clicked with this probability. [default: 0.1]",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    epsilon_plus: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBERS",
            help="trust: P(click | examined, relevant), one number, or one per position separated by commas.",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    epsilon_minus: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBERS",
            help="trust: P(click | examined, irrelevant), in the same way.",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    continuation: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBERS",
            help="dcm: P(reads on after a click), in the same way. [default: 0.5]",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    policy: Annotated[
        PolicyName,
        typer.Option(
            help="`top`: production's order, always. `neighbour-swaps`, `first-swaps`: sometimes two neighbours, or "
            "the first and another result, change places. `shuffled`: a share of pages in random order. "
            "`plackett-luce`: all pages drawn, better scores more often on top.",
            rich_help_panel=_POLICY,
        ),
    ] = PolicyName.top,
    swap_probability: Annotated[
        float | None,
        typer.Option(help="Swaps: the share of pages with one swap. [default: 0.5]", rich_help_panel=_POLICY),
    ] = None,
    swap_positions: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBERS",
            help="first-swaps: the positions that the first may change places with, such as 3 or 2,5. [default: all]",
            rich_help_panel=_POLICY,
        ),
    ] = None,
    share: Annotated[
        float | None,
        typer.Option(help="shuffled: the share of shuffled pages. [default: 0.1]", rich_help_panel=_POLICY),
    ] = None,
    shuffle: Annotated[
        Shuffle | None,
        typer.Option(
            help="shuffled: production's top results (`page`, the default) or all candidates of the query.",
            rich_help_panel=_POLICY,
        ),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(
            help="plackett-luce: exp(score / temperature); low keeps production's order. [default: 1]",
            rich_help_panel=_POLICY,
        ),
    ] = None,
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
    `--log` writes them one by one; with both, the cells are those of the log. The truth (all parameters, the
    propensities) is written beside each file, as FILE.json.

    Example: `cldrank simulate train.txt --sessions 1e6 --eta 1 --cutoff 5 --noise 0.1 --out cells.parquet`
    """
    from cldrank.clicks.simulate import Simulation
    from cldrank.clicks.simulate.parameters import whole
    from cldrank.clicks.simulate.truth import has_truth, truth_path

    count = whole(_number(sessions, "--sessions"), "--sessions")
    if out is None and log is None:
        raise UsageError("say where to write: --out FILE for cells, --log FILE for a raw log, or both.")
    ranked_by = [production] if Path(production).is_file() else []
    truths = [truth_path(path) for path in (out, log) if path is not None and has_truth(path)]
    options.check_outputs([out, log, *truths], [*features, *(groups or []), *ranked_by])
    if save_production is not None:
        options.check_ranker_folder(save_production)
    given = {
        "eta": eta,
        "noise": noise,
        "epsilon_plus": _numbers(epsilon_plus, "--epsilon-plus"),
        "epsilon_minus": _numbers(epsilon_minus, "--epsilon-minus"),
        "continuation": _numbers(continuation, "--continuation"),
    }
    clicking = _built("--model", model, given)
    positions = _numbers(swap_positions, "--swap-positions")
    showing = _built(
        "--policy",
        policy,
        {
            "swap_probability": swap_probability,
            "swap_positions": (positions,) if isinstance(positions, float) else positions,
            "share": share,
            "shuffle": shuffle and str(shuffle),
            "temperature": temperature,
        },
    )
    training = {"fraction": fraction, "sample": sample and str(sample), "save_production": save_production}
    _check_production(production, training)
    dataset = options.Reading(column, groups, n_features, missing, cache).load(features)
    scores, origin = _production(production, dataset, training, seed)
    simulation = Simulation(dataset, scores, clicking, showing, cutoff, relevant_from, origin)
    result = _run(simulation, count, seed, out, log)
    if as_json:
        print_json(result)
    else:
        _print(simulation, result)


def _run(simulation: Simulation, sessions: int, seed: int, out: Path | None, log: Path | None) -> dict[str, Any]:
    """Draw, write, and tell what came of it."""
    import numpy as np

    from cldrank.clicks.simulate import truth_of, write_truth

    result: dict[str, Any] = {}
    told = truth_of(simulation, sessions, seed, by_session=log is not None)
    with _reporting(sessions, bars=log is not None or not simulation.counts_all) as report:
        if log is None:
            cells = simulation.draw(sessions, seed=seed, progress=report)
            counts = [
                np.bincount(cells.position, values, simulation.depth + 1)[1:]
                for values in (cells.impressions, cells.clicks)
            ]
        else:
            found = simulation.write_log(log, sessions, seed=seed, count=out is not None, progress=report)
            counts = [found.impressions, found.clicks]
            result |= {"log": str(log), "log_truth": _written(write_truth(told, log))}
            cells = found.cells  # type: ignore[assignment]  # None only if nobody asked for them
    if out is not None:
        cells.write(out)
        result |= {"out": str(out), "out_truth": _written(write_truth(told, out)), "cells": cells.n_cells}
    result["by_position"] = [
        {"position": place, "impressions": int(shown), "clicks": int(clicked)}
        for place, (shown, clicked) in enumerate(zip(*counts, strict=True), 1)
    ]
    return {**result, "truth": told}


def _written(path: Path | None) -> str | None:
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
    console.print(f"production: {_said(simulation)}", markup=False)
    table = new_table("position", "examined", "impressions", "clicks", "click rate")
    examination = truth["examination"] or [None] * simulation.depth
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


def _said(simulation: Simulation) -> str:
    origin = simulation.production
    if origin["kind"] == "svm":
        return f"SVM-rank on {origin['rows']:,} labelled rows, {origin['pairs']:,} pairs"
    return f"{origin['kind']} {origin['source']}"


def _built(option: str, name: str, given: dict[str, Any]) -> Any:
    """The model or policy of a name, with the parameters that were given; others' parameters are refused."""
    from cldrank.clicks import simulate as parts

    kinds = (parts.PositionBased, parts.TrustBias, parts.Cascade, parts.DependentClicks)
    policies = (parts.TopK, parts.NeighbourSwaps, parts.FirstSwaps, parts.ShuffledShare, parts.PlackettLuce)
    build: Callable[..., Any] = next(kind for kind in (*kinds, *policies) if kind.name == name)
    takes = _TAKES[name]
    chosen = {key: value for key, value in given.items() if value is not None}
    foreign = [key for key in chosen if key not in takes]
    if foreign:
        own = " and ".join(_spelled(key) for key in takes) or "no options"
        raise UsageError(f"{_spelled(foreign[0])} does not belong to {option} {name}, which takes {own}.")
    return build(**{takes[key]: value for key, value in chosen.items()})


def _check_production(production: str, training: dict[str, Any]) -> None:
    if production == "svm":
        return
    useless = [key for key, value in training.items() if value is not None]
    if useless:
        raise UsageError(f"{_spelled(useless[0])} is for --production svm; {production} is taken as it is.")
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
            some = ", ".join(dataset.feature_names[:5])
            raise UsageError(f"there is no feature {name!r} to rank by; there are {some}, …")
        return dataset.features[:, dataset.feature_names.index(name)], {"kind": "column", "source": name}
    recover_folder(production)
    if Path(production).is_dir():
        from dataclasses import asdict

        from cldrank.rankers import load_ranker

        ranker = load_ranker(production)
        return ranker.predict(dataset), {"kind": "ranker", "source": production, **asdict(ranker.provenance)}
    from cldrank.data.scores import load_scores

    return load_scores(production, dataset), {"kind": "scores", "source": production}


def _trained(dataset: RankingDataset, training: dict[str, Any], seed: int) -> tuple[NDArray[Any], dict[str, Any]]:
    from cldrank.estimators.svm_rank import SVMRank
    from cldrank.models import Run

    chosen = {key: training[key] for key in ("fraction", "sample") if training[key] is not None}
    with working("training the production ranker …"):
        machine = SVMRank(run=Run(seed=seed), **chosen).fit(dataset)
    if training["save_production"] is not None:
        machine.ranker_.save(training["save_production"])
        say(f"the production ranker: {training['save_production']}")
    origin = {"kind": "svm", "rows": machine.n_rows_, "pairs": machine.n_pairs_}
    return machine.predict(dataset), {**origin, **machine.ranker_.provenance.parameters}


def _numbers(text: str | None, option: str) -> float | tuple[float, ...] | None:
    """One number, or several separated by commas."""
    if text is None:
        return None
    found = tuple(_number(part, option) for part in text.split(","))
    return found if len(found) > 1 else found[0]


def _number(text: str, option: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{option} {text!r} is not a number; write it as 100000 or 1e5.") from None


def _spelled(name: str) -> str:
    return f"--{name.replace('_', '-')}"
