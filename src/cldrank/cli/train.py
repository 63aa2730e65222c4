"""`cldrank train`."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from cldrank.cli import options
from cldrank.cli.commands import Option, ShellCommand, declared, option, options_of, parsed
from cldrank.cli.methods import MethodCommands
from cldrank.cli.option_names import as_options
from cldrank.cli.output import counting, print_error, print_json, print_line, print_warning, say, working
from cldrank.errors import CldrankWarning, UsageError, hearing_warnings
from cldrank.files import recover_folder
from cldrank.wording import some

if TYPE_CHECKING:
    from cldrank.clicks.holding_out import HeldOut
    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.method_choice import Choice
    from cldrank.methods import Method
    from cldrank.models import Epoch
    from cldrank.propensity.segment_propensities import Curve
    from cldrank.rankers import Ranker
    from cldrank.safety import Safe

INTERRUPTED = 130
_UNDECIDING = ("out", "summary", "as_json", "cache", "jobs")
_EVIDENCE = {entry.name for entry in fields(options.Sources)}
_NO_COMPARISON = (
    "note: {} chooses the {}; each method has its own targets, so it does not compare methods. "
    "`cldrank tune METHOD --trials 1` judges all by the same held-out clicks, `cldrank evaluate` by clicks or labels."
)


@declared
class LearningTask(options.Sources, options.JsonOutput):
    """A method, and the sources that it learns from."""

    hold_out: float | None = option(
        "SHARE",
        "Keep this share of the queries, by hashes of their ids, out of training, to judge the ranker on them.",
        above=0,
        below=1,
    )

    query_weight: Path | None = option(
        "FILE", "How much queries count in training: a table of `query_id` and `weight`."
    )

    def check_evidence(self, method: Method, *, judges: bool) -> None:
        """Refuse a method without its evidence before anything is read; `judges`: clicks also judge the ranker."""
        from cldrank.methods.needs import uses_clicks, uses_curve

        name, needs = method.name, method.required
        if not uses_clicks(needs):
            return
        if not self.clicks:
            raise UsageError(f"{name} learns from clicks; name them with --clicks.")
        corrects = uses_curve(needs)
        if self.propensity is None and (corrects or judges):
            purpose = "" if corrects else " to judge by held-out clicks"
            trust = " (with --method trust-bias, it corrects for trust as well)" if needs == "trust" else ""
            raise UsageError(
                f"{name} needs the propensities of positions{purpose}; name them with --propensity: power:1.0, say, or "
                f"a file that `cldrank propensity estimate` wrote{trust}."
            )

    def read(self) -> tuple[RankingDataset, ClickTable | None, Curve | None]:
        """The dataset, the clicks on it, and the propensities (or slopes and bases) of their positions."""
        dataset = self.load(self.features)
        if self.query_weight is not None:
            from cldrank.data.query_weights import load_query_weights

            dataset = dataset.weighted(load_query_weights(self.query_weight))
        if not self.clicks:
            return dataset, None, None
        table = self.clicks_on(dataset)
        if table.ratings is not None:
            say(f"{table.ratings.account}.")
        return dataset, table, self.curve_for(table)

    def judged(self, ranker: Path) -> str:
        """How to judge a ranker trained with `--hold-out`, as the end of a sentence."""
        if not self.clicks:
            return "the ranker remembers which it was trained on"
        words = ["cldrank", "compare", str(ranker), "production", *_given_options(_EVIDENCE)]
        words += [] if self.propensity else ["--propensity", "FILE"]
        return f"judge the ranker on them with `{shlex.join(words)}`"

    def save(self, ranker: Ranker, folder: Path, said: Iterable[str], chosen: str = "") -> None:
        """Save a ranker with the command that trains it again, the warnings of its fit, and why `auto` chose it."""
        origin = ranker.provenance.documented(said, command=command_words(), held_out=self.hold_out, chosen=chosen)
        ranker.with_provenance(origin).save(folder)


@declared
class TrainCommand(LearningTask, options.ComputePlace):
    """Train a ranker and save it.

    Example: `cldrank train cld --features train.parquet --clicks cells.parquet --propensity power:1.0 --out ranker/`

    The folder has a model card, README.md: what the ranker was trained on, how, and its limits.

    The ranker remembers which queries it was trained on. With `--hold-out 0.2`, a fifth of the queries is left for
    `cldrank compare ranker/ production`, which judges it by their clicks.

    With `--safe`, the ranker is a blend of the learned ranker and production: the best that the clicks on other queries
    show to be safe. If no blend is safe, nothing is saved, and the exit code is 1: keep production.

    With `--engine spark`, which takes linear methods only, features are Parquet files that stay on Spark; the clicks
    are joined with them there.

    Ctrl-C while a network or trees are trained saves the best ranker so far: in `--out`, or, if a ranker is there
    already, beside it, in a folder whose name ends in `.interrupted`.
    """

    method: Any  # a Method, whose class is imported late
    out: Path = option("-o FOLDER", "Where to save the ranker.", ...)
    safe: bool = option("", "Depart from production only as far as the clicks on other queries support.", False)
    safe_margin: float | None = option(
        "SHARE", "With --safe: the share of production's DCG that may be lost. [default: 0.01]", min=0, below=1
    )
    production_feature: str | None = option("NAME", "With --safe: the feature that is production's score, if any.")
    summary: bool = option("", "Print a summary of the fit: status, steps, likelihood or loss.", False)

    def run(self) -> None:
        """Check, read, fit, save, and print."""
        self.check()
        check_places(self.out)
        with warnings_at_the_end() as heard:
            choice, safe, dataset, held = self._learn()
        method = choice.method
        ranker, said = (safe or method).ranker_, [as_options(str(warning)) for warning in heard]
        facts = {**_facts(method, dataset), "hold_out": None if held is None else held.as_dict()}
        facts["chosen"] = choice.reason or None
        was_stopped = facts["status"] == "interrupted"
        place = place_of(self.out, was_stopped)
        self.save(ranker, place, said, choice.reason)
        facts["safety"] = None if safe is None else safe.safety_.as_dict()
        if self.as_json:
            more = {"summary": method.summary()} if self.summary else {}
            print_json({"method": method.name, "ranker": str(place), **facts, "warnings": said, **more})
        else:
            _print(method, ranker, facts, self.summary, place)
            if held is not None:
                print_line(f"{held}; {self.judged(place)}")
        if was_stopped:
            _say_how_to_continue(method, facts, place, self.out)
            raise click.exceptions.Exit(INTERRUPTED)

    def check(self) -> None:
        """Refuse what does not fit together, before anything is read."""
        self._safe(self.method)
        self.check_evidence(self.method, judges=self.safe)
        self.method.check()

    def choose(self, dataset: RankingDataset, table: ClickTable | None, rho: Curve | None) -> Choice:
        """The method, and the propensities to fit it with."""
        from cldrank.method_choice import Choice

        del dataset, table
        return Choice(self.method, rho)

    def _safe(self, method: Any) -> Safe | None:
        """The method as `--safe` trains it; None without `--safe`."""
        from cldrank.safety import Safe

        margin, feature = self.safe_margin, self.production_feature
        if not self.safe:
            if margin is not None or feature is not None:
                alone = "--production-feature" if margin is None else "--safe-margin"
                raise UsageError(f"{alone} is for --safe, which keeps the ranker near production; say --safe, too.")
            return None
        if self.engine == "spark":
            raise UsageError("--safe judges blends by features on this machine; leave it or --engine spark out.")
        return Safe(method, production=feature, **({} if margin is None else {"margin": margin}))

    def _learn(self) -> tuple[Choice, Safe | None, RankingDataset, HeldOut | None]:
        """Fit the method, or with `--safe` its blend; the data that it learned from, and the queries held out."""
        from cldrank.clicks.holding_out import HeldOut

        with self.session() as session:
            dataset, table, rho = self.read() if session is None else self._read_on_spark(session)
            choice = self.choose(dataset, table, rho)
            safe = self._safe(choice.method)
            held = None if self.hold_out is None else HeldOut.of(dataset, table, self.hold_out)
            dataset, table = (dataset, table) if held is None else held.others
            learner: Any = safe or choice.method
            with _showing(choice.method, not self.as_json):
                learner.fit(dataset, table, choice.propensities)
        return choice, safe, dataset, held

    def _read_on_spark(self, session: Any) -> tuple[RankingDataset, ClickTable, Curve | None]:
        """What `read` reads, with features that stay on Spark; the dataset is that of the candidates shown."""
        from cldrank.spark import SparkDataset

        if self.query_weight is not None:
            raise UsageError("--query-weight is for features read here; leave it or --engine spark out.")
        dataset = SparkDataset.read(session, self.features, self.spark_columns())
        table = self.clicks_on(None, session)
        with working("joining clicks with features …"):
            shown, known = dataset.shown(table)
        return shown, known, self.curve_for(known)


@declared
class TrainAutoCommand(TrainCommand):
    """Choose method and model by what the log has, say why, and train.

    Example: `cldrank train auto --features train.parquet --clicks cells.parquet --out ranker/`

    Labels are not looked at. Without --propensity, examination is estimated from the clicks or, where they cannot say,
    assumed to be 1/position, which the clicks raise where it is too steep. To change a setting, train the method by
    its name.
    """

    method: Any = None
    engine: Literal["local"] = "local"
    master: str = "local[*]"
    export_to: list[str] | None = option(
        "ENGINE", "An engine that is to serve the ranker, as in `cldrank export --to`. Repeat it for several."
    )
    settings: dict[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Refuse what does not fit together, before anything is read."""
        from cldrank.export.format import format_named
        from cldrank.methods import method_named

        self._safe(method_named("cld-pair")())  # as any other
        for engine in self.export_to or ():
            format_named(engine, "export_to")
        if not self.clicks:
            raise UsageError("auto learns from clicks; name them with --clicks.")

    def choose(self, dataset: RankingDataset, table: Any, rho: Curve | None) -> Choice:
        """The method that suits the log, and the propensities if it needs them."""
        from cldrank.method_choice import auto
        from cldrank.methods.needs import uses_curve
        from cldrank.models import Run
        from cldrank.parameters import parameters

        run = Run(**parsed(parameters(Run), self.settings))
        with working("choosing a method …"):
            choice = auto(dataset, table, rho, export_to=self.export_to or (), run=run)
        choice.method.check()
        if not self.as_json:
            print_line(choice.reason)
        has_use = self.safe or uses_curve(choice.method.required)
        return choice if has_use else replace(choice, propensities=None)


