"""`cldrank train`."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cldrank.cli import methods, options
from cldrank.cli.learning_task import LearningTask
from cldrank.cli.option_names import as_options
from cldrank.cli.output import console, counting, print_error, print_json, print_line, print_warning, say, working
from cldrank.errors import CldrankError, CldrankWarning, UsageError, hearing_warnings
from cldrank.wording import count, some

if TYPE_CHECKING:
    from cldrank.clicks.holding_out import HeldOut
    from cldrank.data.dataset import RankingDataset
    from cldrank.methods import Method
    from cldrank.models import Epoch
    from cldrank.rankers import Ranker
    from cldrank.safety import Safe

_INTERRUPTED = 130
_UNDECIDING = ("out", "summary", "as_json", "cache", "jobs")
_NO_COMPARISON = (
    "note: {} chooses the {}; each method has its own targets, so it does not compare methods. "
    "`cldrank tune METHOD --trials 1` judges all by the same held-out clicks, `cldrank evaluate` by labels."
)

HoldOut = Annotated[
    float | None,
    options.spelled(
        "--hold-out SHARE",
        "Keep this share of the queries, by hashes of their ids, out of training, to judge the ranker on them.",
        show_default=False,
    ),
]

IsSafe = Annotated[
    bool,
    options.spelled(
        "--safe",
        "Depart from production only as far as the clicks on other queries support.",
    ),
]
SafeMargin = Annotated[
    float | None,
    options.spelled(
        "--safe-margin SHARE",
        "With --safe: the share of production's DCG that may be lost. [default: 0.01]",
        show_default=False,
    ),
]
ProductionFeature = Annotated[
    str | None,
    options.spelled(
        "--production-feature NAME",
        "With --safe: the feature that is production's score, if there is one.",
        show_default=False,
    ),
]


def train(
    chosen: LearningTask,
    *,
    out: Annotated[Path, options.spelled("--out -o FOLDER", "Where to save the ranker.", show_default=False)],
    context: typer.Context,
    hold_out: HoldOut = None,
    engine: options.Engine = "local",
    master: options.Master = "local[*]",
    safe: IsSafe = False,
    safe_margin: SafeMargin = None,
    production_feature: ProductionFeature = None,
    summary: Annotated[
        bool,
        options.spelled(
            "--summary", "Print the fit: coefficients with standard errors, epochs, or the importance of features."
        ),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Train a ranker and save it.

    Example: `cldrank train cld --features train.parquet --clicks cells.parquet --propensity power:1.0 --out ranker/`

    The folder has a model card, README.md, which says what the ranker was trained on, how, and what its limits are.

    The ranker remembers which queries it was trained on. With `--hold-out 0.2`, a fifth of the queries is left for
    `cldrank compare ranker/ production`, which judges it by their clicks.

    With `--safe`, the ranker is a blend of what was learned and of production, the best of those that the clicks on
    other queries show to be safe. Where none is, nothing is saved, and the exit code is 1: keep production.

    With `--engine spark`, features are Parquet files that Spark can read, which stay there; linear methods alone can do
    that, and the clicks are joined with the features on Spark.

    Ctrl-C while a network or trees are trained saves the best ranker so far.
    """
    from cldrank.rankers import check_replaceable

    method = chosen.method
    kept = _kept_near(method, safe, safe_margin, production_feature)
    chosen.check(safe=safe)
    method.check()
    if engine == "spark":
        _check_for_spark(method, safe)
    options.check_ranker_folder(out)
    check_replaceable(out)
    with hearing_warnings() as heard, options.place(engine, master) as session:
        dataset, held, warned = _learn(chosen, kept, hold_out, session, bar=not as_json)
    said = [as_options(str(one)) for one in heard]
    ranker = (kept or method).ranker_
    origin = ranker.provenance.documented(said, command=command_words(context), held_out=hold_out)
    ranker.with_provenance(origin).save(out)
    facts = {**_facts(method, dataset), "hold_out": None if held is None else held.as_dict()}
    facts["safety"] = None if kept is None else asdict(kept.safety_)
    if as_json:
        more = {"summary": method.summary()} if summary else {}
        print_json({"method": method.name, "ranker": str(out), **facts, "warnings": warned, **more})
    else:
        _print(method, ranker, facts, warned, summary, out)
        if held is not None:
            print_line(f"{held}; {chosen.judging(out)}")
    if facts["status"] == "interrupted":
        _say_how_to_continue(facts, _step(method), out, method.run.checkpoint)
        raise typer.Exit(_INTERRUPTED)


