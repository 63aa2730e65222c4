"""Commands: frozen dataclasses whose fields are options, with a method `run`; groups of options are their bases.

What a class of the library declares as its parameters becomes options, too. All values are texts that
`Parameter.parse` reads, so that all commands refuse values in the same words.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, dataclass_transform, get_args, get_origin, get_type_hints

import click

from cldrank.cli.option_names import dashed, remember_command
from cldrank.errors import UsageError
from cldrank.wording import listed

if TYPE_CHECKING:
    from cldrank.parameters import Parameter

Kind = TypeVar("Kind", bound=type)
_KEY = "cldrank"
_NAMES_WIDTH = 31  # columns of a help text for the names of options and what stands for their values


class Option(click.Option):
    """An option, in a panel of the help or among the others; a command gets only the options given."""

    def __init__(self, names: list[str], about: str, panel: str | None = None, **described: Any) -> None:
        if not described.get("required"):  # a default of None would count as given
            described["default"] = None
        super().__init__(names, help=about, **described)
        self.panel = panel


class Argument(click.Argument):
    """An argument that help describes."""

    def __init__(self, name: str, usage: str, about: str, *, many: bool, required: bool, typed: _Typed) -> None:
        shown = usage + "..." * many
        shown = shown if required else f"[{shown}]"
        described: dict[str, Any] = {} if required else {"default": None}  # of None: as if given
        super().__init__([name], metavar=shown, nargs=-1 if many else 1, required=required, type=typed, **described)
        self.usage, self.about = usage, about + "  [required]" * required


# -- fields --------------------------------------------------------------------------------------------------------


def option(usage: str, about: str, default: Any = None, panel: str | None = None, **bounds: float) -> Any:
    """A field that is an option; if its default is `...`, the option is required.

    usage    as help writes it: "-o FILE", with its long name if that is not the name of the field
    bounds   `min`, `above`, `max` and `below` of a number
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


def field_options(kind: type) -> list[click.Parameter]:
    """The options of a class, from its fields, panel by panel; other fields are left out."""
    hints = get_type_hints(kind)
    entries = [entry for entry in fields(kind) if _KEY in entry.metadata]
    entries.sort(key=lambda entry: (entry.metadata[_KEY][3] is not None, entry.name == "as_json"))
    return [_field_option(entry, hints[entry.name]) for entry in entries]


def _field_option(entry: Any, hint: Any) -> click.Parameter:
    is_argument, usage, about, panel, bounds = entry.metadata[_KEY]
    hint = get_args(hint)[0] if type(None) in get_args(hint) else hint  # X of X | None
    required, many = entry.default is MISSING, get_origin(hint) is list
    typed = _Typed(entry.name, hint, bounds)
    if not required and entry.default is not None and hint is not bool:
        about += f"  [default: {entry.default}]"
    if is_argument:
        return Argument(entry.name, usage, about, many=many, required=required, typed=typed)
    names = [word for word in usage.split() if word.startswith("-")]
    metavar = next((word for word in usage.split() if word not in names), None)
    names = names if any(name.startswith("--") for name in names) else [dashed(entry.name), *names]
    if hint is bool:
        return Option([entry.name, *names], about, panel, is_flag=True)
    return Option([entry.name, *names], about, panel, metavar=metavar, type=typed, multiple=many, required=required)