@contextmanager
def warnings_at_the_end() -> Iterator[list[CldrankWarning]]:
    """Our warnings within the block, printed at its end, however it ends."""
    with hearing_warnings() as heard, warnings.catch_warnings():
        warnings.simplefilter("ignore", CldrankWarning)
        try:
            yield heard
        finally:
            for warning in heard:
                print_warning(as_options(str(warning)))


@contextmanager
def _showing(method: Method, bar: bool) -> Iterator[None]:
    """Show a bar of epochs or rounds, or a word for methods without them."""
    steps = method.model.progress()
    if not bar or steps is None:
        with working("training …"):
            yield
        return
    with counting("training", steps[1]) as tell:

        def report(epoch: Epoch) -> None:
            tell(epoch.number, f"loss {epoch.loss:.4f}{_held(asdict(epoch))}")

        method.set_params(run__on_epoch=report)
        yield
        method.set_params(run__on_epoch=None)


def command_words() -> str:
    """The command that trains the same ranker, in long options, without those that do not change the ranker."""
    from cldrank.models import Run
    from cldrank.parameters import with_role

    context = click.get_current_context()
    names = {parameter.name for parameter in context.command.params if parameter.name} - {*_UNDECIDING}
    words = _given_options(names - {*with_role(Run, "resume", "log")})
    return shlex.join([*context.command_path.split(), *words, "--out", str(context.params["out"])])