# -- training ------------------------------------------------------------------------------------------------------


def _kept_near(method: Method, safe: bool, margin: float | None, feature: str | None) -> Safe | None:
    """The method as `--safe` trains it; None without."""
    if not safe:
        given = {"--safe-margin": margin, "--production-feature": feature}
        alone = next((name for name, value in given.items() if value is not None), None)
        if alone is not None:
            raise UsageError(f"{alone} is for --safe, which keeps the ranker near production; say --safe, too.")
        return None
    from cldrank.arguments import check_number
    from cldrank.safety import Safe

    known: dict[str, Any] = {"production": feature}
    if margin is not None:
        known["margin"] = check_number("safe_margin", margin, least=0, below=1)
    return Safe(method, **known)


def _check_for_spark(method: Method, safe: bool) -> None:
    """Refuse early what cannot be learned on Spark."""
    method.check_remote()
    if safe:
        raise UsageError("--safe judges blends by features on this machine; leave it or --engine spark out.")


def _learn(
    chosen: LearningTask, kept: Safe | None, hold_out: float | None, session: Any, *, bar: bool
) -> tuple[RankingDataset, HeldOut | None, list[str]]:
    """Fit the method; the data that it learned from, what was held out of them, and its warnings."""
    from cldrank.arguments import check_number
    from cldrank.clicks.holding_out import HeldOut

    if hold_out is not None:
        check_number("hold_out", hold_out, above=0, below=1)
    dataset, table, rho = chosen.read() if session is None else chosen.read_on_spark(session)
    held = None if hold_out is None else HeldOut.of(dataset, table, hold_out)
    if held is not None:
        dataset, table = held.others
    with _showing(chosen.method, bar):
        return dataset, held, _fit(kept or chosen.method, dataset, table, rho)


