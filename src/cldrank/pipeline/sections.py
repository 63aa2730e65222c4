"""The sections of a pipeline file that have a fixed set of keys; `definition` adds those that other classes declare."""

from __future__ import annotations

from typing import Literal

from cldrank.evaluation.click_results import Decision
from cldrank.parameters import Value, parameter, value

LogKind = Literal["plain", "ubi", "metarank", "yandex"]


@value
class LogSettings(Value):
    """The click log, and what wrote it."""

    files: tuple[str, ...] = parameter(default=(), about="files, folders or patterns of the log")
    from_: LogKind = parameter(default="plain", about="what wrote it; any other than plain is imported first")
    queries: tuple[str, ...] = parameter(default=(), about="UBI: the files of queries, in place of `files`")
    events: tuple[str, ...] = parameter(default=(), about="UBI: the files of events")


@value
class FeatureSettings(Value):
    """The candidates of each query, with their features."""

    files: tuple[str, ...] = parameter(default=(), about="LETOR or Parquet files, a folder, a pattern, a data set")


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

    method: str = parameter(
        default="auto", about="an estimator by name; auto: the best-founded one that the log supports"
    )
    assume: str = parameter(default="", about='a curve to take for granted, such as "power:1.0"')
    file: str = parameter(default="", about="a file that `cldrank propensity estimate` wrote")
    segment: str = parameter(default="", about="a column of the log, such as device: one curve for each of its values")
    smooth: Literal["no", "monotone", "power"] = parameter(default="no", about="to the nearest curve of this kind")
    clip: float | None = parameter(default=None, above=0, most=1, about="raise smaller propensities to this")


@value
class TrainSettings(Value):
    """What is trained. Parameters of the method, its model and its run go beside these keys."""

    method: str = parameter(default="cld", about="as in `cldrank train METHOD`")
    model: str = parameter(default="", about="the model to fit; empty: the method's own")
    hold_out: float = parameter(default=0.2, above=0, below=1, about="the share of queries that the verdict judges by")
    safe: bool = parameter(default=False, about="depart from production only as far as held-out clicks support")
    safe_margin: float = parameter(
        default=0.01, least=0, below=1, about="the share of production's DCG to lose at most"
    )
    production_feature: str = parameter(default="", about="the feature that is production's score, for safe")
    warm_start: bool = parameter(default=False, about="begin from the ranker that was shipped last")


@value
class VerdictSettings(Value):
    """The second gate: is the new ranker better, by the clicks on queries that it was not trained on?"""

    against: str = parameter(
        default="production",
        about="the order of the log itself; shipped, the ranker that is shipped; or a ranker's folder",
    )
    ship_if: tuple[Decision, ...] = parameter(default=("better",), about="the verdicts that let a ranker pass")
    measures: tuple[str, ...] = parameter(default=(), about="such as DCG@5; the first decides; none: the usual ones")
    margin: float | None = parameter(default=None, least=0, about="the smallest difference that matters")
    confidence: float = parameter(default=0.9, above=0, below=1, about="of the intervals")
    estimator: str = parameter(default="doubly-robust", about="how clicks become relevance")
    trust_propensity: bool = parameter(default=False, about="take an assumed curve for known")
    quick: bool = parameter(default=False, about="try only those other assumptions that the verdict needs")


@value
class ExportSettings(Value):
    """Where a ranker goes that passed both gates. Each format may have a table of its own."""

    to: tuple[str, ...] = parameter(default=(), about="formats: onnx, opensearch, elasticsearch, solr, vespa, json")
    folder: str = parameter(default="shipped", about="the folder that holds what is in production, replaced as a whole")
    check: bool = parameter(default=True, about="replay each engine on the features and compare the scores")


@value
class FormatSettings(Value):
    """How one format is written: the options of `cldrank export`."""

    for_: str = parameter(default="", about="the version of the engine; empty: the newest")
    name: str = parameter(default="cldrank", about="what the engine is to call the model")
    approximate: bool = parameter(default=False, about="write what the format cannot say as nearly as it can")


@value
class RunsSettings(Value):
    """Where runs are kept."""

    folder: str = parameter(default="runs", about="one folder per run, and the results of steps that runs share")
    keep: int = parameter(default=30, least=1, about="runs to keep, with the results that they refer to")
