"""One sub-command per method, derived from its class: options are the parameters of method, model and run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from cldrank.cli import options
from cldrank.cli.learning_task import LearningTask, corrects_if_asked
from cldrank.errors import UsageError
from cldrank.wording import listed

if TYPE_CHECKING:
    from cldrank.estimators import Method
    from cldrank.parameters import Parameter

_READING = "Reading files"
Clicks = Annotated[
    list[str] | None,
    typer.Option(
        "--clicks", "-c", metavar="FILE", help="The clicks: a file of cells, or raw logs.", show_default=False
    ),
]
Propensity = Annotated[
    str | None,
    typer.Option(
        "--propensity",
        "-p",
        metavar="power:ETA|FILE",
        help="Examination probabilities: power:1.0 for 1/position, a file that `cldrank propensity estimate` wrote, or "
        "none.",
        show_default=False,
    ),
]
Depth = Annotated[
    int | None,
    typer.Option(
        "--depth", min=1, metavar="POSITION", help="Treat every page as if it ended here.", show_default=False
    ),
]
_EVIDENCE = {"clicks": Clicks, "propensity": Propensity, "depth": Depth}
_SHORT = {"-c": "clicks", "-p": "propensity"}
# An option of other commands, what stands for its value, and a shorter help.
_LOG = {
    "log_column": (options.ClickLogColumns, "ROLE=NAME", "Which column of a raw log is `query_id` and so on."),
    "first_position": (options.FirstPosition, "0|1", "The number of the top position in a raw log. [default: 1]"),
    "one_query": (options.OneQuery, None, "The log has no queries (recommendations)."),
}
_FEATURES = {
    "column": (options.Columns, "ROLE=NAME", "Parquet: which column is `query_id` and so on."),
    "groups": (options.Groups, "FILE", "LETOR without `qid`: a file with the number of rows of each query."),
    "n_features": (options.FeatureCount, "INTEGER", "LETOR: the number of features, if rows may leave out the last."),
    "missing": (options.Missing, "VALUE", "Fill in missing values with this instead of refusing them."),
    "cache": (options.Cached, None, "Keep large files memory-mapped in the cache."),
}
_FLAGS = {"one_query": False, "cache": True}
_OF_ONE_FIT = ("checkpoint", "resume", "tensorboard")


class MethodCommands(TyperGroup):
    """A command with one sub-command per method, each made when it is called for."""

    action: ClassVar[Callable[..., None]]
    judges: ClassVar[bool] = False

    def list_commands(self, ctx: Any) -> list[str]:
        """All methods."""
        del ctx
        from cldrank.estimators import methods

        return list(methods())

    def get_command(self, ctx: Any, cmd_name: str, model: str | None = None) -> TyperCommand | None:
        """The command of a method, with the options of one model."""
        del ctx
        from cldrank.estimators import methods

        kind = methods().get(cmd_name)
        return None if kind is None else _command(type(self), kind, model)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse options before the method, which decides what options there are."""
        if args and args[0].startswith("-") and args[0] not in ("-h", "--help"):
            raise UsageError(f"name the method first: `{ctx.command_path} METHOD {args[0]} …`.")
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command, with the options of the model that the call names."""
        from cldrank.estimators import method_named

        method_named(args[0])  # refuses an unknown one with the nearest there is
        return args[0], self.get_command(ctx, args[0], _named_model(args)), args[1:]


class MethodCommand(TyperCommand):
    """The command of one method, which explains why it does not have an option that others have."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse options; an unknown one is refused with the reason, where there is one."""
        named = list(args)  # parsing takes them out
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if hasattr(error, "possibilities"):  # of an unknown option; its class has no public name in typer
                _explain(str(self.name), str(getattr(error, "option_name", "")), _named_model(named))
            if getattr(error, "ctx", ctx) is None:
                error.ctx = ctx  # type: ignore[attr-defined]  # whose help is to be read
            raise


