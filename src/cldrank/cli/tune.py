"""`cldrank tune`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cldrank.cli import options
from cldrank.cli.learning_task import LearningTask, Sources
from cldrank.cli.output import console, counting, new_table, print_error, print_json, print_line, print_title, say
from cldrank.cli.train import HoldOut, command_words
from cldrank.errors import UsageError, hearing_warnings
from cldrank.files import save_json

if TYPE_CHECKING:
    from cldrank.methods import Method
    from cldrank.parameters import Parameter
    from cldrank.tuning import Tuned
    from cldrank.tuning.space import Values
    from cldrank.tuning.study import Report


def tune(
    method: Annotated[str, typer.Argument(metavar="METHOD", help="Such as cld, ips: see `cldrank train`.")],
    sources: Sources,
    *,
    context: typer.Context,
    out: Annotated[
        Path,
        options.spelled(
            "--out -o FOLDER", "For the trials and the best ranker. The same command continues.", show_default=False
        ),
    ],
    model: Annotated[str | None, options.spelled("--model NAME", "The model to fit, as for `cldrank train`.")] = None,
    ranges: Annotated[
        list[str] | None,
        options.spelled(
            "--range NAME=LOW:HIGH",
            "Try numbers: gamma=0.05:0.3, or by ratio, l2=1e-3:1e-2:log. Repeat it.",
        ),
    ] = None,
    values: Annotated[
        list[str] | None,
        options.spelled("--set NAME=VALUES", "Try these: dropout=0,0.2; or fix one: epochs=20. Repeat it."),
    ] = None,
    trials: Annotated[int, options.spelled("--trials INTEGER", "In all, with those in the folder.")] = 30,
    jobs: Annotated[int, options.spelled("--jobs -j INTEGER", "Processes that run trials.")] = 1,
    timeout: Annotated[float | None, options.spelled("--timeout SECONDS", "Start no trial after this time.")] = None,
    seed: Annotated[int, options.spelled("--seed INTEGER", "The same seed gives the same result.")] = 0,
    hold_out: HoldOut = None,
    validation: Annotated[
        float, options.spelled("--validation SHARE", "Of the other queries, those whose clicks judge trials.")
    ] = 0.2,
    labelled: Annotated[
        list[str] | None,
        options.spelled("--labelled FILE", "Candidates whose labels judge trials, instead of clicks."),
    ] = None,
    measure: Annotated[
        str | None, options.spelled("--measure -m MEASURE", "With --labelled. [default: nDCG@10]")
    ] = None,
    reading: options.Reading,
    as_json: options.Json = False,
) -> None:
    """Choose the parameters of a method, without labels, and train with the best.

    Example: `cldrank tune cld-pair -f train.parquet -c cells.parquet -p power:1.0 --range l2=1e-4:1e-2:log -o tuned/`

    Trials learn from most queries and are judged by the clicks on the others, corrected by the propensities. These
    clicks cannot show selection bias, as only shown candidates have any. What is neither in a range nor set is tried in
    the paper's ranges, or left at its default.
    """
    configured, space = _chosen(method, model, seed, ranges, values)
    chosen = LearningTask(method=configured, reading=reading, **vars(sources))
    _check_judge(chosen, labelled, measure)
    chosen.check(judges=not labelled)
    configured.check()
    options.check_folder(out)
    dataset, table, rho = chosen.read()
    from cldrank.tuning import tune as run

    with hearing_warnings() as heard, _interruptible(out), _showing(trials, not as_json) as report:
        tuned = run(
            configured,
            dataset,
            table,
            rho,
            space,
            trials=trials,
            seed=seed,
            folder=out,
            jobs=jobs,
            timeout=timeout,
            hold_out=hold_out,
            validation=validation,
            labelled=reading.load(labelled) if labelled else None,
            measure=measure or "nDCG@10",
            on_trial=report,
        )
    ranker = tuned.estimator.ranker_
    origin = ranker.provenance.documented(map(str, heard), command=command_words(context), held_out=hold_out)
    ranker.with_provenance(origin).save(out / "ranker")
    facts = {"method": method, "estimator": " ".join(repr(tuned.estimator).split()), "ranker": str(out / "ranker")}
    result = {**facts, "data": dataset.name, "synthetic": dataset.synthetic, "seed": seed, **tuned.as_dict()}
    save_json(out / "tuned.json", result)
    if as_json:
        print_json(result)
        return
    _print(tuned, out)
    if tuned.held_out is not None:
        print_line(f"{tuned.held_out}; {chosen.judging(out / 'ranker')}")


def _chosen(
    name: str, model: str | None, seed: int, ranges: list[str] | None, values: list[str] | None
) -> tuple[Method, dict[str, Values]]:
    """The method with what is set, and what is to be tried."""
    from cldrank.methods.registry import configured, method_named
    from cldrank.tuning.space import default_space, parse_values

    kind = method_named(name)
    fixed: dict[str, Any] = {"model": model, "seed": seed}
    tried: dict[str, Values] = {}
    for option, text in [*(("--range", text) for text in ranges or ()), *(("--set", text) for text in values or ())]:
        key, _, rest = text.partition("=")
        if not rest or (option == "--range" and ":" not in rest):
            wanted = "l2=1e-3:1e-2:log" if option == "--range" else "dropout=0,0.2"
            raise UsageError(f"{option} {text} does not say what to try; write {option} {wanted}, say.")
        if key in fixed or key in tried:
            raise UsageError(f"{key} is named twice; separate its values by commas: --set {key}=1,2.")
        parameter = _parameter(configured(kind, {"model": model}), key)
        if option == "--set" and ("," not in rest or any(hasattr(one, "__origin__") for one in parameter.kinds)):
            fixed[key] = parameter.parse(rest)
        else:
            tried[key] = parse_values(parameter, rest)
    method = configured(kind, fixed)
    space = {key: usual for key, usual in default_space(method).items() if key not in fixed} | tried
    if not space:
        raise UsageError("there is nothing to try; name a parameter: --range NAME=LOW:HIGH, or --set NAME=VALUES.")
    return method, space


def _parameter(method: Method, name: str) -> Parameter:
    """The parameter of a name; one that has no effect here is refused."""
    from cldrank.methods.registry import configured, settings_of
    from cldrank.models import Run
    from cldrank.parameters import with_role

    kind, model = type(method), type(method.model)
    known = settings_of(kind, model)
    if name not in known:
        configured(kind, {"model": method.model, name: None})  # refuses it, with the nearest that there is
    of_one_fit = ("seed", *with_role(Run, "resume", "start", "log"))
    if name in (*kind.unheeded(model), *of_one_fit) or not known[name].option:
        raise UsageError(f"{method.name} has no use for {name} here; leave it out.")
    return known[name]


def _check_judge(chosen: LearningTask, labelled: list[str] | None, measure: str | None) -> None:
    """Refuse what does not fit together before anything is read."""
    from cldrank.methods.needs import uses_curve

    if measure is not None and not labelled:
        raise UsageError("--measure is for labels; name candidates that have some with --labelled.")
    if chosen.method.needs == "labels" and (chosen.clicks or not labelled):
        raise UsageError(
            f"{chosen.method.name} learns from labels, not from clicks; tune it without --clicks, and with --labelled."
        )
    if labelled and chosen.propensity is not None and not uses_curve(chosen.method.required):
        raise UsageError(f"{chosen.method.name} does not use propensities; leave --propensity out.")


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


def _print(tuned: Tuned, out: Path) -> None:
    states = [trial.state for trial in tuned.trials]
    print_title(
        f"{len(states)} trials: {states.count('completed')} completed, {states.count('pruned')} given up early, "
        f"{states.count('failed')} failed; {tuned.measure} on {tuned.validation_queries:,} queries"
    )
    names = list(tuned.best_parameters)
    table = new_table("trial", *(name.replace("_", " ") for name in names), "value", "±", "behind", "±")
    for trial in tuned.best():
        numbers = (trial.value, trial.standard_error, trial.behind, trial.behind_error)
        parameters = (_short(trial.parameters[name]) for name in names)
        table.add_row(str(trial.number), *parameters, *(f"{number:.4f}" for number in numbers))
    console.print(table)
    console.print(f"best: {', '.join(f'{name}={_short(value)}' for name, value in tuned.best_parameters.items())}")
    say("note: ± is one standard error over the queries that judge; beside behind, that of the paired difference.")
    if tuned.ties:
        say(
            f"note: {tuned.ties} other trial{' is' if tuned.ties == 1 else 's are'} within two standard errors of the "
            "best: a tie, which more clicks might settle."
        )
    blind = [name for name in ("gamma", "selection_weight") if name in names]
    if blind and tuned.measure == "held-out concordance":
        say(
            f"note: only shown candidates have clicks, so these hardly determine {blind[0]}, which decides how those "
            "that were not shown are ranked."
        )
    console.print(f"the ranker with these parameters: {out / 'ranker'}", markup=False)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
