"""Commands: frozen dataclasses whose fields are options, with a method `run`; groups of options are their bases.

What a class of the library declares as its parameters becomes options, too: flags, or texts that `Parameter.parse`
reads. So all commands refuse values in the same words.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar, dataclass_transform, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from cldrank.cli.option_names import dashed
from cldrank.errors import UsageError
from cldrank.wording import listed

if TYPE_CHECKING:
    from cldrank.parameters import Parameter

Option = inspect.Parameter
Kind = TypeVar("Kind", bound=type)
_KEY = "cldrank"
_NO_BRACES = str.maketrans("", "", "{}")
_NAMES_WIDTH = 31  # columns of a help text for the names of options and what stands for their values


# -- fields --------------------------------------------------------------------------------------------------------


def option(usage: str, about: str, default: Any = None, panel: str | None = None, **bounds: float) -> Any:
    """A field that is an option; one whose default is `...` must be given.

    usage    as help writes it: "-o FILE", with its long name if that is not the name of the field
    bounds   `min` and `max` of a number
    """
    return _field(False, usage, about, default, panel, bounds)


def argument(usage: str, about: str, default: Any = ...) -> Any:
    """A field that is an argument, such as a file to read; `usage` is what help calls it."""
    return _field(True, usage, about, default, None, {})


def _field(is_argument: bool, usage: str, about: str, default: Any, *more: Any) -> Any:
    return field(default=MISSING if default is ... else default, metadata={_KEY: (is_argument, usage, about, *more)})


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(option, argument, field))
def declared(kind: Kind) -> Kind:
    """A command, or a group of options: a frozen class whose fields are options."""
    frozen: Kind = dataclass(frozen=True, kw_only=True)(kind)  # type: ignore[assignment]
    return frozen


def field_options(kind: type) -> list[Option]:
    """The options of a class, from its fields, panel by panel; other fields but typer's context are left out."""
    hints = get_type_hints(kind, include_extras=True)
    entries = [entry for entry in fields(kind) if _KEY in entry.metadata or hints[entry.name] is typer.Context]
    entries.sort(key=lambda entry: (_panel(entry) is not None, entry.name == "as_json"))
    return [_field_option(entry, hints[entry.name]) for entry in entries]


def _panel(entry: Any) -> str | None:
    panel: str | None = entry.metadata[_KEY][3] if _KEY in entry.metadata else None
    return panel


def _field_option(entry: Any, hint: Any) -> Option:
    if hint is typer.Context:
        return Option(entry.name, Option.KEYWORD_ONLY, annotation=hint)
    is_argument, usage, about, panel, bounds = entry.metadata[_KEY]
    names = [word for word in usage.split() if word.startswith("-")]
    described: dict[str, Any] = {
        "metavar": next((word for word in usage.split() if word not in names), None),
        "help": about,
        "show_default": isinstance(entry.default, int | float | str | Path) and not isinstance(entry.default, bool),
    }
    if not is_argument:
        names = names if any(name.startswith("--") for name in names) else [dashed(entry.name), *names]
        described |= {"rich_help_panel": panel, **bounds}
    make: Any = typer.Argument if is_argument else typer.Option
    shown = make(*names, **described)
    return _option(entry.name, Annotated[hint, shown], Option.empty if entry.default is MISSING else entry.default)


def _option(name: str, annotation: Any, default: Any = None) -> Option:
    return Option(name, Option.KEYWORD_ONLY, default=default, annotation=annotation)


# -- parameters of classes -----------------------------------------------------------------------------------------


def option_of(
    parameter: Parameter, panel: str | None = None, owners: Iterable[str] = (), metavar: str | None = None
) -> Option:
    """The option of a parameter; `owners` names the classes that have it, where not all do."""
    spelled = dashed(parameter.name)
    whose = ", ".join(f"`{owner}`" for owner in owners)
    about = f"{whose}: {parameter.about}" if whose else f"{parameter.about[0].upper()}{parameter.about[1:]}"
    default = parameter.default
    if default is not None and not isinstance(default, bool):
        about += f". [default: {','.join(map(str, default)) if isinstance(default, tuple) else default}]"
    else:
        about += "."
    described: dict[str, Any] = {"help": about, "rich_help_panel": panel, "show_default": False}
    if bool in parameter.kinds:
        flag = typer.Option(f"{spelled}/--no-{spelled[2:]}", **described)
        return _option(parameter.name, Annotated[bool | None, flag])
    text = typer.Option(spelled, metavar=metavar or parameter.metavar, **described)
    return _option(parameter.name, Annotated[str | None, text])


class Owned(NamedTuple):
    """A parameter, and the names of the classes that have it."""

    parameter: Parameter
    owners: list[str]


def owned(kinds: Mapping[str, type]) -> dict[str, Owned]:
    """The parameters of some classes that are options, by name."""
    from cldrank.parameters import parameters

    known: dict[str, Owned] = {}
    for owner, kind in kinds.items():
        for name, parameter in parameters(kind).items():
            if parameter.option:
                known.setdefault(name, Owned(parameter, [])).owners.append(owner)
    return known


