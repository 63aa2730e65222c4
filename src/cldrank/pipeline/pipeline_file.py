"""`PipelineDefinition`: what a pipeline file says, every key checked before anything is read.

Keys that are options of a function or parameters of a class are taken from there: a new option of `aggregate`, or a new
parameter of a method, works in pipeline files without a change here.
"""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_type_hints

from cldrank import catalogue
from cldrank.arguments import check_whole, shortened
from cldrank.clicks.aggregate import aggregate
from cldrank.clicks.days import n_days
from cldrank.clicks.log.layout import LogLayout
from cldrank.data.loading import load
from cldrank.decoding import check_keys, check_plain, decode, decode_word, keys_of
from cldrank.errors import CldrankError, FormatError, UsageError
from cldrank.evaluation.click_measures import parse_click_measures
from cldrank.evaluation.decision_rule import Decision
from cldrank.evaluation.experiment_planning import ONLINE_CONFIDENCE
from cldrank.evaluation.judge import Estimator
from cldrank.export.format import format_named
from cldrank.fingerprints import file_fingerprint
from cldrank.methods.needs import uses_clicks
from cldrank.methods.registry import configured, default_model, methods, settings_of, usable_models
from cldrank.models import Run
from cldrank.parameters import Value, parameter, parameters, value, with_role
from cldrank.propensity import Propensities, PropensityEstimator, estimators
from cldrank.reading import reading

AUTO = "auto"  # of methods, what suits the log
USERS = "exclude_users"  # the option that names a file of users
_NOT_LOADING = ("name", "cache")  # of `load`: they do not decide what is read
_NOT_READING = ("counted", "days", "layout", "threads")  # of `aggregate`: decided elsewhere
_WHERE = ("engine", "master", "memory_limit")  # of `aggregate`: the result does not depend on them


# -- sections ------------------------------------------------------------------------------------------------------


@value
class LogSettings(Value):
    """The click log. Options of `cldrank clicks aggregate` may stand here, with _ for -: first_position = 0, say."""

    files: tuple[str, ...] = parameter(default=(), about="files, folders or patterns of the log")


@value
class FeatureSettings(Value):
    """The candidates of each query, with their features. Options of loading may stand here: missing = 0, say."""

    files: tuple[str, ...] = parameter(default=(), about="LETOR or Parquet files, a folder, a pattern, a data set")


@value
class RatingSettings(Value):
    """Ratings beside the clicks, by people or machines: priors of training targets, and evidence of the verdict."""

    file: str = parameter(default="", about="Parquet, CSV, Quepid's CSV or TREC qrels; empty: no ratings")
    people: tuple[str, ...] = parameter(default=(), about="the raters that are people; all others are machines")


@value
class AuditSettings(Value):
    """The first gate: is the log fit to be learned from?"""

    stop_at: Literal["blocking", "warning", "never"] = parameter(
        default="blocking", about="the mildest verdict of the audit that stops the run"
    )


@value
class WindowSettings(Value):
    """Which part of the log is learned from."""

    last: str = parameter(default="", about='the last days of the log, such as "28d"; empty: all of it')
    depth: int | None = parameter(default=None, least=1, about="treat every page as if it ended at this position")


@value
class CurveSettings(Value):
    """How likely each position is to be examined: estimated, assumed, or read from a file."""

    method: str = parameter(default="auto", about="an estimator by name; auto: the best founded that the log supports")
    assume: str = parameter(default="", about='a curve to take for granted, such as "power:1.0"')
    file: str = parameter(default="", about="a file that `cldrank propensity estimate` wrote")
    segment: str = parameter(default="", about="a column of the log, such as device: a curve for each of its values")
    clip: float | None = parameter(default=None, above=0, most=1, about="raise smaller propensities to this")


@value
class TrainSettings(Value):
    """What is trained. Parameters of the method, its model and its run go beside these keys."""

    method: str = parameter(default="cld", about="as in `cldrank train METHOD`; auto: what suits the log")
    model: str = parameter(default="", about="the model to fit; empty: the method's own")
    hold_out: float = parameter(default=0.2, above=0, below=1, about="the share of queries that the verdict judges by")
    safe: bool = parameter(default=False, about="depart from production only as far as held-out clicks support")
    safe_margin: float = parameter(
        default=0.01, least=0, below=1, about="the share of production's DCG to lose at most"
    )
    production_feature: str = parameter(default="", about="the feature that is production's score, for safe")


