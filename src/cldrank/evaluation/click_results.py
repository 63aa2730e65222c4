"""What clicks say about rankers, as values: what the log can see, checks, comparisons and evaluations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from cldrank.evaluation.by_labels import MeasuredResult
from cldrank.evaluation.intervals import ClickEstimate, MeasuredPair
from cldrank.measures import Interval

if TYPE_CHECKING:
    from cldrank.documents import Document
    from cldrank.evaluation.decision_rule import ClickVerdict, Decision


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


@dataclass(frozen=True)
class NeverShown:
    """The never-shown results that the new order lifts into its first k.

    results       how many there are
    per_page      how many a page of the new order has
    break_even    the mean relevance from which on the new order is better, by the first measure; None where they have
                  no weight. May lie outside of 0 to 1: then they do not matter, or cannot help
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
class PermutationCheck:
    """Clicks permuted among the impressions of each position, so that no candidate differs from another.

    gain     of an order over the log's own, among results that were shown, the mean over `permutations`; with the right
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

    name            "A/B test"
    pages           how many pages it takes if the difference is as estimated; None where it cannot settle it
    about           what it is, and what was assumed, in a sentence
    pages_at_margin how many it takes for the smallest difference that matters, if that is known to be more

    Pages are rounded to two digits.

    >>> WayToSettle("A/B test", 12_345, "half of the pages with each ranker").pages
    12000
    """

    name: str
    pages: int | None
    about: str
    pages_at_margin: int | None = None

    def __post_init__(self) -> None:
        for name in ("pages", "pages_at_margin"):
            pages = getattr(self, name)
            if pages is not None:
                object.__setattr__(self, name, int(float(f"{pages:.2g}")))


@dataclass(frozen=True, repr=False)
class ClickComparison(MeasuredResult[MeasuredPair]):
    """Two rankers, judged by clicks alone: `comparison["DCG@5"]` is the measure of both, with their difference.

    new, old       what they are called
    estimator      the label of the off-policy estimator
    curve          where the propensities come from, in words
    curve_is_estimated    whether their uncertainty is known and counted
    measures       by name; the first decides
    settling       experiments that would settle an open verdict, or confirm one
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
    never_shown: NeverShown
    checks: tuple[SensitivityCheck, ...]
    permutation_check: PermutationCheck | None
    verdict: ClickVerdict
    settling: tuple[WayToSettle, ...]
    left_out: int = 0
    notes: tuple[str, ...] = ()

    @property
    def _entries(self) -> Mapping[str, MeasuredPair]:
        return self.measures

    @property
    def first(self) -> MeasuredPair:
        """The measure that decides."""
        return next(iter(self.measures.values()))

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        verdict = asdict(self.verdict)
        values = {"verdict": self.verdict.words, **verdict, **_plain(self)}
        return {**values, "measures": {name: pair.as_dict() for name, pair in self.measures.items()}}

    def document(self) -> Document:
        """The verdict with the gain by each measure."""
        from cldrank.evaluation.result_documents import brief_document

        return brief_document(self)

    def to_html(self) -> str:
        """One page that needs no other file."""
        from cldrank.documents import render_html
        from cldrank.evaluation.result_documents import verdict_document

        return render_html(verdict_document(self))


@dataclass(frozen=True, repr=False)
class ClickEvaluation(MeasuredResult[float]):
    """One ranker, measured by clicks alone: `evaluation["DCG@5"]` is a number, `measures` has it with its interval."""

    data: str
    synthetic: bool
    ranker: str
    estimator: str
    curve: str
    curve_is_estimated: bool
    measures: Mapping[str, ClickEstimate]
    support: Support
    never_shown: NeverShown
    left_out: int = 0
    notes: tuple[str, ...] = ()

    @property
    def _entries(self) -> Mapping[str, float]:
        return {name: estimate.interval.estimate for name, estimate in self.measures.items()}

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        measures = {name: estimate.as_dict() for name, estimate in self.measures.items()}
        return {**_plain(self), "measures": measures}

    def document(self) -> Document:
        """Estimates, what the log can see, and never-shown results."""
        from cldrank.evaluation.result_documents import click_evaluation_document

        return click_evaluation_document(self)


def _plain(result: ClickComparison | ClickEvaluation) -> dict[str, Any]:
    """All but the verdict, as plain values in the order of the fields; `measures` are yet to be filled in."""
    values = asdict(result)
    values.pop("verdict", None)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
