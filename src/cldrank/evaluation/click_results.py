"""What clicks say about rankers, as values: estimates, how much the log can see, the unseen, checks, the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from cldrank.evaluation.by_labels import data_label
from cldrank.measures import Interval
from cldrank.wording import count, listed

Decision = Literal["better", "worse", "no difference", "cannot tell"]


def turned(interval: Interval, higher_is_better: bool) -> Interval:
    """The interval of a gain, from that of a difference.

    >>> print(turned(Interval(-0.2, -0.3, -0.1, 0.9, 50), higher_is_better=False))
    0.200 ± 0.100
    """
    if higher_is_better:
        return interval
    return Interval(-interval.estimate, -interval.high, -interval.low, interval.confidence, interval.n)


@dataclass(frozen=True)
class Errors:
    """Where the uncertainty of an estimate comes from, as standard errors in the units of the measure.

    queries        which queries were searched, and what was clicked
    propensities   the curve, estimated from finite data; 0 where it is assumed
    model          the fit that predicts the relevance of the unseen
    extrapolation  how far the model is off where it can be checked; a bound of bias, not a standard error
    """

    queries: float
    propensities: float = 0.0
    model: float = 0.0
    extrapolation: float = 0.0


@dataclass(frozen=True)
class ClickEstimate:
    """One measure of one ranker, or the difference of two.

    interval          with the unseen as relevant as the model predicts; without a model, between both bounds
    lowest, highest   with the unseen chosen to be as bad, or as good, for it as they can be

    Printed and formatted, it is its interval: `f"{estimate:.2f}"`.
    """

    interval: Interval
    lowest: Interval
    highest: Interval
    errors: Errors

    def __format__(self, spec: str) -> str:
        return format(self.interval, spec)

    def __str__(self) -> str:
        return format(self)

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "estimate": self.interval.estimate,
            "low": self.interval.low,
            "high": self.interval.high,
            "confidence": self.interval.confidence,
            "lowest": self.lowest.low,
            "highest": self.highest.high,
            "errors": asdict(self.errors),
        }


@dataclass(frozen=True)
class MeasuredPair:
    """A measure of both rankers, and their difference, new minus old."""

    measure: str
    higher_is_better: bool
    new: ClickEstimate
    old: ClickEstimate
    difference: ClickEstimate

    @property
    def interval(self) -> Interval:
        """That of the difference, as a comparison by labels has it."""
        return self.difference.interval

    @property
    def gain(self) -> Interval:
        """The difference, turned so that above 0 is better."""
        return turned(self.interval, self.higher_is_better)

    @property
    def bounds(self) -> Interval:
        """The gain, whatever the unseen are: from the worst case for new to the best."""
        low, high = self.difference.lowest, self.difference.highest
        whole = Interval(self.interval.estimate, low.low, high.high, low.confidence, low.n)
        return turned(whole, self.higher_is_better)

    def as_dict(self) -> dict[str, Any]:
        """As plain values; `low` and `high` are those of the difference."""
        found = self.difference.as_dict()
        return {
            "higher_is_better": self.higher_is_better,
            "new": self.new.interval.estimate,
            "old": self.old.interval.estimate,
            "difference": found.pop("estimate"),
            **found,
            "new_interval": [self.new.interval.low, self.new.interval.high],
            "old_interval": [self.old.interval.low, self.old.interval.high],
        }


@dataclass(frozen=True)
class Support:
    """How much of an order the log can see.

    k               results per page that count
    queries, pages, impressions, clicks    of the log, of the queries that are judged
    shown           the share of the order's first k that was ever shown, over pages
    shown_old       the same for the other order; None where one is judged alone
    effective       impressions of equal weight that would be as precise as these are with theirs
    largest_weight  of an impression, over the mean
    top_percent     the share of all weight that the heaviest 1% of impressions have
    clip, clipped   the least exposure of the trial with clipping, and how far it moves the first measure
    """

    k: int
    queries: int
    pages: int
    impressions: int
    clicks: int
    shown: float
    shown_old: float | None
    effective: float
    largest_weight: float
    top_percent: float
    clip: float
    clipped: float


@dataclass(frozen=True)
class Unseen:
    """The results that the new order lifts into its first k and nobody ever saw.

    results       how many there are
    per_page      how many a page of the new order has
    break_even    the mean relevance from which on the new order is better, by the first measure; None where they have
                  no weight. May lie outside of 0 to 1: then the unseen do not matter, or cannot help
    model         their mean relevance as the model predicts it; None without a model
    hidden_predicted, hidden_observed    the check of the model: mean relevance of results at the lowest positions, as
                  predicted from those above, and as clicked; None where it could not be made
    hidden_positions    how many positions were hidden for that
    without_model reason why there is no model; empty where there is one
    """

    results: int
    per_page: float
    break_even: Interval | None
    model: Interval | None
    hidden_predicted: float | None = None
    hidden_observed: Interval | None = None
    hidden_positions: int = 0
    without_model: str = ""


@dataclass(frozen=True)
class SensitivityCheck:
    """The first measure under another assumption.

    name         in a table: "η + 0.5", "γ = 0.3"
    about        what was assumed, in a sentence
    kind         "curve", "model" or "control"
    gain         the difference, above 0 if new is better
    decision     what it alone would say
    """

    name: str
    about: str
    kind: Literal["curve", "model", "control"]
    gain: Interval
    decision: Decision


@dataclass(frozen=True)
class Placebo:
    """Clicks permuted among the impressions of each position, so that no candidate differs from another.

    gain     of an order over the log's own, among results that were seen, the mean over `permutations`; with the right
             curve at most 0
    passed   whether it is not clearly above 0
    order    the name of the order, which is the one of two that is ahead
    """

    gain: Interval
    permutations: int
    passed: bool
    order: str = "new"


@dataclass(frozen=True)
class WayToSettle:
    """An experiment that would settle the question with 80% power.

    name    "A/B test"
    pages   how many pages it takes; None where it cannot settle it
    about   what it is, and what was assumed, in a sentence
    """

    name: str
    pages: int | None
    about: str


@dataclass(frozen=True)
class ClickVerdict:
    """The answer.

    decision         better, worse, no difference (larger than the margin), cannot tell
    margin           the smallest difference that matters, in the units of the first measure
    reason           in a sentence or two
    depends_on_unseen    whether it would be open without the model of the unseen
    """

    decision: Decision
    margin: float
    reason: str
    depends_on_unseen: bool

    @property
    def words(self) -> str:
        """The decision in words.

        >>> ClickVerdict("no difference", 0.01, "", False).words
        'no difference larger than 0.01'
        """
        return f"no difference larger than {self.margin:.3g}" if self.decision == "no difference" else self.decision


@dataclass(frozen=True, repr=False)
class ClickComparison(Mapping[str, MeasuredPair]):
    """Two rankers, judged by clicks alone: `comparison["DCG@5"]` is the measure of both, with their difference.

    new, old       what they are called
    estimator      the label of the off-policy estimator
    curve          where the propensities come from, in words
    curve_is_estimated    whether their uncertainty is known and counted
    measures       by name; the first decides
    left_out       queries that a ranker was trained on, and that were left out
    """

    data: str
    synthetic: bool
    new: str
    old: str
    estimator: str
    curve: str
    curve_is_estimated: bool
    measures: Mapping[str, MeasuredPair]
    support: Support
    unseen: Unseen
    checks: tuple[SensitivityCheck, ...]
    placebo: Placebo | None
    verdict: ClickVerdict
    settling: tuple[WayToSettle, ...]
    left_out: int = 0
    notes: tuple[str, ...] = ()

    def __getitem__(self, measure: str) -> MeasuredPair:
        pair: MeasuredPair = _by_name(self.measures, measure)
        return pair

    def __iter__(self) -> Iterator[str]:
        return iter(self.measures)

    def __len__(self) -> int:
        return len(self.measures)

    @property
    def first(self) -> MeasuredPair:
        """The measure that decides."""
        return next(iter(self.measures.values()))

    def __str__(self) -> str:
        lines = [f"{self.new} against {self.old} on {data_label(self.data, self.synthetic)}, by clicks alone"]
        lines.append(log_words(self))
        width = max(7, *map(len, self.measures))
        interval = f"{self.first.interval.confidence:.0%} interval"
        lines.append(f"  {'measure':<{width}}  {'new':>8}  {'old':>8}  {'difference':>10}  {interval:>18}")
        for name, pair in self.measures.items():
            found = pair.interval
            lines.append(
                f"  {name:<{width}}  {pair.new.interval.estimate:>8.4f}  {pair.old.interval.estimate:>8.4f}  "
                f"{found.estimate:>+10.4f}  {f'{found.low:+.4f} … {found.high:+.4f}':>18}"
            )
        lines.append(f"{self.verdict.words}: {self.verdict.reason}")
        if self.settling:
            ways = (f"{way.name} ({way.pages:,} pages)" for way in self.settling if way.pages is not None)
            does = "settle" if self.verdict.decision == "cannot tell" else "confirm"
            lines.append(f"what would {does} it: {listed(ways, 'or') or 'none of the experiments considered'}")
        return "\n".join(lines)

    __repr__ = __str__

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        found = {
            "verdict": self.verdict.words,
            "decision": self.verdict.decision,
            "reason": self.verdict.reason,
            "margin": self.verdict.margin,
            "depends_on_unseen": self.verdict.depends_on_unseen,
            **{name: getattr(self, name) for name in ("data", "synthetic", "new", "old", "estimator", "curve")},
            "curve_is_estimated": self.curve_is_estimated,
            "measures": {name: pair.as_dict() for name, pair in self.measures.items()},
        }
        parts = {name: getattr(self, name) for name in ("support", "unseen", "placebo")}
        found |= {name: None if part is None else asdict(part) for name, part in parts.items()}
        found["checks"] = [asdict(check) for check in self.checks]
        found["settling"] = [asdict(way) for way in self.settling]
        return {**found, "left_out": self.left_out, "notes": list(self.notes)}

    def to_html(self) -> str:
        """One page that needs no other file."""
        from cldrank.documents import render_html
        from cldrank.evaluation.result_documents import verdict_document

        return render_html(verdict_document(self))

    def _repr_html_(self) -> str:
        from cldrank.documents import render_notebook
        from cldrank.evaluation.result_documents import brief_verdict_document

        return render_notebook(brief_verdict_document(self))


@dataclass(frozen=True, repr=False)
class ClickEvaluation(Mapping[str, float]):
    """One ranker, measured by clicks alone: `evaluation["DCG@5"]` is a number, `measures` has it with its interval."""

    data: str
    synthetic: bool
    ranker: str
    estimator: str
    curve: str
    curve_is_estimated: bool
    measures: Mapping[str, ClickEstimate]
    support: Support
    unseen: Unseen
    left_out: int = 0
    notes: tuple[str, ...] = ()

    def __getitem__(self, measure: str) -> float:
        return float(_by_name(self.measures, measure).interval.estimate)

    def __iter__(self) -> Iterator[str]:
        return iter(self.measures)

    def __len__(self) -> int:
        return len(self.measures)

    def __str__(self) -> str:
        lines = [f"{self.ranker} on {data_label(self.data, self.synthetic)}, by clicks alone", log_words(self)]
        width = max(map(len, self.measures))
        lines += [f"  {name:<{width}}  {found.interval:.4f}" for name, found in self.measures.items()]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from cldrank.documents import render_notebook
        from cldrank.evaluation.result_documents import click_evaluation_document

        return render_notebook(click_evaluation_document(self))

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        names = ("data", "synthetic", "ranker", "estimator", "curve", "curve_is_estimated", "left_out")
        return {
            **{name: getattr(self, name) for name in names},
            "measures": {name: found.as_dict() for name, found in self.measures.items()},
            "support": asdict(self.support),
            "unseen": asdict(self.unseen),
            "notes": list(self.notes),
        }


def _by_name(measures: Mapping[str, Any], name: str) -> Any:
    for known, found in measures.items():
        if known.casefold() == str(name).casefold():
            return found
    raise KeyError(f"{name}; there are {', '.join(measures)}")


def log_words(result: ClickComparison | ClickEvaluation) -> str:
    """The log that judges, in numbers."""
    seen = result.support
    left = ""
    if result.left_out:
        queries = count(result.left_out, "query", "queries")
        left = f"; {queries} left out, since a ranker was trained on {'it' if result.left_out == 1 else 'them'}"
    return (
        f"{count(seen.queries, 'query', 'queries')}, {count(seen.pages, 'page')}, "
        f"{count(seen.impressions, 'impression')}, {count(seen.clicks, 'click')}{left}"
    )
