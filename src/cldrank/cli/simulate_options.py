"""The options of `cldrank simulate` that choose and set a click model and a policy: made from their own parameters.

They are made when the command is called, not when the command line starts: the models import NumPy.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_origin

import typer
from typer.core import TyperCommand

from cldrank.errors import UsageError, setting
from cldrank.wording import listed

if TYPE_CHECKING:
    from cldrank.clicks.simulate import ClickModel, Policy
    from cldrank.clicks.simulate.described import Ingredient
    from cldrank.parameters import Parameter


class Chosen(NamedTuple):
    """The click model and the policy that the options describe."""

    model: ClickModel
    policy: Policy


class SimulateCommand(TyperCommand):
    """A command with derived options; the context's `obj` holds their values, for `chosen_parts`."""

    derived: tuple[str, ...] = ()

    def get_params(self, ctx: Any) -> list[Any]:
        """The declared parameters, and those of models and policies."""
        if not self.derived:
            more = _derived_options()
            self.derived = tuple(one.name for one in more)
            self.params = [*more, *self.params]
        return super().get_params(ctx)

    def invoke(self, ctx: Any) -> Any:
        """Call the command without the derived values, which it finds in the context."""
        ctx.obj = {name: ctx.params.pop(name) for name in self.derived}
        return super().invoke(ctx)


def chosen_parts(values: dict[str, Any]) -> Chosen:
    """The model and the policy that were chosen, with the parameters that were given."""
    from cldrank.clicks.simulate.models import MODELS
    from cldrank.clicks.simulate.policies import POLICIES

    return Chosen(_built("model", MODELS, values), _built("policy", POLICIES, values))


def _built(choice: str, kinds: Sequence[Callable[..., Any]], values: dict[str, Any]) -> Any:
    """A value of the kind that was chosen; parameters of other kinds are refused."""
    from cldrank.parameters import parameters

    kind: Any = next(kind for kind in kinds if kind.name == values[choice])  # type: ignore[attr-defined]
    own = parameters(kind)
    others = {name for other in kinds for name in parameters(other)} - set(own)  # type: ignore[arg-type]
    foreign = [name for name in values if name in others and values[name] is not None]
    if foreign:
        takes = listed(setting(name).shell for name in own) or "no options"
        raise UsageError(
            "{} does not belong to {}, which takes {}.", setting(foreign[0]), setting(choice, kind.name), takes
        )
    given = {name: values[name] for name in own if values[name] is not None}
    return kind(**{name: _parsed(own[name], value) for name, value in given.items()})


def _derived_options() -> list[Any]:
    """--model and --policy with an option for each of their parameters, as typer makes them."""
    from cldrank.clicks.simulate.models import MODELS
    from cldrank.clicks.simulate.policies import POLICIES

    signature = [*_options_of("model", MODELS, "Who clicks"), *_options_of("policy", POLICIES, "What is shown")]

    def declared() -> None:
        """Never called."""

    declared.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    declared.__annotations__ = {one.name: one.annotation for one in signature}
    app = typer.Typer(add_completion=False)
    app.command()(declared)
    return typer.main.get_command(app).params


def _options_of(choice: str, kinds: Sequence[type[Ingredient]], panel: str) -> list[inspect.Parameter]:
    from cldrank.parameters import parameters

    names = tuple(kind.name for kind in kinds)
    about = " ".join(f"`{kind.name}`: {kind.about}." for kind in kinds)
    option = typer.Option(help=about, rich_help_panel=panel, metavar=choice.upper())
    found = [_keyword(choice, Literal[names], option, names[0])]
    owners: dict[str, list[str]] = {}
    declared: dict[str, Parameter] = {}
    for kind in kinds:
        for one in parameters(kind).values():
            owners.setdefault(one.name, []).append(kind.name)
            declared[one.name] = one
    for name, one in declared.items():
        default = "" if one.default is None else f" [default: {one.default}]"
        about = f"{', '.join(owners[name])}: {one.about}.{default}"
        option = typer.Option(help=about, rich_help_panel=panel, metavar="NUMBERS" if _is_list(one) else None)
        found.append(_keyword(name, _typed(one) | None, option, None))
    return found


def _keyword(name: str, kind: Any, option: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])


def _is_list(one: Parameter) -> bool:
    return any(get_origin(kind) is tuple for kind in one.kinds)


def _typed(one: Parameter) -> Any:
    """The type of an option; several numbers are text with commas."""
    return str if _is_list(one) else Literal[one.choices] if one.choices else one.kinds[0]


def _parsed(one: Parameter, value: Any) -> Any:
    """The value of a parameter from that of its option."""
    if not _is_list(one):
        return value
    numbers = tuple(parsed_number(part, one.name) for part in value.split(","))
    if float in one.kinds:
        return numbers if len(numbers) > 1 else numbers[0]
    return tuple(int(entry) if entry.is_integer() else entry for entry in numbers)


def parsed_number(text: str, name: str) -> float:
    """A number such as 100000 or 1e5."""
    try:
        return float(text)
    except ValueError:
        raise UsageError("{} {!r} is not a number; write it as 100000 or 1e5.", setting(name), text) from None