class _Typed(click.ParamType):  # type: ignore[type-arg]
    """Texts as values of a field."""

    name = "value"

    def __init__(self, field_name: str, hint: Any, bounds: Mapping[str, float]) -> None:
        self._name, self._hint, self._bounds = field_name, hint, bounds

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value that a text stands for."""
        del param, ctx
        from cldrank.arguments import Bounds
        from cldrank.parameters import Parameter

        bounds = Bounds(**{{"min": "least", "max": "most"}.get(name, name): end for name, end in self._bounds.items()})
        own = Parameter(self._name, self._hint, None, "", bounds)
        if Path in own.kinds:
            return Path(value)
        return value if str in own.kinds or list[str] in own.kinds else own.parse(value)


# -- parameters of classes -----------------------------------------------------------------------------------------


def option_of(
    parameter: Parameter, panel: str | None = None, owners: Iterable[str] = (), metavar: str | None = None
) -> Option:
    """The option of a parameter; `owners` names the classes that have it, where not all do."""
    spelled = dashed(parameter.name)
    whose = ", ".join(f"`{owner}`" for owner in owners)
    about = f"{whose}: {parameter.about}." if whose else f"{parameter.about[0].upper()}{parameter.about[1:]}."
    default = parameter.default
    if default not in (None, ()) and not isinstance(default, bool):
        about += f" [default: {','.join(map(str, default)) if isinstance(default, tuple) else default}]"
    if bool in parameter.kinds:
        return Option([parameter.name, f"{spelled}/--no-{spelled[2:]}"], about, panel)
    return Option([parameter.name, spelled], about, panel, metavar=metavar or parameter.metavar)


def owned(kinds: Mapping[str, type]) -> dict[str, tuple[Parameter, list[str]]]:
    """The parameters that are options, by name, with the names of the classes that have them."""
    from cldrank.parameters import parameters

    known: dict[str, tuple[Parameter, list[str]]] = {}
    for owner, kind in kinds.items():
        for name, parameter in parameters(kind).items():
            if parameter.option:
                known.setdefault(name, (parameter, []))[1].append(owner)
    return known


def options_of(kinds: Mapping[str, type], panel: str | None = None, panel_of_some: str | None = None) -> list[Option]:
    """The options of classes, given by name: first those of all classes, then those of some."""
    every = owned(kinds).values()
    shared = [option_of(parameter, panel) for parameter, owners in every if len(owners) == len(kinds)]
    rest = [(parameter, owners) for parameter, owners in every if len(owners) < len(kinds)]
    return shared + [option_of(parameter, panel_of_some or panel, owners) for parameter, owners in rest]


def choice(name: str, sentences: Mapping[str, str], default: str) -> Parameter:
    """A parameter whose value is a word of `sentences`, which describe each word without a full stop."""
    from cldrank.parameters import Parameter

    about = ". ".join(f"`{word}`: {sentence}" for word, sentence in sentences.items())
    return Parameter(name, Literal[tuple(sentences)], default, about)


def parsed(declared: Mapping[str, Parameter], values: Mapping[str, Any]) -> dict[str, Any]:
    """The parsed values of the declared parameters that were given."""
    given = {name: value for name, value in values.items() if name in declared and value is not None}
    return {name: declared[name].parse(value) if isinstance(value, str) else value for name, value in given.items()}


def built(kinds: Mapping[str, type], name: str, values: Mapping[str, Any], said: str | None = None) -> Any:
    """An object of the class `kinds[name]` from the given options; options of the other classes are refused.

    said    the name of the class in that refusal; by default `name`
    """
    from cldrank.parameters import parameters

    own = parameters(kinds[name])
    for key, (_, owners) in owned(kinds).items():
        if key not in own and values.get(key) is not None:
            have = "has" if len(owners) == 1 else "have"
            raise UsageError(f"{said or name} has no option {dashed(key)}; {listed(owners)} {have} it.")
    return kinds[name](**parsed(own, values))


# -- commands ------------------------------------------------------------------------------------------------------


class Shell(click.Command):
    """What commands and groups share: help in two columns, and messages that name their options."""

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        """The names of the help option, in every command the same."""
        del ctx
        return ["-h", "--help"]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse options; messages may name them from now on."""
        remember_command(self)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # whose help is to be read
            raise

    def format_help(self, ctx: click.Context, formatter: Any) -> None:
        """Print usage, description, and the options by panel."""
        del formatter
        from rich.console import Group
        from rich.markdown import Markdown
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        from cldrank.cli.output import SafeConsole

        panels: dict[str, list[tuple[str, Any]]] = {}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, Argument):
                panels.setdefault("Arguments", []).append((parameter.usage, Text(parameter.about)))
            elif (record := parameter.get_help_record(ctx)) is not None:  # else it is hidden
                panel = getattr(parameter, "panel", None) or "Options"
                panels.setdefault(panel, []).append((record[0], Text(record[1])))
        group: Any = self
        for name in group.list_commands(ctx) if isinstance(self, click.Group) else ():
            about = (group.get_command(ctx, name).help or "").partition("\n\n")[0]
            panels.setdefault("Commands", []).append((name, Markdown(about)))
        parts: list[Any] = [Text(self.get_usage(ctx)), Text(""), Padding(Markdown(self.help or ""), (0, 0, 0, 2))]
        for title in sorted(panels, key=lambda title: (title != "Arguments", title != "Options")):
            table = Table.grid(padding=(0, 2, 0, 0))
            table.add_column(max_width=_NAMES_WIDTH, overflow="fold")
            table.add_column()
            for name, content in panels[title]:
                table.add_row(Text(name), content)
            parts += [Text(""), Text(title, style="bold"), Padding(table, (0, 0, 0, 2))]
        if self.epilog:
            parts += [Text(""), Markdown(self.epilog)]
        SafeConsole(highlight=False, emoji=False).print(Group(*parts))


class ShellCommand(Shell):
    """The command that a class declares: it builds an object from the given options, and runs it.

    kind     `PipelineRunCommand` is called `run`
    derive   makes further options late, since their classes import much; their values go to `settings`
    """

    def __init__(self, kind: type[Any], derive: Callable[[], list[Option]] | None = None) -> None:
        *_, word, _ = re.findall("[A-Z][a-z]+", kind.__name__)
        self._own = field_options(kind)
        self._kind, self._derive = kind, derive
        super().__init__(word.lower(), params=[*self._own], help=inspect.getdoc(kind), callback=self._run)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """All options."""
        if self._derive is not None:
            self.params, self._derive = [*self._own, *self._derive()], None
        return super().get_params(ctx)

    def _run(self, **values: Any) -> None:
        known = given(values)
        own = {option.name: known.pop(option.name) for option in self._own if option.name in known}
        self._kind(**own, **({"settings": known} if known else {})).run()


def given(values: Mapping[str, Any]) -> dict[Any, Any]:
    """The values of options that were given."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value is not None and value != ()
    }


class ShellGroup(Shell, click.Group):
    """A group of commands; called without any, it prints its help."""

    def __init__(self, about: str, commands: Mapping[str, click.Command], **more: Any) -> None:
        super().__init__(commands=dict(commands), help=inspect.cleandoc(about), **more)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order in which they were named."""
        del ctx
        return list(self.commands)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what comes before the command."""
        return super().parse_args(ctx, args or ["--help"])


def group_of(about: str, *kinds: type[Any], derive: Callable[[], list[Option]] | None = None) -> ShellGroup:
    """A group of some commands."""
    commands = [ShellCommand(kind, derive=derive) for kind in kinds]
    return ShellGroup(about, {str(command.name): command for command in commands})