def _given_options(names: Collection[str]) -> list[str]:
    """The given options and arguments of the running command, of those named, as words."""
    context = click.get_current_context()
    words: list[str] = []
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if parameter.name not in names or value is None or value == ():
            continue
        if isinstance(parameter, click.Argument):
            words += map(str, value if isinstance(value, tuple) else [value])
        elif isinstance(value, bool):
            words.append(parameter.opts[0] if value else parameter.secondary_opts[0])
        else:
            name = next(spelled for spelled in parameter.opts if spelled.startswith("--"))
            for part in value if isinstance(value, tuple) else [value]:
                words += [name, str(part)]
    return words


def _print(method: Method, ranker: Ranker, facts: dict[str, Any], summary: bool, out: Path) -> None:
    print_line(f"{ranker!r}")
    if ranker.provenance.safety is not None:
        print_line(str(ranker.provenance.safety))
    if summary:
        print_line(method.summary())
    if facts["best_epoch"]:
        (step, _), kept = method.model.progress() or ("step", 0), facts["history"][facts["best_epoch"] - 1]
        held = _held(kept, f" with {facts['held_out_targets']}") or ", nothing held out"
        print_line(f"{step} {kept['number']} of {len(facts['history'])} kept: loss {kept['loss']:.4f}{held}")
        if facts["held_out_queries"]:
            say(_NO_COMPARISON.format("held-out concordance" if kept["held_loss"] is None else "held-out loss", step))
    if facts["constant_features"]:
        say(f"note: constant in the training data, no weight: {some(facts['constant_features'])}")
    print_line(f"saved in {out}")


