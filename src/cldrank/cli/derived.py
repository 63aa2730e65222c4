"""Commands with derived options: what a class declares as its parameters is what the shell offers.

A derived option is a flag, or a text that `Parameter.parse` reads. So all commands refuse values in the same words.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_type_hints

import typer
from typer.core import TyperCommand

from cldrank.cli.option_names import dashed
from cldrank.errors import UsageError
from cldrank.wording import listed

if TYPE_CHECKING:
    from cldrank.parameters import Parameter

Command = Callable[..., None]
Option = inspect.Parameter


# -- options -------------------------------------------------------------------------------------------------------


def option(name: str, annotation: Any, default: Any = None) -> Option:
    """An option, as a parameter of a command; one without a default is `inspect.Parameter.empty`."""
    return Option(name, Option.KEYWORD_ONLY, default=default, annotation=annotation)


def option_of(
    one: Parameter, panel: str | None = None, owners: Iterable[str] = (), metavar: str | None = None
) -> Option:
    """The option of a parameter; `owners` names the classes that have it, where not all do."""
    spelled = dashed(one.name)
    whose = ", ".join(f"`{owner}`" for owner in owners)
    about = f"{whose}: {one.about}" if whose else f"{one.about[0].upper()}{one.about[1:]}"
    described: dict[str, Any] = {
        "help": f"{about}.{_default(one.default)}",
        "rich_help_panel": panel,
        "show_default": False,
    }
    if bool in one.kinds:
        return option(one.name, Annotated[bool | None, typer.Option(f"{spelled}/--no-{spelled[2:]}", **described)])
    return option(one.name, Annotated[str | None, typer.Option(spelled, metavar=metavar or one.metavar, **described)])


def _default(default: Any) -> str:
    if default is None or isinstance(default, bool):
        return ""
    return f" [default: {','.join(map(str, default)) if isinstance(default, tuple) else default}]"


class Owned(NamedTuple):
    """A parameter, and the names of the classes that have it."""

    parameter: Parameter
    owners: list[str]


def owned(kinds: Mapping[str, type]) -> dict[str, Owned]:
    """The parameters of some classes that are options, by name."""
    from cldrank.parameters import parameters

    found: dict[str, Owned] = {}
    for owner, kind in kinds.items():
        for name, one in parameters(kind).items():
            if one.option:
                found.setdefault(name, Owned(one, [])).owners.append(owner)
    return found


def options_of(kinds: Mapping[str, type], panel: str | None = None, panel_of_some: str | None = None) -> list[Option]:
    """The options of some classes, given by name: first what all of them have, then what some have."""
    found = owned(kinds).values()
    shared = [option_of(one, panel) for one, owners in found if len(owners) == len(kinds)]
    some = [option_of(one, panel_of_some or panel, owners) for one, owners in found if len(owners) < len(kinds)]
    return shared + some


def choice(name: str, sentences: Mapping[str, str], default: str) -> Parameter:
    """A parameter that is one of some words, each described by a sentence without a full stop."""
    from cldrank.parameters import Parameter

    about = ". ".join(f"`{word}`: {sentence}" for word, sentence in sentences.items())
    return Parameter(name, Literal[tuple(sentences)], default, about)


# -- values --------------------------------------------------------------------------------------------------------


def parsed(declared: Mapping[str, Parameter], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of those parameters that were given."""
    given = {name: value for name, value in values.items() if name in declared and value is not None}
    return {name: declared[name].parse(value) if isinstance(value, str) else value for name, value in given.items()}


def built(kinds: Mapping[str, type], name: str, values: Mapping[str, Any], said: str | None = None) -> Any:
    """A value of one of some classes with the parameters that were given; those that others have are refused.

    said    what the class is called in that refusal; by default its name
    """
    from cldrank.parameters import parameters

    own = parameters(kinds[name])
    for key, (_, owners) in owned(kinds).items():
        if key not in own and values.get(key) is not None:
            raise no_option(said or name, dashed(key), owners)
    return kinds[name](**parsed(own, values))


def no_option(name: str, spelled: str, owners: list[str]) -> UsageError:
    """The error for an option that others have."""
    return UsageError(f"{name} has no option {spelled}; {listed(owners)} {'has' if len(owners) == 1 else 'have'} it.")


def taken(kind: type, values: dict[str, Any]) -> Any:
    """A dataclass whose fields are options, from the values of a call, which lose them."""
    return kind(**{entry.name: values.pop(entry.name) for entry in fields(kind) if entry.name in values})


# -- commands ------------------------------------------------------------------------------------------------------


def field_options(kind: type) -> list[Option]:
    """The options that the fields of a dataclass are annotated with."""
    hints = get_type_hints(kind, include_extras=True)
    return [
        option(entry.name, hints[entry.name], Option.empty if entry.default is MISSING else entry.default)
        for entry in fields(kind)
    ]


def with_options(command: Command, derived: Iterable[Option] = ()) -> Command:
    """The command with plain options: a dataclass stands for its fields, `**settings` for derived options.

    A derived option takes the place of a parameter of the same name.
    """
    own = inspect.signature(command, eval_str=True).parameters
    groups: dict[str, Any] = {name: one.annotation for name, one in own.items() if is_dataclass(one.annotation)}
    late = {one.name: one for one in derived}
    plain: list[Option] = []
    for name, one in own.items():
        if name in groups:
            plain += field_options(groups[name])
        elif one.kind is not Option.VAR_KEYWORD:
            plain.append(late.pop(name, one).replace(kind=Option.KEYWORD_ONLY))

    @wraps(command)
    def called(**values: Any) -> None:
        command(**{name: taken(kind, values) for name, kind in groups.items()}, **values)

    called.__signature__ = inspect.Signature([*plain, *late.values()])  # type: ignore[attr-defined]
    return called


def made(name: str, command: Command, cls: type[TyperCommand] = TyperCommand) -> TyperCommand:
    """A command of its own, from a function with the signature of its options."""
    app = typer.Typer(
        add_completion=False, rich_markup_mode="markdown", context_settings={"help_option_names": ["-h", "--help"]}
    )
    app.command(name, cls=cls)(command)
    found = typer.main.get_command(app)
    if not isinstance(found, TyperCommand):
        raise AssertionError("an app of one command is that command")
    return found


def add_command(app: typer.Typer, command: Command, derive: Callable[[], list[Option]]) -> None:
    """Add a command to an app; its derived options are made when they are looked at: their classes import much."""

    class LazyCommand(TyperCommand):
        complete = False

        def get_params(self, ctx: Any) -> list[Any]:
            if not self.complete:
                whole = made(str(self.name), with_options(command, derive()))
                self.params, self.callback, self.complete = whole.params, whole.callback, True
            return super().get_params(ctx)

    app.command(command.__name__, cls=LazyCommand)(with_options(command))
