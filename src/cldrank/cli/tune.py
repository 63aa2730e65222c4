"""`cldrank tune`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cldrank.cli import methods, options
from cldrank.cli.learning_task import LearningTask
from cldrank.cli.output import (
    console,
    counting,
    new_table,
    print_error,
    print_json,
    print_title,
    say,
)
from cldrank.errors import UsageError
from cldrank.files import save_json

if TYPE_CHECKING:
    from cldrank.data.dataset import RankingDataset
    from cldrank.estimators import Method
    from cldrank.tuning import Tuned
    from cldrank.tuning.space import Values
    from cldrank.tuning.study import Report


class Judged(StrEnum):
    """What trials are judged by."""

    clicks = "clicks"
    labels = "labels"


def tune(
    chosen: LearningTask,
    *,
    out: Annotated[
        Path,
        options.spelled(
            "--out -o FOLDER",
            "For the trials and the best ranker. The same command again continues; several may share a folder.",
            show_default=False,
        ),
    ],
    trials: Annotated[
        int,
        options.spelled(
            "--trials INTEGER", "In all, those already in the folder included. [default: 30]", min=1, show_default=False
        ),
    ] = 30,
    jobs: Annotated[
        int, options.spelled("--jobs -j INTEGER", "Processes that run trials. [default: 1]", min=1, show_default=False)
    ] = 1,
    timeout: Annotated[float | None, options.spelled("--timeout SECONDS", "Start no trial after this time.")] = None,
    space: Annotated[
        Path | None, options.spelled("--space FILE", "What to try, as TOML, instead of the paper's ranges.")
    ] = None,
    ranges: Annotated[
        list[str] | None,
        options.spelled(
            "--range NAME=VALUES",
            "What to try for one parameter: dropout=0,0.2 or gamma=0.05..0.3 or l2=1e-3..1e-2:log. Repeat it.",
        ),
    ] = None,
    on: Annotated[
        Judged,
        options.spelled(
            "--on clicks|labels", "Judge by held-out clicks, or by labels. [default: clicks]", show_default=False
        ),
    ] = Judged.clicks,
    held_out: Annotated[
        float | None, options.spelled("--held-out NUMBER", "Share of the queries held out to judge. [default: 0.2]")
    ] = None,
    validation_features: Annotated[
        list[str] | None, options.spelled("--validation-features FILE", "Labelled candidates for --on labels.")
    ] = None,
    measure: Annotated[
        str | None, options.spelled("--measure -m MEASURE", "For --on labels. [default: nDCG@10]")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Choose the parameters of a method, without labels, and train with the best.

    Example: `cldrank tune cld-pair -f train.parquet -c cells.parquet -p power:1.0 --jobs 4 --out tuned/`

    Trials learn from most queries and are judged by the clicks on the others, corrected by the propensities. These
    clicks cannot show selection bias, as only shown candidates have any. Options of the method fix its parameters.
    """
    method = chosen.method
    _check_judge(chosen, on, validation_features, measure, held_out)
    chosen.check(judges=on == Judged.clicks)
    method.check()
    options.check_folder(out)
    dataset, table, rho = chosen.read()
    from cldrank.tuning import tune as run

    with _interruptible(out), _showing(trials, not as_json) as report:
        tuned = run(
            method,
            dataset,
            table,
            rho,
            _space(method, space, ranges),
            trials=trials,
            seed=method.run.seed,
            folder=out,
            jobs=jobs,
            timeout=timeout,
            held_out=0.2 if held_out is None else held_out,
            labelled=None if validation_features is None else chosen.reading.load(validation_features),
            measure="nDCG@10" if measure is None else measure,
            on_trial=report,
        )
    tuned.estimator.ranker_.save(out / "ranker")
    result = _result(method, out, dataset, tuned)
    save_json(out / "tuned.json", result)
    if as_json:
        print_json(result)
    else:
        _print(tuned, out, on)


