"""`Provenance`: where a ranker comes from, as plain values that JSON holds and that are checked one by one.

The same fit has the same provenance: no time, no machine, no folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

from cldrank._version import __version__
from cldrank.arguments import as_json, shortened
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError
from cldrank.parameters import Parameter
from cldrank.rankers.record import Record

_CHANCE = 0.5  # the concordance of scores that know nothing; ties count half
IMITATION = "imitation"  # of production, learned from the log
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class Measured(Protocol):
    """The result of an evaluation, such as `cldrank.evaluate` returns."""

    def as_dict(self) -> dict[str, Any]:
        """Everything but the values of single queries."""


@dataclass(frozen=True)
class MethodRecord(Record):
    """The method that trained a ranker.

    label, sentence   what it is called, and what it does
    corrects          the biases of clicks that it corrects
    learns            what it learns, in words
    call              how Python writes it
    defaults          the defaults of those parameters that are not at their defaults
    """

    what = "the method"

    label: str
    sentence: str
    corrects: tuple[str, ...]
    learns: str
    call: str
    defaults: Mapping[str, Any]


@dataclass(frozen=True)
class ClicksRecord(Record):
    """The clicks that a ranker was learned from.

    cells        candidates at positions; `shown` candidates were shown at all
    depth        the lowest position with impressions
    """

    what = "the clicks"

    impressions: int
    clicks: int
    cells: int
    shown: int
    depth: int
    every_click: bool
    fingerprint: str


@dataclass(frozen=True)
class CurveRecord(Record):
    """The propensities that clicks were corrected by, as they were used: clipped and raised.

    values            one per position; of affine clicks the slopes
    base              one per position, of affine clicks alone
    low, high         the intervals of the values, where they are known, at a `confidence`
    origin            where they come from, in words
    estimator         the class that estimated them; None where they were assumed or given
    clipped, raised   the positions that the method raised: to its least propensity, to what the clicks prove
    notes             what their estimator has to say about them
    segments          of several segments, the record of each by name, and no values beside them
    """

    what = "the propensities"

    values: tuple[float, ...]
    origin: str
    estimator: str | None = None
    base: tuple[float, ...] | None = None
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None
    confidence: float | None = None
    clipped: tuple[int, ...] = ()
    raised: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    segments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def by_segment(self) -> dict[str, CurveRecord]:
        """The curve of each segment; of a log without segments, this one, without a name."""
        if not self.segments:
            return {"": self}
        return {name: CurveRecord.from_json(one) for name, one in self.segments.items()}

    def __post_init__(self) -> None:
        super().__post_init__()
        size = len(self.values)
        if any(one.segments for one in self.by_segment.values() if self.segments):
            raise DataError(f"a segment of {self.what} has segments itself.")
        for name in ("base", "low", "high"):
            own = getattr(self, name)
            if own is not None and len(own) != size:
                raise DataError(f"{name} of {self.what} has {len(own)} entries for {size} positions.")
        if not (self.low is None) == (self.high is None) == (self.confidence is None):
            raise DataError(f"an interval of {self.what} needs low, high and confidence, all three.")
        for at in (*self.clipped, *self.raised):
            if not 1 <= at <= size:
                raise DataError(f"{self.what} have no position {shortened(at)}; they go from 1 to {size}.")


@dataclass(frozen=True)
class FitRecord(Record):
    """What is known of a fit.

    status, steps                    how it ended, and after how many steps
    log_likelihood, rows, weight     of a linear model: of how many weighted rows
    kept, loss                       of what was trained step by step: the step that was kept, and its loss
    learned_queries, held_queries    the queries learned from, and those held out
    held_loss, concordance           of the held-out queries at that step, judged by `held_target`
    constant, collinear              features without any variation; features that others determine
    warm_start                       what it began with: the method of another ranker, and the digest of its weights
    warnings                         what the fit had to say
    """

    what = "the diagnostics"

    status: str
    steps: int
    log_likelihood: float | None = None
    rows: int | None = None
    weight: float | None = None
    kept: int | None = None
    loss: float | None = None
    learned_queries: int | None = None
    held_queries: int | None = None
    held_loss: float | None = None
    concordance: float | None = None
    held_target: str = ""
    constant: tuple[str, ...] = ()
    collinear: tuple[str, ...] = ()
    warm_start: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def is_chance(self) -> bool:
        """Whether held-out queries are ranked no better than by chance."""
        return self.concordance is not None and self.concordance <= _CHANCE


@dataclass(frozen=True)
class EvaluationRecord(Record):
    """The measures of a ranker on labelled data: `mean` of each and, where they are known, `low`, `high`, `confidence`.

    empty   "zero" if queries without a relevant document count 0, "skip" if they are left out
    """

    what = "an evaluation"

    data: str
    synthetic: bool
    queries: int
    fingerprint: str
    empty: str
    measures: Mapping[str, Mapping[str, float]]

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, found in self.measures.items():
            keys = set(found) if isinstance(found, dict) else set()
            numbers = found.values() if isinstance(found, dict) else [found]
            if keys not in ({"mean"}, {"mean", "low", "high", "confidence"}) or not all(map(_is_number, numbers)):
                raise DataError(f"{name} of {self.what} must have a mean, or mean, low, high and confidence.")

    def joins(self, other: EvaluationRecord) -> bool:
        """Whether measures of both can stand side by side: the same data, and queries treated in the same way."""
        mine, theirs = ((one.fingerprint or one.data, one.empty) for one in (self, other))
        return mine == theirs


@dataclass(frozen=True)
class SafetyRecord(Record):
    """How far a ranker departs from production, and what says that this is safe; see `cldrank.safety`.

    share            of the learned ranker in the blend; 0 is production, 1 the learned ranker
    production       what stands for production: "imitation", or the feature that is its score
    overlap          the share of production's results that the imitation shows as well
    measure          what is judged by
    margin           how much worse than production the ranker may be, in the units of the measure
    value            production's own, as the clicks estimate it
    gain, low, high  of the ranker over production, at a `confidence`
    queries          by whose clicks it was judged
    tried            the lower ends of the gains of all shares that were tried
    """

    what = "the safety"

    share: float
    production: str
    overlap: float
    measure: str
    margin: float
    value: float
    gain: float
    low: float
    high: float
    confidence: float
    queries: int
    tried: Mapping[str, float]

    @property
    def is_imitated(self) -> bool:
        """Whether production's score was not known."""
        return self.production == IMITATION

    def __str__(self) -> str:
        rest = "an imitation of production" if self.is_imitated else f"production's score ({self.production})"
        blend = f"{self.share:.0%} learned, {1 - self.share:.0%} {rest}"
        if self.share in (0, 1):
            blend = "learned as it is" if self.share else f"nothing learned is shown to gain, so {rest} alone"
        return (
            f"safe: {blend}; {self.measure} {self.gain:+.4f} ({self.low:+.4f} to {self.high:+.4f}) over "
            f"production's {self.value:.4f}, by the clicks on {self.queries:,} queries; {self.margin:.4f} may be lost"
        )


