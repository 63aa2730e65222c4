"""One sub-command per method, derived from its class: options are the parameters of method, model and run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from cldrank.cli import options
from cldrank.cli.output import working
from cldrank.errors import UsageError

if TYPE_CHECKING:
    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.estimators import Method
    from cldrank.parameters import Parameter
    from cldrank.propensity import AffineClicks, Propensities

_METHOD, _RUN, _READING = "Method", "Run", "Reading files"
Clicks = Annotated[
    list[str] | None,
    typer.Option("--clicks", "-c", metavar="FILE", help="The clicks: a file of cells, or raw logs."),
]
Propensity = Annotated[
    str | None,
    typer.Option(
        "--propensity",
        "-p",
        metavar="WHICH",
        help="Examination probability of each position: power:1.0 for (1/position)^1, none for all alike, or a file "
        "that `cldrank propensity estimate` wrote.",
    ),
]
Depth = Annotated[
    int | None,
    typer.Option("--depth", min=1, help="Treat every page as if it ended after this position.", show_default=False),
]
_EVIDENCE = {"clicks": Clicks, "propensity": Propensity, "depth": Depth}
# An option that reads files, and a shorter help than where reading is all that a command does.
_LOG = {
    "log_column": (options.ClickLogColumns, "Which column of a raw log is `query_id` and so on, where names differ."),
    "first_position": (options.FirstPosition, "The number of the top position in a raw log: 1, unless you say 0."),
    "one_query": (options.OneQuery, "The log has no queries (recommendations)."),
}
_FEATURES = {
    "column": (options.Columns, "Parquet: which column is `query_id` and so on, where names differ."),
    "groups": (options.Groups, "LETOR without qid: file with the rows of each query."),
    "n_features": (options.FeatureCount, "LETOR: how many features there are, if rows leave out the last."),
    "missing": (options.Missing, "Fill in missing values with this instead of refusing them."),
    "cache": (options.Cached, "Keep large files memory-mapped in the cache."),
}
_USUAL = {"one_query": False, "cache": True}
_OF_NETWORKS = ("precision", "checkpoint", "resume", "tensorboard")


@dataclass(frozen=True)
class Chosen:
    """What a command was asked for: a method, and where to find what it learns from."""

    method: Method
    features: list[str]
    clicks: list[str] | None = None
    propensity: str | None = None
    depth: int | None = None
    log: options.LogReading = field(default_factory=options.LogReading)
    reading: options.Reading = field(default_factory=options.Reading)

    def check(self, *, judges: bool = False) -> None:
        """Refuse a method without what it needs before anything is read; `judges`: clicks judge rankers as well."""
        needs = self.method.required
        if needs != "labels" and not self.clicks:
            raise UsageError(f"{self.method.name} learns from clicks; name them with --clicks.")
        if self.propensity is None and (needs in ("propensities", "trust") or (judges and needs != "labels")):
            judged = "" if needs in ("propensities", "trust") else " to judge by held-out clicks"
            trust = ", or what `cldrank propensity estimate --method trust-bias` wrote" if needs == "trust" else ""
            raise UsageError(
                f"{self.method.name} needs the propensities of positions{judged}; name them with --propensity: "
                f"power:1.0, say, or what `cldrank propensity estimate` wrote{trust}."
            )
        if self.propensity is not None and needs == "clicks" and not judges:
            raise UsageError(
                f"{self.method.name} does not use propensities; leave --propensity out, or train a method that "
                "corrects for positions, such as cld or ips."
            )

    def read(self) -> tuple[RankingDataset, ClickTable | None, Propensities | AffineClicks | None]:
        """The dataset, the clicks on it, and the propensities (or slopes and bases) of their positions."""
        from cldrank.clicks.table import ClickTable

        dataset = self.reading.load(self.features)
        if not self.clicks:
            return dataset, None, None
        with working("reading clicks …"):
            named = self.clicks[0] if len(self.clicks) == 1 else self.clicks
            table = ClickTable.read(named, dataset, **self.log.chosen())
        if self.depth is not None:
            if self.depth > table.depth:
                raise UsageError(
                    f"--depth {self.depth} is deeper than the clicks, which reach down to position {table.depth}."
                )
            table = table.first(self.depth)
        found = self._curve(max(table.depth, 1))
        if found is not None and len(found) < table.depth:
            raise UsageError(
                f"{self.propensity} reaches down to position {len(found)}, the clicks to {table.depth}; "
                f"--depth {len(found)} treats pages as if they ended there."
            )
        return dataset, table, found

    def _curve(self, depth: int) -> Propensities | AffineClicks | None:
        from cldrank.cli.propensity_output import load
        from cldrank.propensity import AffineClicks, Propensities

        if self.propensity is None:
            return None
        if Path(self.propensity).is_file():
            found = load(self.propensity)
            if isinstance(found, AffineClicks):
                if self.method.required != "trust":
                    raise UsageError(
                        f"{self.propensity} holds slopes and bases, not propensities; train affine-ips, say, with it."
                    )
                return found
        return Propensities.parse(self.propensity, depth)


# -- deriving commands ---------------------------------------------------------------------------------------------


class MethodCommands(TyperGroup):
    """A command with one sub-command per method, each made when it is called for."""

    action: ClassVar[Callable[..., None]]
    judges: ClassVar[bool] = False

    def list_commands(self, ctx: Any) -> list[str]:
        """All methods."""
        del ctx
        from cldrank.estimators import methods

        return list(methods())

    def get_command(  # type: ignore[override]
        self, ctx: Any, cmd_name: str, model: str | None = None
    ) -> TyperCommand | None:
        """The command of a method; its help shows the options of one model."""
        del ctx
        from cldrank.estimators import methods

        kind = methods().get(cmd_name)
        return None if kind is None else _command(type(self), kind, model)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command, with the options of the model that the call names."""
        name = args[0] if args else ""
        if name.startswith("-"):
            return super().resolve_command(ctx, args)
        from cldrank.estimators import method_named

        method_named(name)  # refuses an unknown one with the nearest there is
        return name, self.get_command(ctx, name, _named_model(args)), args[1:]