def _fit(method: Method | Safe, dataset: RankingDataset, table: Any, rho: Any) -> list[str]:
    """Fit the method; its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CldrankWarning)
        try:
            method.fit(dataset, table, rho)
        except KeyboardInterrupt:
            print_error("stopped before there was a ranker; nothing is saved.")
            raise typer.Exit(_INTERRUPTED) from None
        except CldrankError:
            for text in _said(caught):
                print_warning(text)
            raise
    return _said(caught)


def _said(caught: list[warnings.WarningMessage]) -> list[str]:
    """Our own warnings, as the shell says them."""
    return [as_options(str(one.message)) for one in caught if isinstance(one.message, CldrankWarning)]


@contextmanager
def _showing(method: Method, bar: bool) -> Iterator[None]:
    """A bar of epochs or rounds where there are such, a word otherwise."""
    steps = method.model.progress()
    if not bar or steps is None:
        with working("training …"):
            yield
        return
    with counting("training", steps[1]) as tell:

        def report(epoch: Epoch) -> None:
            tell(epoch.number, f"loss {epoch.loss:.4f}{_held(asdict(epoch), '')}")  # type: ignore[misc]

        method.set_params(run__on_epoch=report)
        yield
        method.set_params(run__on_epoch=None)


# -- what the ranker remembers -------------------------------------------------------------------------------------


def command_words(context: typer.Context) -> str:
    """The command that trains the same ranker, in long options; those that do not decide what it is are left out."""
    from cldrank.models import Run
    from cldrank.parameters import with_role

    words = ["cldrank", *context.command_path.split()[1:]]
    passed_over = {*_UNDECIDING, *with_role(Run, "resume", "log")}
    for one in context.command.params:
        given = context.params.get(one.name or "")
        source = context.get_parameter_source(one.name or "")
        if source is None or source.name != "COMMANDLINE" or one.name in passed_over:
            continue
        if one.param_type_name == "argument":
            words.append(str(given))
            continue
        name = next(spelled for spelled in one.opts if spelled.startswith("--"))
        if isinstance(given, bool):
            words.append(name if given else one.secondary_opts[0])
            continue
        for value in given if isinstance(given, list | tuple) else [given]:
            words += [name, str(value)]
    return shlex.join([*words, "--out", "ranker"])


# -- what came of it -----------------------------------------------------------------------------------------------


def _print(method: Method, ranker: Ranker, facts: dict[str, Any], warned: list[str], summary: bool, out: Path) -> None:
    console.print(f"{ranker!r}", markup=False)
    if ranker.provenance.safety is not None:
        print_line(str(ranker.provenance.safety))
    if summary:
        print_line(method.summary())
    if facts["warm_start"]:
        print_line(f"started from {facts['warm_start']}: {facts['status']} after {count(facts['steps'], 'step')}")
    if facts["best_epoch"]:
        print_line(_kept_steps(facts, _step(method)))
        if facts["held_out_queries"]:
            kept = facts["history"][facts["best_epoch"] - 1]
            chooser = "held-out concordance" if kept["held_loss"] is None else "held-out loss"
            say(_NO_COMPARISON.format(chooser, _step(method)))
    if facts["constant_features"]:
        say(f"note: constant in the training data, no weight: {some(facts['constant_features'])}")
    if facts["collinear_features"]:
        named = some(facts["collinear_features"])
        say(f"note: some features are determined by others, so their coefficients mean little: {named}")
    for text in warned if facts["status"] != "interrupted" else ():
        console.print("[yellow]warning:[/]", end=" ")
        console.print(text, markup=False)
    console.print(f"saved in {out}", markup=False)


def _kept_steps(facts: dict[str, Any], step: str) -> str:
    kept = facts["history"][facts["best_epoch"] - 1]
    held = _held(kept, f" with {facts['held_out_targets']}") or ", nothing held out"
    return f"{step} {kept['number']} of {len(facts['history'])} kept: loss {kept['loss']:.4f}{held}"


def _held(epoch: dict[str, Any], targets: str) -> str:
    """What is known of the queries held out."""
    loss = "" if epoch["held_loss"] is None else f", held-out loss {epoch['held_loss']:.4f}"
    return "" if epoch["validation"] is None else f"{loss}, held-out concordance {epoch['validation']:.4f}{targets}"


def _step(method: Method) -> str:
    """What a step of training is called."""
    return (method.model.progress() or ("step", 0))[0]


def _say_how_to_continue(facts: dict[str, Any], step: str, out: Path, checkpoint: object) -> None:
    further = (
        "to be able to continue, train with --checkpoint FILE"
        if checkpoint is None
        else f"the same command with --resume continues from {checkpoint}"
    )
    done = len(facts["history"])
    print_error(
        f"stopped after {step} {done}; the ranker of {step} {facts['best_epoch']} is saved in {out}; {further}."
    )


def _facts(method: Method, dataset: RankingDataset) -> dict[str, Any]:
    return {
        "data": dataset.name,
        "synthetic": dataset.synthetic,
        "queries": dataset.n_queries,
        "rows": dataset.n_rows,
        "status": method.status_,
        "steps": method.n_iter_,
        "warm_start": method.fit_.diagnostics.warm_start or None,
        "log_likelihood": getattr(method, "log_likelihood_", None),
        "best_epoch": getattr(method, "best_epoch_", None),
        "held_out_queries": getattr(method, "n_held_", None),
        "held_out_targets": method.learns if hasattr(method, "best_epoch_") else None,
        "history": [asdict(epoch) for epoch in getattr(method, "history_", ())],
        "constant_features": list(getattr(method, "constant_features_", ())),
        "collinear_features": list(getattr(method, "collinear_features_", ())),
    }


app = methods.group(train, may_judge=True)
