"""`PipelineDefinition`: what a pipeline file says, every key checked before anything is read.

Keys that are options of a function or parameters of a class are taken from there: a new option of `aggregate`, or a new
parameter of a method, can be written into a pipeline file without a word here.
"""

from __future__ import annotations

import difflib
import inspect
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from cldrank.arguments import check_whole, shortened
from cldrank.clicks.log.layout import LogLayout
from cldrank.decoding import check_keys, check_plain, decode, keys_of
from cldrank.errors import CldrankError, FormatError, UsageError
from cldrank.parameters import Value, parameters
from cldrank.pipeline.sections import (
    AuditSettings,
    CurveSettings,
    ExportSettings,
    FeatureSettings,
    FormatSettings,
    LogSettings,
    RunsSettings,
    TrainSettings,
    VerdictSettings,
    WindowSettings,
)
from cldrank.reading import reading
from cldrank.wording import listed

Section = TypeVar("Section", bound=Value)
Options = Mapping[str, Any]

AS_SHIPPED = "shipped"  # of verdict.against: whatever export.folder holds
_SECTIONS = (
    "seed", "log", "features", "audit", "window", "propensities", "train", "verdict", "export", "runs",
)  # fmt: skip
_NOT_LOADING = ("name", "cache")  # of `load`: they do not decide what is read
_NOT_READING = ("again", "counted", "days", "layout", "segment", "threads")  # of `aggregate`: decided elsewhere
_WHERE = ("engine", "master", "memory_limit")  # of `aggregate`: the result does not depend on them
_NOT_IMPORTING = ("events", "out", "progress", "queries", "rejects", "threads")  # of `import_log`
_NOT_TRAINING = ("checkpoint", "resume", "tensorboard", "on_epoch", "warm_start")  # of a run: a pipeline sets them


@dataclass(frozen=True)
class PipelineDefinition:
    r"""All that a pipeline file says.

    source, text   the file and what it holds; paths in it are relative to its folder
    seed           of whatever draws
    …_options      keys of a section that other functions and classes declare
    formats        for each format of an export, how it is written, and what its features are called there

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "pipeline.toml"
    ...     _ = file.write_text('seed = 3\nlog.files = "log.csv"\nfeatures.files = "train.txt"')
    ...     found = read_pipeline(file)
    >>> found.seed, found.log.files
    (3, ('log.csv',))
    """

    source: Path
    text: str
    seed: int
    log: LogSettings
    log_options: Options
    features: FeatureSettings
    feature_options: Options
    audit: AuditSettings
    window: WindowSettings
    propensities: CurveSettings
    curve_options: Options
    train: TrainSettings
    train_options: Options
    verdict: VerdictSettings
    export: ExportSettings
    formats: Mapping[str, tuple[FormatSettings, Mapping[str, str]]]
    runs: RunsSettings

    def path(self, named: str) -> Path:
        """A path of the file, seen from where the file lies."""
        return self.source.parent / named

    def paths(self, named: Collection[str]) -> list[str]:
        """Paths and patterns, seen from where the file lies; names of data sets stay as they are."""
        from cldrank.data import catalogue

        return [one if catalogue.is_reference(one) else str(self.path(one)) for one in named]


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
    with reading(file, "a text file in UTF-8"):
        text = file.read_text(encoding="utf-8")
    with reading(file, "a TOML file"):
        table = tomllib.loads(text)
    try:
        return _defined(table, file, text)
    except FormatError:
        raise
    except CldrankError as error:
        raise FormatError(str(error), path=file) from None


def _defined(table: Mapping[str, Any], file: Path, text: str) -> PipelineDefinition:
    check_keys(table, _SECTIONS, "")
    check_plain(table)
    seed = check_whole("seed", table.get("seed", 0), least=0)
    log, log_options = _section(LogSettings, table, "log", _log_keys(table.get("log")))
    features, feature_options = _section(FeatureSettings, table, "features", loading_options())
    export, formats = _export(table.get("export", {}))
    curve, curve_options = _curve(table)
    train, train_options = _train(table, seed)
    found = PipelineDefinition(
        source=file,
        text=text,
        seed=seed,
        log=log,
        log_options=log_options,
        features=features,
        feature_options=feature_options,
        audit=_plain_section(AuditSettings, table, "audit"),
        window=_plain_section(WindowSettings, table, "window"),
        propensities=curve,
        curve_options=curve_options,
        train=train,
        train_options=train_options,
        verdict=_plain_section(VerdictSettings, table, "verdict"),
        export=export,
        formats=formats,
        runs=_plain_section(RunsSettings, table, "runs"),
    )
    _check(found)
    return found


# -- sections ------------------------------------------------------------------------------------------------------


def _plain_section(kind: type[Section], table: Mapping[str, Any], place: str) -> Section:
    return _section(kind, table, place, ())[0]


