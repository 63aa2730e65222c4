"""A sub-command of `cldrank train` per method, with the options that the method and its model use."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from cldrank.cli import options
from cldrank.cli.commands import Option, Shell, ShellGroup, field_options, given, option_of, parsed
from cldrank.errors import UsageError

if TYPE_CHECKING:
    from cldrank.methods import Method
    from cldrank.models import Model
    from cldrank.parameters import Parameter

_SHORT = {"-c": "clicks", "-p": "propensity"}
_CLICKS = {"clicks", "depth", "propensity", "trust_propensity", *(entry.name for entry in fields(options.LogReading))}
_SAFE = {"safe", "safe_margin", "production_feature"}
_SPARK = {entry.name for entry in fields(options.ComputePlace)}


class MethodCommands(ShellGroup):
    """A command with a sub-command per method, each of which runs an `action` with that method, after `others`."""

    def __init__(self, action: type[Any], *others: click.Command) -> None:
        named = {str(command.name): command for command in others}
        super().__init__(action.__doc__ or "", named, options_metavar=None, subcommand_metavar="METHOD [OPTIONS]")
        self._action = action

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The other commands, and all methods."""
        del ctx
        from cldrank.methods import methods

        return [*self.commands, *methods()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        """The command of a method, with the options of its usual model."""
        del ctx
        return self._command(cmd_name, [])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse options before the method, which decides what options there are."""
        if args and args[0].startswith("-") and args[0] not in ("-h", "--help"):
            raise UsageError(f"name the method first: `{ctx.command_path} METHOD {args[0]} …`.")
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str, click.Command, list[str]]:
        """The command, with the options of the model that the call names."""
        del ctx
        return args[0], self._command(args[0], args), args[1:]

    def _command(self, name: str, args: list[str]) -> click.Command:
        from cldrank.methods import method_named
        from cldrank.methods.registry import configured

        if name in self.commands:
            return self.commands[name]
        kind, model = method_named(name), _named_model(args)
        return MethodCommand(self._action, kind, type(configured(kind, {"model": model}).model))


class MethodCommand(Shell):
    """The command of a method with a model; it explains why it lacks an option that others have."""

    def __init__(self, action: type[Any], kind: type[Method], model: type[Model]) -> None:
        from cldrank.methods.needs import TRUST_BIAS, learned_from

        self._action, self._kind, self._model = action, kind, model
        self._settings = _settings(kind, model)
        own = [option for option in field_options(action) if option.name not in _useless(kind, model)]
        derived = [option_of(parameter, panel) for parameter, panel in self._settings.values()]
        corrects = f"Corrects {' and '.join(kind.corrects)} bias. " if kind.corrects else ""
        estimated = f" ({TRUST_BIAS})" if kind.needs == "trust" else ""
        learns = f"Learns from {' and '.join(learned_from(kind.needs))}{estimated}."
        super().__init__(
            kind.name,
            params=[*own, _model_option(kind), *derived],
            help=f"{kind.label}: {kind.sentence}.\n\n{corrects}{learns}",
            callback=self._run,
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse options; an unknown option is refused, with the reason where it is known."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            self._explain(error.option_name)
            raise

    def _run(self, **values: Any) -> None:
        from cldrank.methods.registry import configured

        known = {name: parameter for name, (parameter, _) in self._settings.items()}
        method = configured(self._kind, {"model": values.pop("model"), **parsed(known, values)})
        own = {name: value for name, value in given(values).items() if name not in known}
        self._action(method=method, **own).run()

    def _explain(self, spelled: str) -> None:
        """Refuse an option that other methods or models have, and say so."""
        from cldrank.methods import methods
        from cldrank.methods.registry import usable_models

        setting = _SHORT.get(spelled, spelled.lstrip("-").removeprefix("no-").replace("-", "_"))
        for other, model in usable_models(self._kind).items():
            if setting in _settings(self._kind, model):
                raise UsageError(f"{spelled} is not for {self._model.label}; choose --model {other}.")
        if setting in _CLICKS | _SAFE and _useless(self._kind, self._model) >= _CLICKS:
            raise UsageError(f"{self._kind.name} learns from labels, not from clicks; leave {spelled} out.")
        every = [(kind, model) for kind in methods().values() for model in usable_models(kind).values()]
        if setting in _useless(self._kind, self._model) or any(setting in _settings(*both) for both in every):
            raise UsageError(f"{self._kind.name} has no use for {spelled}; leave it out.")


def _named_model(arguments: list[str]) -> str | None:
    for at, text in enumerate(arguments):
        if text == "--model":
            return arguments[at + 1] if at + 1 < len(arguments) else None
        if text.startswith("--model="):
            return text.partition("=")[2]
    return None


def _useless(kind: type[Method], model: type[Model]) -> set[str]:
    """The options that have no effect for a method with this model."""
    from cldrank.methods.needs import uses_clicks

    if not uses_clicks(kind.needs):
        return _CLICKS | _SAFE | _SPARK
    return (set() if kind.blends else _SAFE) | (set() if kind.way in model.remote_ways else _SPARK)


def _model_option(kind: type[Method]) -> Option:
    from cldrank.methods.registry import usable_models

    names = list(usable_models(kind))
    about = f"The model to fit; --help shows its options. [default: {names[0]}]"
    return Option(["--model"], about, metavar="|".join(names), hidden=len(names) < 2)


def _settings(kind: type[Method], model: type[Model]) -> dict[str, tuple[Parameter, str]]:
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