def group(action: Callable[..., None], *, judges: bool = False) -> typer.Typer:
    """An app with one command per method, which calls `action(task, …)`.

    judges   whether it fits many times and judges each fit by clicks
    """
    kind = type("Commands", (MethodCommands,), {"action": staticmethod(action), "judges": judges})
    app = typer.Typer(
        cls=kind,
        no_args_is_help=True,
        rich_markup_mode="markdown",
        options_metavar="",
        subcommand_metavar="METHOD [OPTIONS]",
        help=inspect.getdoc(action),
    )
    app.callback()(lambda: None)
    return app


def _named_model(arguments: list[str]) -> str | None:
    for at, text in enumerate(arguments):
        if text == "--model":
            return arguments[at + 1] if at + 1 < len(arguments) else None
        if text.startswith("--model="):
            return text.partition("=")[2]
    return None


def _command(commands: type[MethodCommands], kind: type[Method], model: str | None) -> TyperCommand:
    settings = _settings(kind, model, commands.judges)
    evidence, reading = _evidence(kind, commands.judges), _reading(kind)
    own = inspect.signature(commands.action, eval_str=True).parameters
    given = [one for name, one in own.items() if name != "task"]

    def call(**values: Any) -> None:
        given = {name: values.pop(name) for name in list(values) if name not in own}
        commands.action(_task(kind, given, settings), **values)

    panels = [_option(one, panel) for one, panel in settings.values()]
    ordered = [*evidence, _model_option(kind), *given, *panels, *reading]
    call.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in ordered}
    call.__doc__ = f"{kind.label}: {kind.sentence}.\n\n{_about(kind)}"
    app = typer.Typer(
        add_completion=False, rich_markup_mode="markdown", context_settings={"help_option_names": ["-h", "--help"]}
    )
    app.command(kind.name, cls=MethodCommand, rich_help_panel="Methods")(call)
    command = typer.main.get_command(app)
    if not isinstance(command, TyperCommand):
        raise AssertionError("an app of one command is that command")
    return command


def _about(kind: type[Method]) -> str:
    corrects = f"Corrects {' and '.join(kind.corrects)} bias. " if kind.corrects else ""
    needs = {
        "labels": "Learns from labels",
        "clicks": "Learns from clicks",
        "propensities": "Learns from clicks and propensities",
        "trust": "Learns from clicks and affine propensities (`cldrank propensity estimate --method trust-bias`)",
    }
    return f"{corrects}{needs[kind.needs]}."


def _evidence(kind: type[Method], judges: bool) -> list[inspect.Parameter]:
    """The options that say where to find what a method learns from."""
    text = "The candidates: LETOR or Parquet files, a folder, a pattern, or a data set such as `msrd:test`. Repeat it."
    wanted: dict[str, Any] = {"features": _shortened(options.Features, "FILE", text, panel=None)}
    if kind.needs != "labels":
        curve = judges or kind.needs != "clicks" or corrects_if_asked(kind)
        wanted |= {name: option for name, option in _EVIDENCE.items() if curve or name != "propensity"}
    return [_parameter(name, option, ... if name == "features" else None) for name, option in wanted.items()]


def _reading(kind: type[Method]) -> list[inspect.Parameter]:
    """The options that say how files are to be read."""
    wanted = {**({} if kind.needs == "labels" else _LOG), **_FEATURES}
    return [_parameter(name, _shortened(*entry), _FLAGS.get(name)) for name, entry in wanted.items()]


def _model_option(kind: type[Method]) -> inspect.Parameter:
    from cldrank.estimators.registry import usable_models

    names = list(usable_models(kind))
    text = f"The model to fit; --help shows its options. [default: {names[0]}]"
    option = typer.Option("--model", metavar="|".join(names), help=text, show_default=False, hidden=len(names) < 2)
    return _parameter("model", Annotated[str | None, option], None)


Settings = Mapping[str, tuple["Parameter", str]]


