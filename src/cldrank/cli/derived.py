"""Commands whose options are derived: what a class declares as its parameters is what the shell offers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperGroup

from cldrank.errors import UsageError, setting

if TYPE_CHECKING:
    from cldrank.parameters import Parameter

Command = Callable[..., None]


def lazy_group(makers: Mapping[str, Callable[[], Command]]) -> type[TyperGroup]:
    """A group with commands that are made when one of them is looked at: the classes behind them import much."""

    @cache
    def made(name: str) -> Any:
        app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
        app.command(name)(makers[name]())
        return typer.main.get_command(app)

    class LazyGroup(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:
            return [*makers, *super().list_commands(ctx)]

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            return made(cmd_name) if cmd_name in makers else super().get_command(ctx, cmd_name)

    return LazyGroup


def with_options(command: Command, options: Iterable[inspect.Parameter]) -> Command:
    """The command with the options that its `**settings` stand for; one of the same name as its own replaces that."""
    derived = {one.name: one for one in options}
    own = [
        derived.pop(one.name, one).replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for one in inspect.signature(command, eval_str=True).parameters.values()
        if one.kind is not inspect.Parameter.VAR_KEYWORD
    ]

    def called(**settings: Any) -> None:
        command(**settings)

    called.__doc__ = command.__doc__
    called.__signature__ = inspect.Signature([*own, *derived.values()])  # type: ignore[attr-defined]
    return called


def option(name: str, kind: Any, default: Any = None, decl: str | None = None, **described: Any) -> inspect.Parameter:
    """An option of a type; by default None, which leaves the value to the class."""
    shown = typer.Option(decl or f"--{name.replace('_', '-')}", **described)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, shown])


def choice(name: str, words: Iterable[str]) -> Any:
    """A type for an option that is one of some words."""
    return StrEnum(name, {word: word for word in words})


def option_of(one: Parameter, users: Sequence[str] = ()) -> inspect.Parameter:
    """The option of a parameter; `users` names the methods that have it, where not all do."""
    default = "" if one.default is None or isinstance(one.default, bool) else f" ({one.default})"
    whose = f"{', '.join(f'`{user}`' for user in users)}: " if users else ""
    kind = one.kinds[0]
    described: dict[str, Any] = {"help": f"{whose}{one.about}{default}.", "show_default": False}
    if users:
        described["rich_help_panel"] = "Options of some methods"
    if one.choices:
        kind = choice(one.name, one.choices)
    elif kind in (int, float):
        described |= {"min": one.bounds.least, "max": one.bounds.most}
    if kind is bool:
        spelled = one.name.replace("_", "-")
        return option(one.name, bool | None, decl=f"--{spelled}/--no-{spelled}", **described)
    return option(one.name, kind | None, **described)


def options_of(kinds: Mapping[str, type]) -> list[inspect.Parameter]:
    """The options of all parameters of some classes, given by name; those of a few classes say whose they are."""
    from cldrank.parameters import parameters

    users: dict[str, list[str]] = {}
    declared: dict[str, Parameter] = {}
    for name, kind in kinds.items():
        for one in parameters(kind).values():
            if one.option:
                users.setdefault(one.name, []).append(name)
                declared.setdefault(one.name, one)
    shared = [name for name in declared if len(users[name]) == len(kinds)]
    rest = [name for name in declared if name not in shared]
    return [
        *(option_of(declared[name]) for name in shared),
        *(option_of(declared[name], users[name]) for name in rest),
    ]


def field_options(kind: type) -> list[inspect.Parameter]:
    """The options that the fields of a dataclass are annotated with."""
    hints = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(
            entry.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if entry.default is MISSING else entry.default,
            annotation=hints[entry.name],
        )
        for entry in fields(kind)
    ]


def given_settings(method: str, kind: type, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that the options set, as Python values; those that the class does not have are refused."""
    from cldrank.parameters import parameters

    given = {name: str(one) if isinstance(one, StrEnum) else one for name, one in settings.items() if one is not None}
    for name in given:
        if name not in parameters(kind):
            raise UsageError("{} has no option {}.", method, setting(name))
    return given
