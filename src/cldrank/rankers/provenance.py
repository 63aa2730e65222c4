"""`Provenance`: where a ranker comes from, in records of plain values, which msgspec checks when it reads them.

The same fit has the same provenance: no time, no machine, no folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self, TypeVar

import msgspec
import numpy as np

from cldrank._version import __version__
from cldrank.arguments import as_json, shortened_text
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError
from cldrank.reading import reason

_CHANCE = 0.5  # the concordance of scores that know nothing; ties count half
_LARGEST = float(np.finfo(np.float64).max)
IMITATION = "imitation"  # of production, learned from the log

Decoded = TypeVar("Decoded")
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Number = Annotated[float, msgspec.Meta(ge=-_LARGEST, le=_LARGEST)]
Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]
Fingerprint = Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{64})?$")]


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Named facts, which JSON can hold."""

    def replaced(self, **changes: Any) -> Self:
        """The same record with some facts changed."""
        return msgspec.structs.replace(self, **changes)

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return msgspec.to_builtins(self)  # type: ignore[no-any-return]

    def facts(self) -> dict[str, str | float]:
        """The texts and numbers that are known, by their names in words."""
        known = msgspec.structs.asdict(self)
        return {
            name.replace("_", " "): own
            for name, own in known.items()
            if own != "" and isinstance(own, str | float | int)
        }


class MethodRecord(Record, frozen=True):
    """The method that trained a ranker: what it does, which biases it corrects, and how Python writes it."""

    label: str
    sentence: str
    corrects: tuple[str, ...]
    call: str


class ClicksRecord(Record, frozen=True):
    """The clicks that a ranker was learned from: `cells` are candidates at positions down to `depth`.

    events   their weights and numbers, in words; empty where clicks alone counted
    """

    impressions: Count
    clicks: Count
    cells: Count
    shown: Count
    depth: Count
    fingerprint: Fingerprint
    events: str = ""


class CurveRecord(Record, frozen=True):
    """The propensities that clicks were corrected by, as they were used: clipped and raised.

    values, base      by position; of affine clicks the slopes, and the bases
    low, high         the intervals of the values, where they are known, at a `confidence`
    estimator         the class that estimated them; None where they were assumed or given
    clipped, raised   the positions that the method raised: to its least propensity, to what the clicks prove
    """

    values: tuple[Number, ...]
    origin: str
    estimator: str | None = None
    base: tuple[Number, ...] = ()
    low: tuple[Number, ...] = ()
    high: tuple[Number, ...] = ()
    confidence: Number | None = None
    clipped: tuple[int, ...] = ()
    raised: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("base", "low", "high"):
            if len(getattr(self, name)) not in (0, len(self.values)):
                raise ValueError(f"{name} has not as many entries as there are positions")


class FitRecord(Record, frozen=True):
    """What is known of a fit.

    log_likelihood, rows, weight     of a linear model: of how many weighted rows
    kept, loss                       of what was trained step by step: the step that was kept, and its loss
    held_loss, concordance           of the held-out queries at that step, judged by `held_target`
    constant                         features without any variation
    unshown_weight                   of CLD-pair: what all unshown candidates of a query weigh, over those shown
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
    unshown_weight: Number | None = None
    warnings: tuple[str, ...] = ()

    @property
    def is_chance(self) -> bool:
        """Whether held-out queries are ranked no better than by chance."""
        return self.concordance is not None and self.concordance <= _CHANCE


class EvaluationRecord(Record, frozen=True):
    """The measures of a ranker on labelled data: the `mean` of each, and its interval where that is known.

    empty   "zero" if queries without a relevant document count 0, "skip" if they are left out
    """

    data: str
    synthetic: bool
    queries: Count
    fingerprint: Fingerprint
    empty: str
    measures: dict[str, dict[Literal["mean", "low", "high", "confidence"], Number]]

    @property
    def measured(self) -> tuple[str, str]:
        """What was measured on: measures of the same can stand side by side."""
        return self.fingerprint or self.data, self.empty


class SafetyRecord(Record, frozen=True):
    """How far a ranker departs from production, and what says that this is safe; see `cldrank.safety`.

    share            of the learned ranker in the blend with production: "imitation", or the feature that is its score
    overlap          the share of production's results that the imitation shows as well
    margin, value    how much worse than production the ranker may be, and production's own value of the measure
    gain, low, high  of the ranker over production, at a `confidence`, by the clicks on this many `queries`
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

    def __str__(self) -> str:
        is_known = self.production != IMITATION
        rest = f"production's score ({self.production})" if is_known else "an imitation of production"
        blend = f"{self.share:.0%} learned, {1 - self.share:.0%} {rest}"
        if self.share in (0, 1):
            blend = "learned as it is" if self.share else f"nothing learned is shown to gain, so {rest} alone"
        return (
            f"safe: {blend}; {self.measure} {self.gain:+.4f} ({self.low:+.4f} to {self.high:+.4f}) over "
            f"production's {self.value:.4f}, by the clicks on {self.queries:,} queries; {self.margin:.4f} may be lost"
        )


