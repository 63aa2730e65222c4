"""`cldrank tune`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_origin

import click

from cldrank.cli import options
from cldrank.cli.commands import argument, declared, option
from cldrank.cli.output import counting, print_error, print_json, print_line, print_table, say
from cldrank.cli.train import LearningTask
from cldrank.errors import UsageError, hearing_warnings
from cldrank.files import save_json
from cldrank.wording import count

if TYPE_CHECKING:
    from cldrank.methods import Method
    from cldrank.parameters import Parameter
    from cldrank.tuning import Tuned
    from cldrank.tuning.space import Values


@declared
class TuneCommand(LearningTask):
    """Choose the parameters of a method without labels, and train with the best.

    Example: `cldrank tune cld-pair -f train.parquet -c cells.parquet -p power:1.0 --range l2=1e-4:1e-2:log -o tuned/`

    Trials learn from most queries and are judged by the clicks on the others, corrected by the propensities. These
    clicks cannot show selection bias, as only shown candidates have any. Other parameters are tried in the paper's
    ranges, or left at their defaults.
    """

    method: str = argument("METHOD", "A method of `cldrank train`, such as cld or ips.")
    out: Path = option("-o FOLDER", "For the trials and the best ranker. The same command continues.", ...)
    model: str | None = option("NAME", "The model to fit, as for `cldrank train`.")
    ranges: list[str] | None = option(
        "--range NAME=LOW:HIGH[:log]", "Try numbers: gamma=0.05:0.3, or by ratio, l2=1e-3:1e-2:log. Repeat it."
    )
    values: list[str] | None = option(
        "--set NAME=VALUES", "Try these: dropout=0,0.2; or fix a value: epochs=20. Repeat it."
    )
    trials: int = option("INTEGER", "In all, with those in the folder.", 30)
    jobs: int = option("-j INTEGER", "Processes that run trials.", 1)
    seed: int = option("INTEGER", "The same seed gives the same result.", 0)
    judge_share: float = option("SHARE", "Of the other queries, those whose clicks judge trials.", 0.2)

    def run(self) -> None:
        """Run trials, and save the best ranker with the record of all."""
        from cldrank.tuning import tune

        method, space = self._space()
        if method.needs == "labels":
            raise UsageError(f"{method.name} learns from labels, not from clicks, which judge trials; choose another.")
        self.check_evidence(method, judges=True)
        method.check()
        options.check_folder(self.out)
        dataset, table, rho = self.read()
        chosen = {name: getattr(self, name) for name in ("trials", "seed", "jobs", "hold_out")}
        try:
            with hearing_warnings() as heard, counting("tuning", self.trials, shown=not self.as_json) as bar:
                tuned = tune(
                    method,
                    dataset,
                    table,
                    rho,
                    space,
                    folder=self.out,
                    validation=self.judge_share,
                    on_trial=lambda done, best: bar(done, "tuning" if best is None else f"tuning, best {best:.4f}"),
                    **chosen,
                )
        except KeyboardInterrupt:
            print_error(f"stopped; the finished trials are in {self.out}, and the same command goes on with them.")
            raise click.exceptions.Exit(130) from None
        folder = self.out / "ranker"
        self.save(tuned.estimator.ranker_, folder, map(str, heard))
        facts = {"method": self.method, "estimator": " ".join(repr(tuned.estimator).split()), "ranker": str(folder)}
        known = {"data": dataset.name, "synthetic": dataset.synthetic, "seed": self.seed}
        result = {**facts, **known, **tuned.as_dict()}
        save_json(self.out / "tuned.json", result)
        if self.as_json:
            print_json(result)
            return
        _print(tuned, folder)
        if tuned.held_out is not None:
            print_line(f"{tuned.held_out}; {self.judged(folder)}")

    def _space(self) -> tuple[Method, dict[str, Values]]:
        """The method with its fixed parameters, and the values to try for the others."""
        from cldrank.methods.registry import configured, method_named
        from cldrank.tuning.space import default_space, parse_values

        kind = method_named(self.method)
        fixed: dict[str, Any] = {"model": self.model, "seed": self.seed}
        tried: dict[str, Values] = {}
        for text in [*(self.ranges or ()), *(self.values or ())]:
            key, _, rest = text.partition("=")
            if not rest:
                raise UsageError(f"{text} does not say what to try; write --range l2=1e-3:1e-2:log, say.")
            if key in fixed or key in tried:
                raise UsageError(f"{key} is named twice; separate its values by commas: --set {key}=1,2.")
            parameter = _parameter(configured(kind, {"model": self.model}), key)
            is_list = any(get_origin(kind) in (tuple, Sequence) for kind in parameter.kinds)
            values = parse_values(parameter, rest) if not is_list else ()
            if isinstance(values, tuple) and len(values) < 2:
                fixed[key] = parameter.parse(rest)
            else:
                tried[key] = values
        method = configured(kind, fixed)
        space = {key: usual for key, usual in default_space(method).items() if key not in fixed} | tried
        if not space:
            raise UsageError("there is nothing to try; name a parameter: --range NAME=LOW:HIGH, say.")
        return method, space


def _parameter(method: Method, name: str) -> Parameter:
    """The parameter called `name`, refused if it has no effect here."""
    from cldrank.methods.registry import configured, settings_of
    from cldrank.models import Run
    from cldrank.parameters import with_role

    kind, model = type(method), type(method.model)
    known = settings_of(kind, model)
    if name not in known:
        configured(kind, {"model": method.model, name: None})  # refuses it, and names the nearest
    of_one_fit = ("seed", *with_role(Run, "resume", "log"))
    if name in (*kind.unheeded(model), *of_one_fit) or not known[name].option:
        raise UsageError(f"{method.name} has no use for {name} here; leave it out.")
    return known[name]


def _print(tuned: Tuned, folder: Path) -> None:
    states = [trial.state for trial in tuned.trials]
    title = (
        f"{len(states)} trials: {states.count('completed')} completed, {states.count('pruned')} given up early, "
        f"{states.count('failed')} failed; {tuned.measure} on {tuned.validation_queries:,} queries"
    )
    names = list(tuned.best_parameters)
    rows = []
    for trial in tuned.best():
        numbers = (trial.value, trial.standard_error, trial.behind, trial.behind_error)
        rows.append((trial.number, *(_short(trial.parameters[name]) for name in names), *map(_short, numbers)))
    print_table(title, ("trial", *(name.replace("_", " ") for name in names), "value", "±", "behind", "±"), rows)
    print_line(f"best: {', '.join(f'{name}={_short(value)}' for name, value in tuned.best_parameters.items())}")
    print_line(tuned.told_apart)
    say("note: ± is the standard error over the judging queries; after `behind`, that of the paired difference.")
    if tuned.ties:
        say(f"note: within two standard errors of the best, a tie: {count(tuned.ties, 'other trial')}.")
    blind = [name for name in ("gamma", "selection_weight") if name in names]
    if blind:
        say(
            f"note: only shown candidates have clicks, so these hardly determine {blind[0]}, which decides how those "
            "that were not shown are ranked."
        )
    print_line(f"the ranker with these parameters: {folder}")


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
