"""One sub-command of `cldrank train` per method, with what the method and its model have a use for."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cldrank.cli import options
from cldrank.cli.commands import Option, ShellCommand, ShellGroup, field_options, made, no_option, option_of, parsed
from cldrank.errors import UsageError

if TYPE_CHECKING:
    from cldrank.methods import Method
    from cldrank.models import Model
    from cldrank.parameters import Parameter

_SHORT = {"-c": "clicks", "-p": "propensity"}
_CLICKS = {"clicks", "depth", "propensity", "trust_propensity", *(entry.name for entry in fields(options.LogReading))}
_SAFE = {"safe", "safe_margin", "production_feature"}
_SPARK = {entry.name for entry in fields(options.ComputePlace)}
Settings = Mapping[str, tuple["Parameter", str]]


class MethodCommands(ShellGroup):
    """A command with one sub-command per method, each made when it is called for."""

    action: type[Any]

    def list_commands(self, ctx: Any) -> list[str]:
        """All methods."""
        del ctx
        from cldrank.methods import methods

        return list(methods())

    def get_command(self, ctx: Any, cmd_name: str, model: str | None = None) -> ShellCommand | None:
        """The command of a method, with the options of one model."""
        del ctx
        from cldrank.methods import methods

        kind = methods().get(cmd_name)
        return None if kind is None else _command(self.action, kind, model)

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


class MethodCommand(ShellCommand):
    """The command of one method, which explains why it does not have an option that others have."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse options; an unknown one is refused with the reason, where there is one."""
        named = list(args)  # parsing takes them out
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if hasattr(error, "possibilities"):  # of an unknown option; its class has no public name in typer
                _explain(str(self.name), str(getattr(error, "option_name", "")), _named_model(named))
            raise


def method_commands(action: type[Any]) -> typer.Typer:
    """An app with one command per method, which makes an `action` with the method, and runs it."""
    app = typer.Typer(
        cls=type("Commands", (MethodCommands,), {"action": action}),
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


def _command(action: type[Any], kind: type[Method], model: str | None) -> ShellCommand:
    from cldrank.methods.needs import TRUST_BIAS, learned_from
    from cldrank.methods.registry import configured

    fitted = type(configured(kind, {"model": model}).model)
    settings, useless = _settings(kind, fitted), _useless(kind, fitted)
    own = [entry for entry in field_options(action) if entry.name not in useless]

    def call(**values: Any) -> None:
        given = parsed({name: parameter for name, (parameter, _) in settings.items()}, values)
        method = configured(kind, {"model": values["model"], **given})
        action(method=method, **{entry.name: values[entry.name] for entry in own}).run()

    derived = [option_of(parameter, panel) for parameter, panel in settings.values()]
    call.__signature__ = inspect.Signature([*own, _model_option(kind), *derived])  # type: ignore[attr-defined]
    corrects = f"Corrects {' and '.join(kind.corrects)} bias. " if kind.corrects else ""
    estimated = f" ({TRUST_BIAS})" if kind.needs == "trust" else ""
    learns = f"Learns from {' and '.join(learned_from(kind.needs))}{estimated}."
    call.__doc__ = f"{kind.label}: {kind.sentence}.\n\n{corrects}{learns}"
    return made(kind.name, call, MethodCommand)


def _useless(kind: type[Method], model: type[Model]) -> set[str]:
    """The options of the command that a method has no use for with this model."""
    from cldrank.methods.needs import uses_clicks

    if not uses_clicks(kind.needs):
        return _CLICKS | _SAFE | _SPARK
    return (set() if kind.blends else _SAFE) | (set() if kind.way in model.remote_ways else _SPARK)


def _model_option(kind: type[Method]) -> Option:
    from cldrank.methods.registry import usable_models

    names = list(usable_models(kind))
    text = f"The model to fit; --help shows its options. [default: {names[0]}]"
    shown = typer.Option("--model", metavar="|".join(names), help=text, show_default=False, hidden=len(names) < 2)
    return Option("model", Option.KEYWORD_ONLY, default=None, annotation=Annotated[str | None, shown])


def _settings(kind: type[Method], model: type[Model]) -> Settings:
    """What can be set of the method, the model and the run, by name, each with the title of its panel."""
    from cldrank.models import Run
    from cldrank.parameters import parameters

    unused = {"model", "run", *kind.unheeded(model)}
    settings: dict[str, tuple[Parameter, str]] = {}
    for owner, panel in ((kind, "Method"), (model, f"Model: {model.name}"), (Run, "Run")):
        for name, parameter in parameters(owner).items():
            if parameter.option and name not in unused:
                settings.setdefault(name, (parameter, panel))
    return settings


def _explain(name: str, spelled: str, model: str | None) -> None:
    """Refuse an option that other methods or models have, and say why this one does not have it."""
    from cldrank.methods import methods
    from cldrank.methods.needs import uses_clicks
    from cldrank.methods.registry import configured, usable_models
    from cldrank.models import Run, models

    kind, setting = methods()[name], _SHORT.get(spelled, spelled.lstrip("-").removeprefix("no-").replace("-", "_"))
    fitted = type(configured(kind, {"model": model}).model)
    if setting in _CLICKS | _SAFE and not uses_clicks(kind.needs):
        raise UsageError(f"{name} learns from labels, not from clicks; leave {spelled} out.")
    if setting in _SAFE:
        raise UsageError(f"{name} cannot be blended with production; leave {spelled} out.")
    if setting in _SPARK:
        reason = f"{kind.label} with {fitted.label} cannot learn from features on Spark"
        raise UsageError(f"{reason}; leave {spelled} out. Linear models can, but for CLD-pair.")
    others = [other for other, known in usable_models(kind).items() if setting in _settings(kind, known)]
    if others:
        raise UsageError(f"{spelled} is not for {fitted.label}; choose --model {others[0]}.")
    if _is_option(setting, Run, *models().values()):
        raise UsageError(f"{name} has no use for {spelled}; leave it out.")
    owners = [other.name for other in methods().values() if _is_option(setting, other)]
    if owners:
        raise no_option(name, spelled, owners)


def _is_option(name: str, *owners: type) -> bool:
    """Whether a setting is an option of one of them."""
    from cldrank.parameters import parameters

    return any(name in parameters(owner) and parameters(owner)[name].option for owner in owners)