@value
class VerdictSettings(Value):
    """The second gate: is the ranker better than the log's order, by clicks on queries that it was not trained on?"""

    ship_if: tuple[Decision, ...] = parameter(default=("better",), about="the verdicts that let a ranker pass")
    measures: tuple[str, ...] = parameter(default=(), about="such as DCG@5; the first decides; none: the usual ones")
    margin: float | None = parameter(default=None, least=0, about="the smallest difference that matters")
    confidence: float = parameter(default=0.9, above=0, below=1, about="of the intervals")
    estimator: Estimator = parameter(default="doubly-robust", about="affine: without a model of never-shown results")
    trust_propensity: bool = parameter(default=False, about="take an assumed curve for known, even against the log")


@value
class OnlineSettings(Value):
    """The log of an experiment that tests the ranker: where the verdict cannot tell, it decides, and it may object.

    Options of reading may stand here, as in [log].
    """

    files: tuple[str, ...] = parameter(default=(), about="files, folders or patterns of its log; none: no experiment")
    measure: str = parameter(
        default="", about='what decides, such as "clicks"; empty: as `cldrank online analyse` has it'
    )
    margin: float | None = parameter(default=None, least=0, about="the smallest difference that matters, per page")
    confidence: float = parameter(
        default=ONLINE_CONFIDENCE, above=0, below=1, about="of the intervals, all looks together"
    )
    planned: float = parameter(default=10_000.0, above=0, about="how many pages are planned, fixed before")


@value
class ExportSettings(Value):
    """Where a ranker goes that passed both gates. Two tables may follow: versions of engines, other names of features.

    [export.versions]
    opensearch = "3.6"

    [export.rename]
    f1 = "title_bm25"
    """

    to: tuple[str, ...] = parameter(default=(), about="formats, as `cldrank export --to` names them")
    folder: str = parameter(default="shipped", about="the folder that holds what is in production, replaced as a whole")
    name: str = parameter(default="cldrank", about="what the engines are to call the model")
    approximate: bool = parameter(default=False, about="write what a format cannot say as nearly as it can")


@value
class RunsSettings(Value):
    """Where runs are kept."""

    folder: str = parameter(default="runs", about="a folder per run, and the results of steps, which runs share")
    keep: int = parameter(default=30, least=1, about="runs to keep, with the results that they refer to")


# -- the whole -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PipelineDefinition:
    r"""All that a pipeline file says.

    source, text   the file and what it holds; paths in it are relative to its folder
    seed           of whatever draws
    options        by section, the keys that other functions and classes declare

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "pipeline.toml"
    ...     _ = file.write_text('seed = 3\nlog.files = "log.csv"\nfeatures.files = "train.txt"')
    ...     pipeline = read_pipeline(file)
    >>> pipeline.seed, pipeline.log.files
    (3, ('log.csv',))
    """

    source: Path
    text: str
    seed: int
    options: Mapping[str, Mapping[str, Any]]
    log: LogSettings
    features: FeatureSettings
    ratings: RatingSettings
    audit: AuditSettings
    window: WindowSettings
    propensities: CurveSettings
    train: TrainSettings
    verdict: VerdictSettings
    online: OnlineSettings
    export: ExportSettings
    runs: RunsSettings

    def path(self, named: str) -> Path:
        """A path in the file, relative to the file's folder."""
        return self.source.parent / named

    def paths(self, named: Collection[str]) -> list[str]:
        """Paths and patterns, relative to the file's folder; names of data sets stay as they are."""
        return [name if catalogue.is_reference(name) else str(self.path(name)) for name in named]

    def reading_options(self, function: Callable[..., Any]) -> dict[str, Any]:
        """The options of the log that a function takes."""
        takes = {*_keywords(function), *vars(LogLayout())}
        return {name: option for name, option in self.options["log"].items() if name in takes}


