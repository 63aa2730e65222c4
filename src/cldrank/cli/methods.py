"""One sub-command per method, derived from its class: options are the parameters of method, model and run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from cldrank.cli import log_options, options
from cldrank.cli.derived import Option, field_options, made, no_option, option, option_of, parsed, taken
from cldrank.cli.learning_task import LearningTask, Sources, corrects_if_asked
from cldrank.errors import UsageError

if TYPE_CHECKING:
    from cldrank.methods import Method
    from cldrank.parameters import Parameter

_SHORT = {"-c": "clicks", "-p": "propensity"}


class MethodCommands(TyperGroup):
    """A command with one sub-command per method, each made when it is called for."""

    action: ClassVar[Callable[..., None]]
    may_judge: ClassVar[bool] = False

    def list_commands(self, ctx: Any) -> list[str]:
        """All methods."""
        del ctx
        from cldrank.methods import methods

        return list(methods())

    def get_command(self, ctx: Any, cmd_name: str, model: str | None = None) -> TyperCommand | None:
        """The command of a method, with the options of one model."""
        del ctx
        from cldrank.methods import methods

        kind = methods().get(cmd_name)
        return None if kind is None else _command(type(self), kind, model)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse options before the method, which decides what options there are."""
        if args and args[0].startswith("-") and args[0] not in ("-h", "--help"):
            raise UsageError(f"name the method first: `{ctx.command_path} METHOD {args[0]} …`.")
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command, with the options of the model that the call names."""
        from cldrank.methods import method_named

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


def group(action: Callable[..., None], *, may_judge: bool = False) -> typer.Typer:
    """An app with one command per method, which calls `action(chosen, …)`.

    may_judge   whether it judges by clicks if asked to, so that methods without a curve may be given one
    """
    own = {"action": staticmethod(action), "may_judge": may_judge}
    kind = type("Commands", (MethodCommands,), own)
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
    settings = _settings(kind, model)
    own = [
        one for name, one in inspect.signature(commands.action, eval_str=True).parameters.items() if name != "chosen"
    ]
    derived = [option_of(one, panel) for one, panel in settings.values()]

    @wraps(commands.action)
    def call(**values: Any) -> None:
        rest = {one.name: values.pop(one.name) for one in own}
        commands.action(_chosen(kind, settings, values), **rest)

    ordered = [
        *_evidence(kind, commands.may_judge),
        _model_option(kind),
        *own,
        *derived,
        *_reading(kind),
    ]
    call.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    call.__doc__ = f"{kind.label}: {kind.sentence}.\n\n{_about(kind)}"
    return made(kind.name, call, MethodCommand)


def _about(kind: type[Method]) -> str:
    from cldrank.methods.needs import TRUST_BIAS, learned_from

    corrects = f"Corrects {' and '.join(kind.corrects)} bias. " if kind.corrects else ""
    estimated = f" ({TRUST_BIAS})" if kind.needs == "trust" else ""
    return f"{corrects}Learns from {' and '.join(learned_from(kind.needs))}{estimated}."


def _evidence(kind: type[Method], judges: bool) -> list[Option]:
    """The options that say where to find what a method learns from."""
    from cldrank.methods.needs import uses_clicks, uses_curve

    every = field_options(Sources)
    if not uses_clicks(kind.needs):
        return [one for one in every if one.name == "features"]
    curve = judges or uses_curve(kind.needs) or corrects_if_asked(kind)
    return [one for one in every if curve or one.name not in ("propensity", "trust_propensity")]


def _reading(kind: type[Method]) -> list[Option]:
    """The options that say how files are to be read."""
    from cldrank.methods.needs import uses_clicks

    of_logs = field_options(log_options.LogReading) if uses_clicks(kind.needs) else []
    return [*of_logs, *field_options(options.Reading)]


def _model_option(kind: type[Method]) -> Option:
    from cldrank.methods.registry import usable_models

    names = list(usable_models(kind))
    text = f"The model to fit; --help shows its options. [default: {names[0]}]"
    shown = typer.Option("--model", metavar="|".join(names), help=text, show_default=False, hidden=len(names) < 2)
    return option("model", Annotated[str | None, shown])


Settings = Mapping[str, tuple["Parameter", str]]


def _settings(kind: type[Method], model: str | None) -> Settings:
    """What can be set of the method, the model and the run, by name, each with the title of its panel."""
    from cldrank.methods.registry import configured
    from cldrank.models import Run
    from cldrank.parameters import parameters

    fitted = type(configured(kind, {"model": model}).model)
    unused = {"model", "run", *kind.unheeded(fitted)}
    found: dict[str, tuple[Parameter, str]] = {}
    for owner, panel in ((kind, "Method"), (fitted, f"Model: {fitted.name}"), (Run, "Run")):
        for name, one in parameters(owner).items():
            if one.option and name not in unused:
                found.setdefault(name, (one, panel))
    return found


def _chosen(kind: type[Method], settings: Settings, values: dict[str, Any]) -> LearningTask:
    """The method and its evidence from the values of all options."""
    from cldrank.methods.registry import configured

    given = parsed({name: one for name, (one, _) in settings.items()}, values)
    method = configured(kind, {"model": values["model"], **given})
    log, reading = taken(log_options.LogReading, values), taken(options.Reading, values)
    return LearningTask(method=method, log=log, reading=reading, **vars(taken(Sources, values)))


def _explain(name: str, spelled: str, model: str | None) -> None:
    """Refuse an option that other methods or models have, and say why this one does not have it."""
    from cldrank.methods import methods
    from cldrank.methods.needs import uses_clicks
    from cldrank.methods.registry import configured, usable_models
    from cldrank.models import Run, models

    kind, setting = methods()[name], _SHORT.get(spelled, spelled.lstrip("-").removeprefix("no-").replace("-", "_"))
    if setting in {one.name for part in (Sources, log_options.LogReading) for one in fields(part)}:
        why = "does not use propensities" if uses_clicks(kind.needs) else "learns from labels, not from clicks"
        raise UsageError(f"{name} {why}; leave {spelled} out.")
    fitted = type(configured(kind, {"model": model}).model)
    if _is_option(setting, kind, Run, *models().values()):
        others = [
            other
            for other, one in usable_models(kind).items()
            if _is_option(setting, kind, Run, one) and setting not in kind.unheeded(one)
        ]
        if others and fitted.name not in others:
            if setting == "warm_start":
                raise UsageError(f"{spelled} is not for {name} with {fitted.label}{fitted.why_cold}; leave it out.")
            raise UsageError(f"{spelled} is not for {fitted.label}; choose --model {others[0]}.")
        raise UsageError(f"{name} has no use for {spelled}; leave it out.")
    owners = [one.name for one in methods().values() if _is_option(setting, one)]
    if owners:
        raise no_option(name, spelled, owners)


def _is_option(name: str, *owners: type) -> bool:
    """Whether a setting is an option of one of them."""
    from cldrank.parameters import parameters

    return any(name in parameters(owner) and parameters(owner)[name].option for owner in owners)