def _section(
    kind: type[Section], table: Mapping[str, Any], place: str, more: Collection[str]
) -> tuple[Section, dict[str, Any]]:
    """The value of a section, and those of its keys that something else declares."""
    given = table.get(place, {})
    if not isinstance(given, Mapping):
        raise UsageError(f"{place} must be a table, [{place}], not {shortened(given)}.")
    own = keys_of(kind)
    check_keys(given, [*own, *(key for key in more if key not in own)], place)
    rest = {key: value for key, value in given.items() if key not in own}
    return decode(kind, {key: value for key, value in given.items() if key in own}, place), rest


def _log_keys(given: Any) -> list[str]:
    """The options of how a plain log is read and, of any other, how it is imported."""
    found = [*log_options()]
    imported = isinstance(given, Mapping) and given.get("from", "plain") in ("ubi", "metarank", "yandex")
    return [*dict.fromkeys([*found, *(import_options() if imported else ())])]


def log_options() -> dict[str, Any]:
    """The options of how a plain log is laid out, read and counted, with their defaults."""
    from cldrank.clicks.aggregate import aggregate

    every = inspect.signature(aggregate).parameters
    counting = {name: every[name].default for name in keywords_of(aggregate) if name not in _NOT_READING}
    return {**vars(LogLayout()), **counting}


def loading_options() -> list[str]:
    """The options of how features are loaded."""
    from cldrank.data.loading import load

    return [name for name in keywords_of(load) if name not in _NOT_LOADING]


def import_options() -> list[str]:
    """The options of how the log of another program is imported."""
    from cldrank.clicks.imports import import_log

    return [name for name in keywords_of(import_log) if name not in _NOT_IMPORTING]


def reading_of(pipeline: PipelineDefinition, function: Callable[..., Any]) -> dict[str, Any]:
    """Those options of the log that a function which reads plain logs takes."""
    of_import = () if pipeline.log.from_ == "plain" else import_options()
    taken = [*keywords_of(function), *vars(LogLayout())]
    return {key: value for key, value in pipeline.log_options.items() if key in taken and key not in of_import}


def deciding(options: Options) -> dict[str, Any]:
    """Those options of the log that decide what is read, not where and in how much memory.

    >>> deciding({"engine": "spark", "first_position": 0})
    {'first_position': 0}
    """
    return {name: value for name, value in options.items() if name not in _WHERE}


def keywords_of(function: Callable[..., Any]) -> list[str]:
    """The arguments of a function that are given by name alone.

    >>> keywords_of(sorted)
    ['key', 'reverse']
    """
    every = inspect.signature(function).parameters.values()
    return [one.name for one in every if one.kind is inspect.Parameter.KEYWORD_ONLY]


def _curve(table: Mapping[str, Any]) -> tuple[CurveSettings, dict[str, Any]]:
    """The propensities, and the parameters of their estimator, which is made once to check them."""
    from cldrank.propensity import PropensityEstimator, estimators

    given = table.get("propensities", {})
    named = given.get("method", "auto") if isinstance(given, Mapping) else "auto"
    known: dict[str, type[Any]] = {"auto": PropensityEstimator, **estimators()}
    kind = _one_of(known, named, "propensities.method")
    found, more = _section(CurveSettings, table, "propensities", [*parameters(kind)])
    chosen = [key for key in ("assume", "file") if getattr(found, key)]
    if len(chosen) > 1 or (chosen and (more or "method" in given)):
        raise UsageError(
            "propensities: choose one of method (to estimate them), assume (a curve) and file; the parameters of an "
            "estimator go with method."
        )
    if kind is not PropensityEstimator and kind.bound:
        raise UsageError(f"propensities.method: {named} finds a lower bound, not a curve; choose another.")
    for curve in found.assume.split(",") if found.assume else ():
        _check_assumed(curve.rpartition("=")[2].strip())
    if named != "auto":
        _placed("propensities", lambda: kind(**more))
    return found, more


def _check_assumed(text: str) -> None:
    """Refuse a curve that is not known without a file."""
    from cldrank.propensity import Propensities

    if text != "none" and not text.startswith("power:"):
        raise UsageError(
            f'propensities.assume must be "power:1.0", say, "none", or for segments "phone=power:1.2,desktop=power:0.8"'
            f", not {text!r}."
        )
    _placed("propensities.assume", lambda: Propensities.parse(text, 1))


def _train(table: Mapping[str, Any], seed: int) -> tuple[TrainSettings, dict[str, Any]]:
    """What is trained, and the parameters of method, model and run; the method is made once to check them."""
    from cldrank.estimators.needs import uses_clicks
    from cldrank.estimators.registry import configured, default_model, methods, settings_of, usable_models

    given = table.get("train", {})
    given = given if isinstance(given, Mapping) else {}
    kind = _one_of(methods(), given.get("method", "cld"), "train.method")
    usable = usable_models(kind)
    model = _one_of(usable, given["model"], "train.model") if given.get("model") else type(default_model(kind))
    known = [name for name in settings_of(kind, model) if name not in _NOT_TRAINING]
    found, more = _section(TrainSettings, table, "train", known)
    settings = {"seed": seed, **({"model": found.model} if found.model else {}), **more}
    method = _placed("train", lambda: configured(kind, settings))
    _placed("train", method.check)
    if not uses_clicks(method.required):
        raise UsageError(f"train.method: {kind.name} learns from labels; a pipeline learns from clicks.")
    if found.safe and found.warm_start and method.model.progress(method.way) is not None:
        raise UsageError(f"train: safe = true fits {method.model.name} several times, which needs warm_start = false.")
    if not found.safe and (found.production_feature or "safe_margin" in given):
        raise UsageError("train: safe_margin and production_feature are for safe = true.")
    return found, settings