class DistilRecord(Record, frozen=True):
    """How alike a ranker ranks to those that it was fitted to, on some `queries`, as means over them.

    rank_correlation   Spearman's, of the candidates of a query
    top_in_common      the share of the teacher's first three results that are among its own first three
    ndcg               nDCG@3 with the grades 3, 2 and 1 for the teacher's first three
    held_out           whether it was not fitted to these queries
    teachers           those that it was fitted to, with their fingerprints
    """

    queries: Count
    rank_correlation: Number
    top_in_common: Number
    ndcg: Number
    held_out: bool = True
    teachers: tuple[str, ...] = ()

    def __str__(self) -> str:
        these = "held out" if self.held_out else "that it was fitted to: too optimistic"
        return (
            f"fidelity on {self.queries:,} queries {these}: rank correlation {self.rank_correlation:.4f}, "
            f"{self.top_in_common:.1%} of the first three in common, nDCG@3 {self.ndcg:.4f} of the teacher's order"
        )


class Provenance(Record, frozen=True):
    """Where a ranker comes from: the data, whether that was synthetic, the estimator and its parameters.

    fingerprint    of the data, see `RankingDataset.fingerprint`
    has_missing    whether features were missing in it
    featureset    the engine's features that it was collected with, by name and SHA-256; empty if it was not collected
    method, clicks, diagnostics   what was learned from, and how; None where it is not known, or not used
    propensities   by the segment of clicks, with an empty name for a log without segments; empty where none were used
    safety         how far a safe ranker departs from production
    distilled      what other rankers it was fitted to, and how alike it ranks; see `cldrank.distil`
    held_out       the share of queries that were kept out of training, by `cldrank.held_out`; None where none were
    command        the shell command that trains the same ranker; empty where Python did
    chosen         why `auto` chose method and model, in two sentences; empty where a user did
    evaluations    how well it ranks labelled data, by data set and treatment of queries without relevance

    >>> print(Provenance(estimator="Oracle", data="web10k-like", synthetic=True))
    trained by Oracle on web10k-like (synthetic)
    """

    estimator: str = ""
    parameters: dict[str, Any] = {}
    data: str = ""
    synthetic: bool = False
    rows: Count = 0
    queries: Count = 0
    cldrank: str = __version__
    fingerprint: Fingerprint = ""
    has_missing: bool = False
    featureset: str = ""
    method: MethodRecord | None = None
    clicks: ClicksRecord | None = None
    propensities: dict[str, CurveRecord] = {}
    diagnostics: FitRecord | None = None
    safety: SafetyRecord | None = None
    distilled: DistilRecord | None = None
    held_out: Share | None = None
    command: str = ""
    chosen: str = ""
    evaluations: tuple[EvaluationRecord, ...] = ()

    @classmethod
    def of(cls, estimator: str, parameters: Mapping[str, Any], data: RankingDataset, **more: Any) -> Self:
        """Of a ranker learned from a dataset; a parameter that JSON cannot hold is kept as Python writes it."""
        return cls(
            estimator=estimator,
            parameters={name: as_json(value) for name, value in parameters.items()},
            data=data.name,
            synthetic=data.synthetic,
            rows=data.n_rows,
            queries=data.n_queries,
            fingerprint=data.fingerprint,
            has_missing=data.has_missing,
            featureset=data.featureset,
            **more,
        )

    @classmethod
    def from_json(cls, content: Any) -> Self:
        """The provenance that a file describes; refused unless all of it is what a provenance has."""
        return _decoded(content, cls, "the provenance")

    def as_dict(self) -> dict[str, Any]:
        """Plain values, which `from_json` takes back; refused where a file could not hold them."""
        try:
            text = json.dumps(msgspec.to_builtins(self), allow_nan=False, ensure_ascii=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise DataError(f"the provenance cannot be saved: {reason(error)}.") from None
        plain: dict[str, Any] = json.loads(text)
        self.from_json(plain)
        return plain

    def documented(self, warned: Iterable[str], **known: Any) -> Self:
        """The same with what only the caller of a fit knows, such as the command, and the warnings as it words them."""
        fit = self.diagnostics and self.diagnostics.replaced(warnings=tuple(dict.fromkeys(warned)))
        return self.replaced(diagnostics=fit, **known)

    def with_evaluation(self, result: Any) -> Self:
        """The same with a result of `cldrank.evaluate`, joined with an earlier result on the same data."""
        known = {name: value for name, value in result.as_dict().items() if name != "ranker"}  # whose name may change
        new = _decoded(known, EvaluationRecord, "an evaluation")
        others = {record.measured: record for record in self.evaluations}
        earlier = others.pop(new.measured, new)
        new = new.replaced(measures={**earlier.measures, **new.measures})
        return self.replaced(evaluations=(*others.values(), new))

    def __str__(self) -> str:
        data = self.data or ("unnamed data" if self.rows else "")
        parts = [f"by {self.estimator}"] if self.estimator else []
        parts += [f"on {data}"] if data else []
        origin = " ".join(["trained", *parts]) if parts else "of unknown origin"
        return f"{origin} (synthetic)" if self.synthetic else origin


def _decoded(content: Any, kind: type[Decoded], what: str) -> Decoded:
    """Plain values as a record; an error names the first field that does not fit."""
    try:
        return msgspec.convert(content, kind)
    except (msgspec.ValidationError, OverflowError, RecursionError) as error:
        raise DataError(f"{what} cannot be read: {shortened_text(str(error), 300)}.") from None