def options_of(kinds: Mapping[str, type], panel: str | None = None, panel_of_some: str | None = None) -> list[Option]:
    """The options of some classes, given by name: first what all of them have, then what some have."""
    every = owned(kinds).values()
    shared = [option_of(parameter, panel) for parameter, owners in every if len(owners) == len(kinds)]
    rest = [(parameter, owners) for parameter, owners in every if len(owners) < len(kinds)]
    return shared + [option_of(parameter, panel_of_some or panel, owners) for parameter, owners in rest]


def choice(name: str, sentences: Mapping[str, str], default: str) -> Parameter:
    """A parameter that is one of some words, each described by a sentence without a full stop."""
    from cldrank.parameters import Parameter

    about = ". ".join(f"`{word}`: {sentence}" for word, sentence in sentences.items())
    return Parameter(name, Literal[tuple(sentences)], default, about)


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


# -- commands ------------------------------------------------------------------------------------------------------


class _TwoColumns:
    """Help in two columns, so that the options of a method fit on two screens."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What follows the name of a command, without braces around what must be given."""
        return [piece.translate(_NO_BRACES) for piece in super().collect_usage_pieces(ctx)]  # type: ignore[misc]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print usage, description, and the options by panel."""
        del formatter
        from rich.console import Group
        from rich.markdown import Markdown
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        from cldrank.cli.output import SafeConsole

        panels: dict[str, list[tuple[str, Any]]] = {}
        command: Any = self
        for parameter in command.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:  # it is hidden
                continue
            is_option = parameter.param_type_name == "option"
            title = getattr(parameter, "rich_help_panel", None) or ("Options" if is_option else "Arguments")
            name = record[0] if is_option else str(parameter.metavar)
            panels.setdefault(title, []).append((name, Text(record[1])))
        for name in command.list_commands(ctx) if isinstance(command, TyperGroup) else ():
            sentence = (command.get_command(ctx, name).help or "").partition("\n\n")[0]
            panels.setdefault("Commands", []).append((name, Markdown(sentence)))
        about = Markdown(inspect.cleandoc(command.help or ""))
        parts: list[Any] = [Text(command.get_usage(ctx)), Text(""), Padding(about, (0, 0, 0, 2))]
        for title in sorted(panels, key=lambda title: (title != "Arguments", title != "Options")):
            table = Table.grid(padding=(0, 2, 0, 0))
            table.add_column(max_width=_NAMES_WIDTH, overflow="fold")
            table.add_column()
            for name, content in panels[title]:
                table.add_row(Text(name), content)
            parts += [Text(""), Text(title, style="bold"), Padding(table, (0, 0, 0, 2))]
        if command.epilog:
            parts += [Text(""), Markdown(command.epilog)]
        SafeConsole(highlight=False, emoji=False).print(Group(*parts))


class ShellCommand(_TwoColumns, TyperCommand):
    """A command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse options; whatever is refused says of which command, whose help is to be read."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if getattr(error, "ctx", ctx) is None:
                error.ctx = ctx  # type: ignore[attr-defined]
            raise


class ShellGroup(_TwoColumns, TyperGroup):
    """A command with commands of its own."""


def function_of(kind: type[Any], more: Iterable[Option] = (), doc: str | None = None) -> Callable[..., None]:
    """A command as a function for typer; the values of further options go to the field `settings`."""
    own = field_options(kind)
    names, more = {entry.name for entry in own}, list(more)

    def called(**values: Any) -> None:
        given = {name: values.pop(name) for name in list(values) if name in names}
        kind(**given, **({"settings": values} if more else {})).run()

    called.__signature__ = inspect.Signature([*own, *more])  # type: ignore[attr-defined]
    called.__doc__ = doc or kind.__doc__
    return called


def made(name: str, function: Callable[..., None], cls: type[ShellCommand] = ShellCommand) -> ShellCommand:
    """A command of its own, from a function with the signature of its options."""
    app = typer.Typer(
        add_completion=False, rich_markup_mode="markdown", context_settings={"help_option_names": ["-h", "--help"]}
    )
    app.command(name, cls=cls)(function)
    command: Any = typer.main.get_command(app)
    return command  # type: ignore[no-any-return]


def add_command(app: typer.Typer, kind: type[Any], derive: Callable[[], list[Option]] | None = None) -> None:
    """Add a command to an app; `PipelineRunCommand` is `run`.

    derive   gives options that are made late, since their classes import much
    """

    class LazyCommand(ShellCommand):
        complete = derive is None

        def get_params(self, ctx: Any) -> list[Any]:
            if not self.complete and derive is not None:
                whole = made(str(self.name), function_of(kind, derive()))
                self.params, self.callback, self.complete = whole.params, whole.callback, True
            return super().get_params(ctx)

    *_, word, _ = re.findall("[A-Z][a-z]+", kind.__name__)
    app.command(word.lower(), cls=LazyCommand)(function_of(kind))


def group_of(about: str, *kinds: type[Any], derive: Callable[[], list[Option]] | None = None) -> typer.Typer:
    """An app with some commands."""
    app = typer.Typer(cls=ShellGroup, no_args_is_help=True, help=about)
    for kind in kinds:
        add_command(app, kind, derive)
    return app