def _export(table: Any) -> tuple[ExportSettings, dict[str, tuple[FormatSettings, Mapping[str, str]]]]:
    from cldrank.export.registry import format_named

    if not isinstance(table, Mapping):
        raise UsageError(f"export must be a table, [export], not {shortened(table)}.")
    to = table.get("to", ())
    named = [one for one in ([to] if isinstance(to, str) else to) if isinstance(one, str)]
    found, tables = _section(ExportSettings, {"export": table}, "export", named)
    formats: dict[str, tuple[FormatSettings, Mapping[str, str]]] = {}
    for name in found.to:
        _placed("export.to", lambda name=name: format_named(name))  # type: ignore[misc]
        own = dict(tables.get(name, {})) if isinstance(tables.get(name, {}), Mapping) else tables[name]
        renamed = own.pop("rename", {}) if isinstance(own, dict) else {}
        formats[name] = decode(FormatSettings, own, f"export.{name}"), _texts(renamed, f"export.{name}.rename")
    return found, formats


def _one_of(known: Mapping[str, type[Any]], named: Any, place: str) -> type[Any]:
    if isinstance(named, str) and named in known:
        return known[named]
    near = difflib.get_close_matches(str(named), known, n=1)
    guess = f" Did you mean {near[0]!r}?" if near else ""
    raise UsageError(f"{place} must be one of {', '.join(known)}, not {shortened(named)}.{guess}")


def _placed(place: str, call: Callable[[], Any]) -> Any:
    """What a call returns; what it refuses is said with its place."""
    try:
        return call()
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None


def _texts(table: Any, place: str) -> dict[str, str]:
    if not isinstance(table, Mapping) or not all(isinstance(value, str) for value in table.values()):
        raise UsageError(f'{place} must be a table of names, {{ f1 = "title" }}, not {shortened(table)}.')
    return dict(table)


# -- what does not fit together ------------------------------------------------------------------------------------


def _check(found: PipelineDefinition) -> None:
    from cldrank.clicks.days import n_days
    from cldrank.evaluation.click_measures import parse_click_measures
    from cldrank.evaluation.off_policy import off_policy

    if not found.features.files:
        raise UsageError('features.files is missing; name the candidates: features.files = "train.parquet".')
    if "columns" in found.log_options:
        _texts(found.log_options["columns"], "log.columns")
    layout = {name: value for name, value in found.log_options.items() if name in vars(LogLayout())}
    _placed("log", lambda: LogLayout.of(None, layout))
    _check_log(found.log)
    if found.window.last:
        _placed("window.last", lambda: n_days(found.window.last))
    if found.verdict.measures:
        _placed("verdict.measures", lambda: parse_click_measures(list(found.verdict.measures), 1 << 30))
    _placed("verdict.estimator", lambda: off_policy(found.verdict.estimator))
    if "better" not in found.verdict.ship_if:
        raise UsageError('verdict.ship_if must let a better ranker pass: ship_if = ["better"], or more verdicts.')
    _check_against(found)
    if found.path(found.export.folder).resolve() == found.path(found.runs.folder).resolve():
        raise UsageError("export.folder and runs.folder must be two folders.")


def _check_against(found: PipelineDefinition) -> None:
    """Refuse to compare with what a run replaces under that name, or makes."""
    against = found.verdict.against
    if against in ("production", AS_SHIPPED):
        return
    place = found.path(against).resolve()
    for key, folder in (("export.folder", found.export.folder), ("runs.folder", found.runs.folder)):
        if place.is_relative_to(found.path(folder).resolve()):
            raise UsageError(
                f'verdict.against: {against!r} lies in {key}, where runs replace it; "shipped" is the ranker that is '
                "shipped, and a copy elsewhere stays what it is."
            )
    if not (place / "ranker.json").is_file():
        raise UsageError(
            f'verdict.against must be "production", "shipped" or the folder of a ranker; {found.path(against)} does '
            "not hold a ranker."
        )


def _check_log(log: LogSettings) -> None:
    if log.from_ == "ubi":
        wrong = [key for key, there in (("queries", log.queries), ("events", log.events)) if not there]
        if wrong or log.files:
            raise UsageError('log: from = "ubi" takes queries and events, two sets of files, and no others.')
        return
    if log.queries or log.events:
        raise UsageError(f'log: queries and events are for from = "ubi", not for {log.from_!r}; name files.')
    if not log.files:
        raise UsageError(f"log.files is missing; name the {listed(['files', 'folders or patterns'], 'or')} of the log.")
