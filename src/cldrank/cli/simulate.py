"""`cldrank simulate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cldrank.cli import options
from cldrank.cli.derived import Option, built, choice, option_of, options_of
from cldrank.cli.output import console, counting, new_table, print_json, print_title, say, working
from cldrank.errors import UsageError
from cldrank.files import recover_folder
from cldrank.wording import some

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cldrank.clicks.simulate import Simulation
    from cldrank.clicks.simulate.click_models import SimulationPart
    from cldrank.data.dataset import RankingDataset
    from cldrank.parameters import Parameter

_PRODUCTION = "The production ranker"
_PANELS = {"model": "Who clicks", "policy": "What is shown"}


def simulate(
    features: Annotated[
        list[str],
        typer.Argument(
            metavar="FEATURES",
            help="Labelled candidates: a Parquet, CSV or LETOR file, a folder or pattern of parts, or a known data "
            "set such as `mq2008:train`.",
            show_default=False,
        ),
    ],
    sessions: Annotated[str, options.spelled("--sessions -n COUNT", "How many pages are shown, such as 1e5.")] = "1e5",
    out: Annotated[
        Path | None, options.spelled("--out -o FILE", "Save cells: counts by document and position, for training.")
    ] = None,
    log: Annotated[
        Path | None, options.spelled("--log FILE", "Save the raw log, one row per impression, session by session.")
    ] = None,
    segment: Annotated[
        str | None,
        options.spelled(
            "--segment COLUMN=VALUE",
            "With --log: add this column, such as device=phone; the ids of sessions begin with the value.",
        ),
    ] = None,
    depth: Annotated[int, options.spelled("--depth -k", "How many results a page shows.", min=1)] = 5,
    relevant_from: Annotated[
        float | None,
        typer.Option(
            help="The lowest label that counts as relevant. [default: 3 if any label reaches it, else 1]",
            show_default=False,
        ),
    ] = None,
    seed: options.Seed = 0,
    model: str | None = None,
    policy: str | None = None,
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
        float | None, typer.Option(help="svm: of the labelled rows. [default: 0.01]", rich_help_panel=_PRODUCTION)
    ] = None,
    save_production: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="svm: save the production ranker.", rich_help_panel=_PRODUCTION),
    ] = None,
    *,
    reading: options.Reading,
    as_json: options.Json = False,
    **settings: Any,
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

    count = whole_sessions(_number(sessions))
    if out is None and log is None:
        raise UsageError("say where to write: --out FILE for cells, --log FILE for a raw log, or both.")
    marked = _segment(segment, log, out)
    ranked_by = [production] if Path(production).is_file() else []
    truths = [truth_path(path) for path in (out, log) if path is not None and has_truth(path)]
    options.check_outputs([out, log, *truths], [*features, *ranked_by])
    if save_production is not None:
        options.check_ranker_folder(save_production)
    who, what = _chosen("model", model, settings), _chosen("policy", policy, settings)
    _check_production(production, fraction, save_production)
    dataset = reading.load(features)
    if production == "svm":
        scores, origin = _trained(dataset, fraction, save_production, seed)
    else:
        scores, origin = _production(production, dataset)
    simulation = Simulation(dataset, scores, who, what, depth, relevant_from, origin)
    result = _run(simulation, count, seed, out, log, marked)
    if as_json:
        print_json(result)
    else:
        _print(simulation, result)


# -- click models and policies -------------------------------------------------------------------------------------


def _parts() -> dict[str, dict[str, type[SimulationPart]]]:
    """Click models and policies by name, each behind the option that chooses it."""
    from cldrank.clicks.simulate.click_models import MODELS
    from cldrank.clicks.simulate.policies import POLICIES

    return {"model": {one.name: one for one in MODELS}, "policy": {one.name: one for one in POLICIES}}


def _choice(name: str) -> Parameter:
    kinds = _parts()[name]
    return choice(name, {word: kind.about for word, kind in kinds.items()}, default=next(iter(kinds)))


def derived_options() -> list[Option]:
    """--model and --policy, with an option for each of their parameters."""
    found = []
    for name, kinds in _parts().items():
        panel = _PANELS[name]
        found += [option_of(_choice(name), panel, metavar=name.upper()), *options_of(kinds, panel)]
    return found


def _chosen(name: str, word: str | None, settings: dict[str, Any]) -> Any:
    """The click model or the policy that was chosen, with the parameters that were given."""
    one = _choice(name)
    kind = one.default if word is None else one.parse(word)
    return built(_parts()[name], kind, settings, said=f"--{name} {kind}")


# -- drawing and showing -------------------------------------------------------------------------------------------


def _segment(given: str | None, log: Path | None, out: Path | None) -> tuple[str, str] | None:
    """The column that names the segment of a log, and the segment."""
    if given is None:
        return None
    column, _, value = given.partition("=")
    if not column or not value:
        raise UsageError(f"--segment {given} is not of the form COLUMN=VALUE, such as device=phone.")
    if log is None:
        raise UsageError(f"--segment {given} is a column of a raw log; name one with --log.")
    if out is not None:
        raise UsageError(
            f"--segment {given} marks the log, and the cells of --out would carry no segment; leave --out out, and "
            f"make them with `cldrank clicks aggregate {log} --segment {column} --out {out}`."
        )
    return column, value


def _run(
    simulation: Simulation,
    sessions: int,
    seed: int,
    out: Path | None,
    log: Path | None,
    segment: tuple[str, str] | None,
) -> dict[str, Any]:
    """Draw and save; what came of it, for JSON."""
    import numpy as np

    from cldrank.clicks.simulate.truth import save_truth, truth_of

    result: dict[str, Any] = {}
    truth = truth_of(simulation, sessions, seed, by_session=log is not None)
    with counting("sessions", sessions, shown=log is not None or not simulation.counts_all) as report:
        if log is None:
            cells = simulation.draw(sessions, seed=seed, progress=report)
            counts = [
                np.bincount(cells.position, values, simulation.longest_page + 1)[1:]
                for values in (cells.impressions, cells.clicks)
            ]
        else:
            found = simulation.save_log(
                log, sessions, seed=seed, count=out is not None, segment=segment, progress=report
            )
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


def _print(simulation: Simulation, result: dict[str, Any]) -> None:
    """The result for people."""
    truth = result["truth"]
    synthetic = " (synthetic)" if truth["data"]["synthetic"] else ""
    print_title(
        f"{truth['sessions']:,} sessions on {truth['data']['name'] or 'data without a name'}{synthetic}, "
        f"{truth['data']['queries']:,} queries; relevant: label {truth['relevance']['relevant_from']:g} or more"
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


def _check_production(production: str, fraction: float | None, save_production: Path | None) -> None:
    if production == "svm":
        return
    for option, value in (("--fraction", fraction), ("--save-production", save_production)):
        if value is not None:
            raise UsageError(f"{option} is for --production svm; {production} is used as it is.")
    if not production.startswith("column:") and not Path(production).exists():
        raise UsageError(
            f"--production {production}: there is no such ranker folder or score file; "
            "say svm, column:NAME, a folder or a file."
        )


def _production(production: str, dataset: RankingDataset) -> tuple[NDArray[Any], dict[str, Any]]:
    """The score of each row, and where it comes from."""
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
        return ranker.predict(dataset), {"kind": "ranker", "source": production, **asdict(ranker.provenance)}
    from cldrank.data.scores import load_scores

    return load_scores(production, dataset), {"kind": "scores", "source": production}


def _trained(
    dataset: RankingDataset, fraction: float | None, save_production: Path | None, seed: int
) -> tuple[NDArray[Any], dict[str, Any]]:
    """The scores of an SVM-rank trained on a fraction of the labels, and what it was trained on."""
    from cldrank.methods.svm_rank import SVMRank
    from cldrank.models import Run

    chosen: dict[str, Any] = {} if fraction is None else {"fraction": fraction}
    with working("training the production ranker …"):
        method = SVMRank(run=Run(seed=seed), **chosen).fit(dataset)
    if save_production is not None:
        method.ranker_.save(save_production)
        say(f"the production ranker: {save_production}")
    origin = {"kind": "svm", "rows": method.n_rows_, "pairs": method.n_pairs_}
    return method.predict(dataset), {**origin, **method.ranker_.provenance.parameters}


def _number(text: str) -> float:
    """A number of sessions such as 100000 or 1e5."""
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--sessions {text!r} is not a number; write it as 100000 or 1e5.") from None