def group(action: Callable[..., None], *, judges: bool = False) -> typer.Typer:
    """An app with one command per method, which calls `action(chosen, …)`.

    judges   whether clicks judge rankers, beside teaching them
    """
    kind = type("Commands", (MethodCommands,), {"action": staticmethod(action), "judges": judges})
    app = typer.Typer(
        cls=kind,
        no_args_is_help=True,
        rich_markup_mode="markdown",
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
    own = inspect.signature(commands.action, eval_str=True).parameters
    given = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for name, one in own.items() if name != "chosen"]
    settings = list(_settings(kind, model))
    evidence = _evidence(kind, commands.judges)
    reading = _reading(kind)

    def call(**values: Any) -> None:
        chosen = _chosen(
            kind, {name: values.pop(name) for name in [one.name for one in (*settings, *evidence, *reading)]}
        )
        commands.action(chosen, **values)

    parameters = [*evidence, *given, *settings, *reading]
    ordered = sorted(parameters, key=lambda one: one.default is not inspect.Parameter.empty)
    call.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in ordered}
    call.__doc__ = f"{kind.label}: {kind.sentence}.\n\n{_about(kind)}"
    app = typer.Typer(
        add_completion=False, rich_markup_mode="markdown", context_settings={"help_option_names": ["-h", "--help"]}
    )
    app.command(kind.name)(call)
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
    if kind.needs == "labels":
        wanted: dict[str, Any] = {}
    else:
        from cldrank.parameters import parameters

        curve = judges or kind.needs != "clicks" or "position_correction" in parameters(kind)
        wanted = {name: option for name, option in _EVIDENCE.items() if curve or name != "propensity"}
    features = inspect.Parameter("features", inspect.Parameter.KEYWORD_ONLY, annotation=options.Features)
    return [features, *(_parameter(name, option, _USUAL.get(name)) for name, option in wanted.items())]