def _held(epoch: Mapping[str, Any], targets: str = "") -> str:
    """The loss and the concordance on the held-out queries, in words."""
    loss = "" if epoch["held_loss"] is None else f", held-out loss {epoch['held_loss']:.4f}"
    return "" if epoch["validation"] is None else f"{loss}, held-out concordance {epoch['validation']:.4f}{targets}"


def place_of(out: Path, was_stopped: bool) -> Path:
    """Where a ranker is saved: that of a fit that was stopped beside `out`, if there is a whole one."""
    recover_folder(out)
    return _beside(out) if was_stopped and out.is_dir() and any(out.iterdir()) else out


def check_places(out: Path) -> None:
    """Refuse a folder where a ranker cannot be saved, whether its fit is stopped or not."""
    from cldrank.rankers import check_replaceable

    options.check_ranker_folder(out)
    for folder in (out, _beside(out)):
        check_replaceable(folder)


def _beside(out: Path) -> Path:
    folder = out.resolve() if out.name in ("", "..") else out
    return folder.with_name(f"{folder.name}.interrupted")


def _say_how_to_continue(method: Method, facts: dict[str, Any], place: Path, out: Path) -> None:
    (step, _), checkpoint = method.model.progress() or ("step", 0), method.run.checkpoint
    further = (
        "to be able to continue, train with --checkpoint FILE"
        if checkpoint is None
        else f"the same command with --resume continues from {checkpoint}"
    )
    done, best = len(facts["history"]), facts["best_epoch"]
    unchanged = f"{out} is unchanged, and " if place != out else ""
    print_error(f"stopped after {step} {done}; {unchanged}the ranker of {step} {best} is saved in {place}; {further}.")


def _facts(method: Method, dataset: RankingDataset) -> dict[str, Any]:
    return {
        "data": dataset.name,
        "synthetic": dataset.synthetic,
        "queries": dataset.n_queries,
        "rows": dataset.n_rows,
        "status": method.status_,
        "steps": method.n_iter_,
        "log_likelihood": getattr(method, "log_likelihood_", None),
        "best_epoch": getattr(method, "best_epoch_", None),
        "held_out_queries": getattr(method, "n_held_", None),
        "held_out_targets": method.learns if hasattr(method, "best_epoch_") else None,
        "history": [asdict(epoch) for epoch in getattr(method, "history_", ())],
        "constant_features": list(getattr(method, "constant_features_", ())),
    }


def _run_options() -> list[Option]:
    from cldrank.models import Run

    return options_of({"run": Run}, "Run")


app = MethodCommands(TrainCommand, ShellCommand(TrainAutoCommand, derive=_run_options))