@dataclass(frozen=True)
class Provenance(Record):
    """Where a ranker comes from: the data, whether that was synthetic, the estimator and its parameters.

    fingerprint    of the data, see `RankingDataset.fingerprint`
    has_missing    whether features were missing in it
    method, clicks, propensities, diagnostics   what was learned from, and how; None where it is not known, or not used
    safety         how far it departs from production, of a ranker that was kept near it
    held_out       the share of queries that were kept out of training, by `cldrank.held_out`; None where none were
    command        the shell command that trains the same ranker; empty where Python did
    evaluations    how well it ranks labelled data, one entry per data set and way to treat queries without relevance

    >>> print(Provenance(estimator="Oracle", data="web10k-like", synthetic=True))
    trained by Oracle on web10k-like (synthetic)
    """

    estimator: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    data: str = ""
    synthetic: bool = False
    rows: int = 0
    queries: int = 0
    cldrank: str = __version__
    fingerprint: str = ""
    has_missing: bool = False
    method: MethodRecord | None = None
    clicks: ClicksRecord | None = None
    propensities: CurveRecord | None = None
    diagnostics: FitRecord | None = None
    safety: SafetyRecord | None = None
    held_out: float | None = None
    command: str = ""
    evaluations: tuple[EvaluationRecord, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.held_out is not None and not 0 < self.held_out < 1:
            raise DataError(f"held_out of {self.what} must be above 0 and below 1, not {shortened(self.held_out)}.")

    @classmethod
    def of(cls, estimator: str, parameters: Mapping[str, Any], data: RankingDataset, **more: Any) -> Self:
        """Of a ranker learned from a dataset; a parameter that JSON cannot hold is kept as Python writes it."""
        return cls(
            estimator=estimator,
            parameters=plain_parameters(parameters),
            data=data.name,
            synthetic=data.synthetic,
            rows=data.n_rows,
            queries=data.n_queries,
            fingerprint=data.fingerprint,
            has_missing=data.has_missing,
            **more,
        )

    @classmethod
    def from_json(cls, content: Any) -> Self:
        """The provenance that a file describes; refused unless all of it is what a provenance has."""
        if not isinstance(content, dict):
            return super().from_json(content)
        parts = {name: kind.from_json(content[name]) for name, kind in _PARTS.items() if content.get(name) is not None}
        evaluations = content.get("evaluations", [])
        if not isinstance(evaluations, list):
            raise DataError(f"evaluations of {cls.what} must be a list, not {shortened(evaluations)}.")
        entries = tuple(EvaluationRecord.from_json(one) for one in evaluations)
        return super().from_json({**content, **parts, "evaluations": entries})

    def documented(self, warned: Iterable[str], **known: Any) -> Self:
        """The same with what only the caller of a fit knows, such as the command, and all warnings in its words."""
        if self.diagnostics is None:
            raise AssertionError("a fit leaves diagnostics")
        return replace(self, diagnostics=replace(self.diagnostics, warnings=tuple(dict.fromkeys(warned))), **known)

    def with_evaluation(self, result: Measured) -> Self:
        """The same with one more evaluation, into which an earlier one on the same data goes: see `joins`."""
        new = EvaluationRecord.from_json(result.as_dict())
        others = []
        for one in self.evaluations:
            if one.joins(new):
                new = replace(new, measures={**one.measures, **new.measures})
            else:
                others.append(one)
        return replace(self, evaluations=(*others, new))

    def __str__(self) -> str:
        data = self.data or ("data without a name" if self.rows else "")
        parts = [f"by {self.estimator}"] if self.estimator else []
        parts += [f"on {data}"] if data else []
        origin = " ".join(["trained", *parts]) if parts else "of unknown origin"
        return f"{origin} (synthetic)" if self.synthetic else origin


_PARTS: dict[str, type[Record]] = {
    "method": MethodRecord,
    "clicks": ClicksRecord,
    "propensities": CurveRecord,
    "diagnostics": FitRecord,
    "safety": SafetyRecord,
}


def plain_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as JSON holds them; places in memory, which differ from run to run, are left out.

    >>> plain_parameters({"l2": 0.1, "module": object()})
    {'l2': 0.1, 'module': '<object object>'}
    """
    plain = {name: as_json(value) for name, value in parameters.items()}
    return {name: without_address(value) if isinstance(value, str) else value for name, value in plain.items()}


def without_address(text: str) -> str:
    """A repr without places in memory."""
    return _ADDRESS.sub("", text)


def _is_number(value: Any) -> bool:
    return Parameter("", float, None, "").accepts(value)
