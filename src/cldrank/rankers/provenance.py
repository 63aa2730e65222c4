"""`Provenance`: where a ranker comes from, as plain values that JSON holds; msgspec checks those that are read.

The same fit has the same provenance: no time, no machine, no folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, Protocol, Self, TypeVar

import msgspec
import numpy as np

from cldrank._version import __version__
from cldrank.arguments import as_json, shortened_text
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError
from cldrank.reading import reason

_CHANCE = 0.5  # the concordance of scores that know nothing; ties count half
_LARGEST = float(np.finfo(np.float64).max)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
IMITATION = "imitation"  # of production, learned from the log

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Number = Annotated[float, msgspec.Meta(ge=-_LARGEST, le=_LARGEST)]
Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]
Fingerprint = Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{64})?$")]


class Measured(Protocol):
    """The result of an evaluation, such as `cldrank.evaluate` returns."""

    def as_dict(self) -> dict[str, Any]:
        """Everything but the values of single queries."""


@dataclass(frozen=True)
class MethodRecord:
    """The method that trained a ranker.

    label, sentence   what it is called, and what it does
    corrects          the biases of clicks that it corrects
    learns            what it learns, in words
    call              how Python writes it
    defaults          the defaults of those parameters that are not at their defaults
    """

    label: str
    sentence: str
    corrects: tuple[str, ...]
    learns: str
    call: str
    defaults: dict[str, Any]


@dataclass(frozen=True)
class ClicksRecord:
    """The clicks that a ranker was learned from.

    cells        candidates at positions; `shown` candidates were shown at all
    depth        the lowest position with impressions
    """

    impressions: Count
    clicks: Count
    cells: Count
    shown: Count
    depth: Count
    every_click: bool
    fingerprint: Fingerprint


@dataclass(frozen=True)
class CurveRecord:
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

    values: tuple[Number, ...]
    origin: str
    estimator: str | None = None
    base: tuple[Number, ...] | None = None
    low: tuple[Number, ...] | None = None
    high: tuple[Number, ...] | None = None
    confidence: Number | None = None
    clipped: tuple[int, ...] = ()
    raised: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    segments: dict[str, CurveRecord] = field(default_factory=dict)

    @property
    def by_segment(self) -> dict[str, CurveRecord]:
        """The curve of each segment; of a log without segments, this one, without a name."""
        return self.segments or {"": self}

    def __post_init__(self) -> None:
        size = len(self.values)
        if any(curve.segments for curve in self.segments.values()):
            raise DataError("a segment of the propensities has segments itself.")
        for name in ("base", "low", "high"):
            own = getattr(self, name)
            if own is not None and len(own) != size:
                raise DataError(f"{name} of the propensities has {len(own)} entries for {size} positions.")
        if not (self.low is None) == (self.high is None) == (self.confidence is None):
            raise DataError("an interval of the propensities needs low, high and confidence, all three.")
        for position in (*self.clipped, *self.raised):
            if not 1 <= position <= size:
                raise DataError(f"the propensities have no position {position}; they go from 1 to {size}.")


@dataclass(frozen=True)
class FitRecord:
    """What is known of a fit.

    status, steps                    how it ended, and after how many steps
    log_likelihood, rows, weight     of a linear model: of how many weighted rows
    kept, loss                       of what was trained step by step: the step that was kept, and its loss
    learned_queries, held_queries    the queries learned from, and those held out
    held_loss, concordance           of the held-out queries at that step, judged by `held_target`
    constant                         features without any variation
    warnings                         what the fit had to say
    """

    status: str
    steps: Count
    log_likelihood: Number | None = None
    rows: Count | None = None
    weight: Number | None = None
    kept: Count | None = None
    loss: Number | None = None
    learned_queries: Count | None = None
    held_queries: Count | None = None
    held_loss: Number | None = None
    concordance: Number | None = None
    held_target: str = ""
    constant: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def facts(self) -> dict[str, str | float]:
        """What is known, by its name in words."""
        known: dict[str, str | float | None] = {
            "status": self.status,
            "steps": self.steps,
            "log-likelihood": self.log_likelihood,
            "weighted rows": self.rows,
            "their total weight": None if self.weight is None else f"{self.weight:,.0f}",
            "step kept": self.kept,
            "loss": self.loss,
            "queries learned from": self.learned_queries,
            "queries held out": self.held_queries,
            "held-out loss": self.held_loss,
            "held-out concordance": self.concordance,
            "held-out target": self.held_target or None,
            "constant features": len(self.constant) or None,
        }
        return {name: value for name, value in known.items() if value is not None}

    @property
    def is_chance(self) -> bool:
        """Whether held-out queries are ranked no better than by chance."""
        return self.concordance is not None and self.concordance <= _CHANCE


@dataclass(frozen=True)
class EvaluationRecord:
    """The measures of a ranker on labelled data: `mean` of each and, where they are known, `low`, `high`, `confidence`.

    empty   "zero" if queries without a relevant document count 0, "skip" if they are left out
    """

    data: str
    synthetic: bool
    queries: Count
    fingerprint: Fingerprint
    empty: str
    measures: dict[str, dict[str, Number]]

    def __post_init__(self) -> None:
        for name, known in self.measures.items():
            if known.keys() not in ({"mean"}, {"mean", "low", "high", "confidence"}):
                raise DataError(f"{name} of an evaluation must have a mean, or mean, low, high and confidence.")

    def joins(self, other: EvaluationRecord) -> bool:
        """Whether measures of both can stand side by side: the same data, and queries treated in the same way."""
        mine, theirs = ((record.fingerprint or record.data, record.empty) for record in (self, other))
        return mine == theirs


@dataclass(frozen=True)
class SafetyRecord:
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

    share: Number
    production: str
    overlap: Number
    measure: str
    margin: Number
    value: Number
    gain: Number
    low: Number
    high: Number
    confidence: Number
    queries: Count
    tried: dict[str, Number]

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
class Provenance:
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
    parameters: dict[str, Any] = field(default_factory=dict)
    data: str = ""
    synthetic: bool = False
    rows: Count = 0
    queries: Count = 0
    cldrank: str = __version__
    fingerprint: Fingerprint = ""
    has_missing: bool = False
    method: MethodRecord | None = None
    clicks: ClicksRecord | None = None
    propensities: CurveRecord | None = None
    diagnostics: FitRecord | None = None
    safety: SafetyRecord | None = None
    held_out: Share | None = None
    command: str = ""
    evaluations: tuple[EvaluationRecord, ...] = ()

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
        made = _decoded(content, cls, "the provenance")
        if unknown := next(_unknown(content, asdict(made)), None):
            raise DataError(
                f"the provenance cannot be read: this cldrank ({__version__}) does not know the entry {unknown!r}; "
                "did a newer one write it? If so, upgrade cldrank."
            )
        return made

    def as_dict(self) -> dict[str, Any]:
        """Plain values, which `from_json` takes back; refused where a file could not hold them."""
        try:
            plain: dict[str, Any] = json.loads(json.dumps(asdict(self), allow_nan=False, ensure_ascii=False).encode())
        except (TypeError, ValueError, RecursionError) as error:
            raise DataError(f"the provenance cannot be saved: {reason(error)}.") from None
        self.from_json(plain)
        return plain

    def documented(self, warned: Iterable[str], **known: Any) -> Self:
        """The same with what only the caller of a fit knows, such as the command, and all warnings in its words."""
        if self.diagnostics is None:
            raise AssertionError("a fit leaves diagnostics")
        return replace(self, diagnostics=replace(self.diagnostics, warnings=tuple(dict.fromkeys(warned))), **known)

    def with_evaluation(self, result: Measured) -> Self:
        """The same with one more evaluation, into which an earlier one on the same data goes: see `joins`."""
        new = _decoded(result.as_dict(), EvaluationRecord, "an evaluation")
        others = []
        for earlier in self.evaluations:
            if earlier.joins(new):
                new = replace(new, measures={**earlier.measures, **new.measures})
            else:
                others.append(earlier)
        return replace(self, evaluations=(*others, new))

    def __str__(self) -> str:
        data = self.data or ("data without a name" if self.rows else "")
        parts = [f"by {self.estimator}"] if self.estimator else []
        parts += [f"on {data}"] if data else []
        origin = " ".join(["trained", *parts]) if parts else "of unknown origin"
        return f"{origin} (synthetic)" if self.synthetic else origin


Decoded = TypeVar("Decoded")


def _decoded(content: Any, kind: type[Decoded], what: str) -> Decoded:
    """Plain values as a record; refused with the place of the first that does not fit."""
    try:
        return msgspec.convert(content, kind)
    except (msgspec.ValidationError, OverflowError, RecursionError) as error:
        raise DataError(f"{what} cannot be read: {shortened_text(str(error), 300)}.") from None


def _unknown(content: Any, known: Any, place: str = "") -> Iterator[str]:
    """The entries of plain values that a record did not take up, at any depth, each with its place."""
    if isinstance(content, dict) and isinstance(known, dict):
        for key, value in content.items():
            yield from _unknown(value, known[key], f"{place}{key}.") if key in known else (f"{place}{key}",)
    elif isinstance(content, list) and isinstance(known, list | tuple):
        for inner, taken in zip(content, known, strict=True):
            yield from _unknown(inner, taken, place)


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