SECTIONS: dict[str, type[Value]] = {  # the tables of a file, in its order
    name: kind
    for name, kind in get_type_hints(PipelineDefinition).items()
    if isinstance(kind, type) and issubclass(kind, Value)
}


def read_pipeline(path: str | Path) -> PipelineDefinition:
    r"""The pipeline that a TOML file describes; refused with the place of what does not fit.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "pipeline.toml"
    ...     _ = file.write_text('log.files = "log.csv"\nfeatures.files = "train.txt"\ntrain.method = "ips"')
    ...     read_pipeline(file).train.method
    'ips'
    """
    file = Path(path)
    if not file.is_file():
        raise UsageError(f"{file}: no such file; `cldrank pipeline new LOG --features FILE` writes one.")
    with reading(file, "a TOML file"):
        text = file.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    try:
        pipeline = _decoded(table, file, text)
        _check(pipeline)
    except FormatError:
        raise
    except CldrankError as error:
        raise FormatError(str(error), path=file) from None
    return pipeline


def _decoded(table: Mapping[str, Any], file: Path, text: str) -> PipelineDefinition:
    check_keys(table, ("seed", *SECTIONS), "")
    check_plain(table)
    seed = check_whole("seed", table.get("seed", 0), least=0)
    sections: dict[str, Any] = {}
    options: dict[str, dict[str, Any]] = {}
    for place, kind in SECTIONS.items():
        section = table.get(place, {})
        if not isinstance(section, Mapping):
            raise UsageError(f"{place} must be a table, [{place}], not {shortened(section)}.")
        own = keys_of(kind)
        check_keys(section, dict.fromkeys([*own, *other_keys(place, section)]), place)
        options[place] = {key: section[key] for key in section if key not in own}
        sections[place] = decode(kind, {key: section[key] for key in section if key in own}, place)
    model = {"model": sections["train"].model} if sections["train"].model else {}
    options["train"] = {"seed": seed, **model, **options["train"]}
    for place in ("log", "online"):
        if isinstance(options[place].get(USERS), str):
            options[place][USERS] = str(file.parent / options[place][USERS])
    return PipelineDefinition(source=file, text=text, seed=seed, options=options, **sections)


def other_keys(place: str, given: Mapping[str, Any]) -> Iterable[str]:
    """The keys of a section that functions and classes declare."""
    if place == "log":
        counting = (name for name in _keywords(aggregate) if name not in _NOT_READING)
        return [*vars(LogLayout()), *counting]
    if place == "online":
        return vars(LogLayout())
    if place == "ratings":
        return ("columns",)
    if place == "features":
        return [name for name in _keywords(load) if name not in _NOT_LOADING]
    if place == "propensities":
        known: dict[str, type[Any]] = {"auto": PropensityEstimator, **estimators()}
        return parameters(known[decode_word(given.get("method", "auto"), list(known), "propensities.method")])
    if place == "train":
        of_one_fit = with_role(Run, "resume", "log")
        word = decode_word(given.get("method", "cld"), [AUTO, *methods()], "train.method")
        if word == AUTO:
            return [name for name in parameters(Run) if name not in of_one_fit]
        kind = methods()[word]
        usable = usable_models(kind)
        named = given.get("model")
        model = usable[decode_word(named, list(usable), "train.model")] if named else type(default_model(kind))
        return [name for name in settings_of(kind, model) if name not in of_one_fit]
    if place == "export":
        return ("rename", "versions")
    return ()