def _check_judge(
    chosen: LearningTask, on: Judged, validation: list[str] | None, measure: str | None, held_out: float | None
) -> None:
    """Refuse what does not fit together before anything is read."""
    if on == Judged.labels:
        if held_out is not None:
            raise UsageError("--held-out is a share of the clicks to judge by; --on labels judges by labels.")
        if not validation:
            raise UsageError("--on labels needs labelled candidates that are not trained on: --validation-features.")
        return
    if validation or measure is not None:
        raise UsageError("--validation-features and --measure are for --on labels.")
    if chosen.method.needs == "labels":
        raise UsageError(f"{chosen.method.name} learns from labels, not from clicks; tune it with --on labels.")


def _space(method: Method, path: Path | None, ranges: list[str] | None) -> dict[str, Values]:
    from cldrank.tuning.space import default_space, parse_range, read_space

    space = default_space(method) if path is None else read_space(path)
    named = [parse_range(text) for text in ranges or ()]
    for name, _ in named:
        if [other for other, _ in named].count(name) > 1:
            raise UsageError(f"--range names {name} twice; separate its values by commas: {name}=1,2.")
    return {**space, **dict(named)}


@contextmanager
def _interruptible(out: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        print_error(f"stopped; the finished trials are in {out}, and the same command goes on with them.")
        raise typer.Exit(130) from None


@contextmanager
def _showing(trials: int, shown: bool) -> Iterator[Report | None]:
    with counting("tuning", trials, shown=shown) as count:

        def report(finished: int, best: float | None) -> None:
            count(finished, "tuning" if best is None else f"tuning, best {best:.4f}")  # type: ignore[misc]

        yield report if count else None


def _result(method: Method, out: Path, dataset: RankingDataset, tuned: Tuned) -> dict[str, Any]:
    from cldrank._version import __version__

    return {
        "method": method.name,
        "estimator": " ".join(repr(tuned.estimator).split()),
        "ranker": str(out / "ranker"),
        "data": dataset.name,
        "synthetic": dataset.synthetic,
        "seed": method.run.seed,
        "cldrank": __version__,
        **tuned.as_dict(),
    }


def _print(tuned: Tuned, out: Path, on: Judged) -> None:
    states = [trial.state for trial in tuned.trials]
    print_title(
        f"{len(states)} trials: {states.count('completed')} completed, {states.count('pruned')} given up early, "
        f"{states.count('failed')} failed; {tuned.measure} on {tuned.held_out:,} queries"
    )
    names = list(tuned.best_parameters)
    table = new_table("trial", *(name.replace("_", " ") for name in names), "value", "±", "behind", "±")
    for trial in tuned.best():
        table.add_row(
            str(trial.number),
            *(_short(trial.parameters[name]) for name in names),
            f"{trial.value:.4f}",
            f"{trial.standard_error:.4f}",
            f"{trial.behind:.4f}",
            f"{trial.behind_error:.4f}",
        )
    console.print(table)
    console.print(f"best: {', '.join(f'{name}={_short(value)}' for name, value in tuned.best_parameters.items())}")
    for text in _remarks(tuned, on):
        say(text)
    console.print(f"the ranker with these parameters: {out / 'ranker'}", markup=False)


def _remarks(tuned: Tuned, on: Judged) -> list[str]:
    """What to know before the best parameters are believed."""
    remarks = [
        "note: ± is one standard error over the held-out queries; in the column behind, that of the paired difference "
        "to the best."
    ]
    if tuned.ties:
        remarks.append(
            f"note: {tuned.ties} other trial{' is' if tuned.ties == 1 else 's are'} within two standard errors of the "
            "best: a tie, which more held-out clicks might settle."
        )
    blind = [name for name in ("gamma", "selection_weight") if name in tuned.best_parameters]
    if blind and on == Judged.clicks:
        remarks.append(
            f"note: only shown candidates have clicks, so these hardly determine {blind[0]}, which decides how those "
            "that were not shown are ranked."
        )
    return remarks


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


app = methods.group(tune, judges=True)