def _reading(kind: type[Method]) -> list[inspect.Parameter]:
    """The options that say how files are to be read."""
    wanted = {**({} if kind.needs == "labels" else _LOG), **_FEATURES}
    return [_parameter(name, _shortened(*entry), _USUAL.get(name)) for name, entry in wanted.items()]


def _settings(kind: type[Method], chosen: str | None) -> Iterator[inspect.Parameter]:
    """The options of the method, of its models and of the run; those of models that are not chosen are hidden."""
    from cldrank.estimators.registry import usable_models
    from cldrank.models import Run
    from cldrank.parameters import parameters

    usable = usable_models(kind)
    names = list(usable)
    shown = chosen if chosen in usable else names[0]
    if len(usable) > 1:
        text = f"What is fitted. With --help, the options of that model. [default: {names[0]}]"
        option = typer.Option("--model", metavar="|".join(names), help=text, show_default=False)
        yield _parameter("model", Annotated[str | None, option], None)
    seen = {"model", "run"}
    sources: list[tuple[type[Any], str, bool]] = [(kind, _METHOD, False)]
    sources += [(one, f"Model: {name}", name != shown) for name, one in usable.items()]
    torch = usable[shown].needs is not None or kind.way == "fit_pairs"
    unused = () if torch else _OF_NETWORKS if kind.way == "fit_points" else (*_OF_NETWORKS, "device")
    for owner, panel, hidden in [*sorted(sources, key=lambda source: source[2]), (Run, _RUN, False)]:
        for name, one in parameters(owner).items():
            if one.option and name not in seen:
                seen.add(name)
                yield _parameter(name, _option(one, panel, hidden or name in unused), None)


def _option(one: Parameter, panel: str, hidden: bool) -> Any:
    spelled = f"--{one.name.replace('_', '-')}"
    if bool in one.kinds:
        option = typer.Option(f"{spelled}/--no-{spelled[2:]}", help=_help(one), rich_help_panel=panel, hidden=hidden)
        return Annotated[bool | None, option]
    option = typer.Option(
        spelled, metavar=one.metavar, help=_help(one), rich_help_panel=panel, hidden=hidden, show_default=False
    )
    return Annotated[str | None, option]


def _help(one: Parameter) -> str:
    text = f"{one.about[0].upper()}{one.about[1:]}."
    default = one.default
    if default is None or isinstance(default, bool):
        return text
    shown = ",".join(map(str, default)) if isinstance(default, tuple) else f"{default}"
    return f"{text} [default: {shown}]"


def _shortened(annotated: Any, text: str) -> Any:
    """An option for reading files, with a shorter help."""
    option = annotated.__metadata__[0]
    moved = type(option)(**{**vars(option), "help": text, "rich_help_panel": _READING, "show_default": False})
    return Annotated[annotated.__origin__, moved]


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _chosen(kind: type[Method], values: Mapping[str, Any]) -> Chosen:
    """The method and its evidence from the values of all options."""
    from cldrank.estimators.registry import configured, usable_models
    from cldrank.models import Run
    from cldrank.parameters import parameters

    declared: dict[str, Parameter] = {}
    for owner in (Run, *usable_models(kind).values(), kind):
        declared |= parameters(owner)
    settings = {
        name: declared[name].parse(value) if isinstance(value, str) and name != "model" else value
        for name, value in values.items()
        if name in declared and value is not None
    }
    given = {name: values.get(name) for name in ("clicks", "propensity", "depth")}
    log = options.LogReading(values.get("log_column"), values.get("first_position"), values.get("one_query", False))
    reading = options.Reading(*(values[name] for name in _FEATURES))
    return Chosen(configured(kind, settings), values["features"], **given, log=log, reading=reading)