def _settings(kind: type[Method], model: str | None, judges: bool) -> Settings:
    """What can be set of the method, the model and the run, by name, each with the title of its panel."""
    from cldrank.estimators.registry import configured, unused_settings
    from cldrank.models import Run
    from cldrank.parameters import parameters

    fitted = type(configured(kind, {"model": model}).model)
    unused = {"model", "run", *unused_settings(kind, fitted), *(_OF_ONE_FIT if judges else ())}
    found: dict[str, tuple[Parameter, str]] = {}
    for owner, panel in ((kind, "Method"), (fitted, f"Model: {fitted.name}"), (Run, "Run")):
        for name, one in parameters(owner).items():
            if one.option and name not in unused:
                found.setdefault(name, (one, panel))
    return found


def _option(one: Parameter, panel: str) -> inspect.Parameter:
    spelled = f"--{one.name.replace('_', '-')}"
    if bool in one.kinds:
        flags = f"{spelled}/--no-{spelled[2:]}"
        option = typer.Option(flags, help=_help(one), rich_help_panel=panel, show_default=False)
        return _parameter(one.name, Annotated[bool | None, option], None)
    option = typer.Option(spelled, metavar=one.metavar, help=_help(one), rich_help_panel=panel, show_default=False)
    return _parameter(one.name, Annotated[str | None, option], None)


def _help(one: Parameter) -> str:
    text = f"{one.about[0].upper()}{one.about[1:]}."
    default = one.default
    if default is None or isinstance(default, bool):
        return text
    shown = ",".join(map(str, default)) if isinstance(default, tuple) else f"{default}"
    return f"{text} [default: {shown}]"


def _shortened(annotated: Any, metavar: str | None, text: str, panel: str | None = _READING) -> Any:
    """An option for reading files, with a shorter help."""
    option = annotated.__metadata__[0]
    changed = {"metavar": metavar, "help": text, "rich_help_panel": panel, "show_default": False}
    return Annotated[annotated.__origin__, type(option)(**{**vars(option), **changed})]


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if default is ... else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _task(kind: type[Method], values: Mapping[str, Any], settings: Settings) -> LearningTask:
    """The method and its evidence from the values of all options."""
    from cldrank.estimators.registry import configured

    given = {name: value for name, value in values.items() if name in settings and value is not None}
    parsed = {
        name: settings[name][0].parse(value) if isinstance(value, str) else value for name, value in given.items()
    }
    method = configured(kind, {"model": values["model"], **parsed})
    evidence = {name: values.get(name) for name in _EVIDENCE}
    log = options.LogReading(values.get("log_column"), values.get("first_position"), values.get("one_query", False))
    reading = options.Reading(*(values[name] for name in _FEATURES))
    return LearningTask(method, values["features"], **evidence, log=log, reading=reading)


def _explain(name: str, option: str, model: str | None) -> None:
    """Refuse an option that other methods or models have, and say why this one does not have it."""
    from cldrank.estimators import methods
    from cldrank.estimators.registry import configured, unused_settings, usable_models
    from cldrank.models import Run, models

    kind, setting = methods()[name], _SHORT.get(option, option.lstrip("-").removeprefix("no-").replace("-", "_"))
    if setting in (*_EVIDENCE, *_LOG):
        why = "learns from labels, not from clicks" if kind.needs == "labels" else "does not use propensities"
        raise UsageError(f"{name} {why}; leave {option} out.")
    fitted = type(configured(kind, {"model": model}).model)
    if _is_option(setting, Run, *models().values()):
        others = [
            other
            for other, one in usable_models(kind).items()
            if _is_option(setting, Run, one) and setting not in unused_settings(kind, one)
        ]
        if others and fitted.name not in others:
            raise UsageError(f"{option} is not for {fitted.label}; choose --model {others[0]}.")
        raise UsageError(f"{name} has no use for {option}; leave it out.")
    owners = [one.name for one in methods().values() if _is_option(setting, one)]
    if owners:
        raise UsageError(f"{name} has no option {option}; {listed(owners)} {'has' if len(owners) == 1 else 'have'} it.")


def _is_option(name: str, *owners: type) -> bool:
    """Whether a setting is an option of one of them."""
    from cldrank.parameters import parameters

    return any(name in parameters(owner) and parameters(owner)[name].option for owner in owners)