def deciding(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those options of the log that decide what is read, not where and in how much memory; of a file its content.

    >>> deciding({"engine": "spark", "first_position": 0})
    {'first_position': 0}
    """
    own = {name: option for name, option in options.items() if name not in _WHERE}
    return own | ({USERS: file_fingerprint(own[USERS])} if isinstance(own.get(USERS), str) else {})


def _keywords(function: Callable[..., Any]) -> list[str]:
    """The arguments of a function that are given by name alone."""
    every = inspect.signature(function).parameters.values()
    return [argument.name for argument in every if argument.kind is inspect.Parameter.KEYWORD_ONLY]


def _texts(table: Any, place: str) -> None:
    """Refuse anything but a table of names."""
    if not isinstance(table, Mapping) or not all(isinstance(name, str) for name in table.values()):
        raise UsageError(f'{place} must be a table of names, {{ f1 = "title" }}, not {shortened(table)}.')


# -- what does not fit together ------------------------------------------------------------------------------------


def _placed(place: str, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """What a call returns; its refusals name the place in the file."""
    try:
        return function(*arguments, **named)
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None


def _check(pipeline: PipelineDefinition) -> None:
    log, verdict = pipeline.log, pipeline.verdict
    if not log.files:
        raise UsageError('log.files is missing; name the files of the log: log.files = "log.parquet".')
    if not pipeline.features.files:
        raise UsageError('features.files is missing; name the candidates: features.files = "train.parquet".')
    for place in ("log", "online"):
        layout = {name: option for name, option in pipeline.options[place].items() if name in vars(LogLayout())}
        _texts(layout.get("columns", {}), f"{place}.columns")
        _placed(place, LogLayout.of, None, layout)
    _texts(pipeline.options["ratings"].get("columns", {}), "ratings.columns")
    if not pipeline.ratings.file and (pipeline.ratings.people or pipeline.options["ratings"]):
        raise UsageError("ratings.file is missing; name the file of ratings, or leave [ratings] out.")
    if pipeline.window.last:
        _placed("window.last", n_days, pipeline.window.last)
    if verdict.measures:
        _placed("verdict.measures", parse_click_measures, list(verdict.measures), 1 << 30)
    for name in pipeline.export.to:
        _placed("export.to", format_named, name)
    for key in ("rename", "versions"):
        _texts(pipeline.options["export"].get(key, {}), f"export.{key}")
    check_keys(pipeline.options["export"].get("versions", {}), pipeline.export.to, "export.versions")
    if "better" not in verdict.ship_if:
        raise UsageError('verdict.ship_if must let a better ranker pass: ship_if = ["better"], or more verdicts.')
    _check_curve(pipeline)
    _check_training(pipeline)
    if pipeline.path(pipeline.export.folder).resolve() == pipeline.path(pipeline.runs.folder).resolve():
        raise UsageError("export.folder and runs.folder must be two folders.")


def _check_curve(pipeline: PipelineDefinition) -> None:
    """One source of propensities; an estimator is made once to check its parameters."""
    chosen, options = pipeline.propensities, pipeline.options["propensities"]
    ways = [bool(chosen.assume), bool(chosen.file), bool(options) or chosen.method != "auto"]
    if sum(ways) > 1:
        raise UsageError(
            "propensities: choose one of method (to estimate them), assume (a curve) and file; the parameters of an "
            "estimator go with method."
        )
    for curve in chosen.assume.split(",") if chosen.assume else ():
        assumed = curve.rpartition("=")[2].strip()
        if assumed != "none" and not assumed.startswith("power:"):  # no file, whose content would not be an input
            raise UsageError(f'propensities.assume must be "power:1.0", "none" or such, not {assumed!r}.')
        _placed("propensities.assume", Propensities.parse, assumed, 1)
    if chosen.method != "auto":
        estimator = _placed("propensities", estimators()[chosen.method], **options)
        if estimator.bound:
            raise UsageError(f"propensities.method: {chosen.method} finds a lower bound, not a curve; choose another.")


def _check_training(pipeline: PipelineDefinition) -> None:
    """The method, or for auto the run alone, is made once to check its parameters."""
    chosen, options = pipeline.train, pipeline.options["train"]
    if chosen.method == AUTO:
        if chosen.model:
            raise UsageError(f"train.model: auto chooses the model too; leave {chosen.model!r} out, or name a method.")
        _placed("train", Run, **options)
    else:
        method = _placed("train", configured, methods()[chosen.method], dict(options))
        _placed("train", method.check)
        if not uses_clicks(method.required):
            raise UsageError(f"train.method: {chosen.method} learns from labels; a pipeline learns from clicks.")
    if not chosen.safe and (chosen.production_feature or chosen.safe_margin != TrainSettings().safe_margin):
        raise UsageError("train: safe_margin and production_feature are for safe = true.")
