"""What clicks say about rankers, as values: what the log can see, checks, comparisons and evaluations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from cldrank.evaluation.by_labels import MeasuredResult
from cldrank.evaluation.intervals import MeasuredPair
from cldrank.measures import Interval
from cldrank.methods.rating_quality import Agreement
from cldrank.propensity.behaviour import Behaviour

if TYPE_CHECKING:
    from cldrank.documents import Document
    from cldrank.evaluation.decision_rule import ClickVerdict, Decision

Value = TypeVar("Value")


@dataclass(frozen=True)
class Support:
    """How much of an order the log can see.

    k               results per page that count
    queries, pages, impressions, clicks    of the log, of the queries that are judged
    shown           the share of the order's first k that was ever shown, over pages
    shown_old       the same for the other order; None where there is none
    effective       impressions of equal weight that would be as precise
    events          the weights and numbers of events that relevance counts, in words; empty: clicks alone
    """

    k: int
    queries: int
    pages: int
    impressions: int
    clicks: int
    shown: float
    shown_old: float | None
    effective: float
    events: str = ""


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
    without_model the reason why there is no model; empty if there is
    most          the largest relevance there is: 1, or what a click with all events is worth
    """

    results: int
    per_page: float
    break_even: Interval | None
    model: Interval | None
    hidden_predicted: float | None = None
    hidden_observed: Interval | None = None
    without_model: str = ""
    most: float = 1.0


@dataclass(frozen=True)
class SensitivityCheck:
    """The first measure under another curve.

    name         in a table: "η + 0.5"
    gain         the difference
    decision     what it alone would say
    """

    name: str
    gain: Interval
    decision: Decision


@dataclass(frozen=True)
class PermutationCheck:
    """Clicks permuted among the impressions of each position, so that no candidate differs from another.

    gain     of an order over the log's own, among results that were shown; with the right curve at most 0
    passed   whether it is not clearly above 0
    order    the name of the order, that of the ranker that is ahead
    """

    gain: Interval
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
                object.__setattr__(self, name, two_digits(pages))


def two_digits(pages: int) -> int:
    """A number of pages as well as it is known.

    >>> two_digits(12_345)
    12000
    """
    return int(float(f"{pages:.2g}"))


@dataclass(frozen=True)
class RatingUse:
    """What became of ratings beside clicks.

    account     how many were read, and why others were set aside
    agreements  how well they agree with clicks, people and machines apart; ratings that do not are not used
    by_people   how many never-shown results are predicted with what people rated
    unused      why none of them is used at all; empty if that is up to their agreement
    """

    account: str
    agreements: tuple[Agreement, ...] = ()
    by_people: int = 0
    unused: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {**asdict(self), "agreements": [agreement.as_dict() for agreement in self.agreements]}


@dataclass(frozen=True, repr=False, kw_only=True)
class ByClicks(MeasuredResult[Value]):
    """What every result by clicks says of the log, and of how it judges.

    estimator      the label of the off-policy estimator
    curve          the source of the propensities, in words
    curve_is_estimated    whether their uncertainty is known and included
    measures       by name; the first decides
    behaviour      what the log shows of how people behave after a click
    left_out       queries that a ranker was trained on, and that were left out
    ratings        what became of ratings beside the clicks; None without any
    """

    data: str
    synthetic: bool
    estimator: str
    curve: str
    curve_is_estimated: bool
    measures: Mapping[str, Any]
    support: Support
    never_shown: NeverShown
    behaviour: Behaviour
    left_out: int = 0
    ratings: RatingUse | None = None

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        values = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        people, below = self.behaviour, self.behaviour.overall
        ratio = None if below is None else [below.ratio, below.low, below.high]
        values["behaviour"] = {"looks": people.looks, "p_value": people.p_value, "below_clicks": ratio}
        values["ratings"] = None if self.ratings is None else self.ratings.as_dict()
        return {**values, "measures": {name: measured.as_dict() for name, measured in self.measures.items()}}


@dataclass(frozen=True, repr=False, kw_only=True)
class ClickComparison(ByClicks[MeasuredPair]):
    """Two rankers, judged by clicks alone: `comparison["DCG@5"]` is the measure of both, with their difference.

    new, old       what they are called
    checks         the first measure under other curves, where the verdict must hold under them
    settling       experiments that would settle an open verdict, or confirm any other
    """

    new: str
    old: str
    checks: tuple[SensitivityCheck, ...]
    permutation_check: PermutationCheck | None
    verdict: ClickVerdict
    settling: tuple[WayToSettle, ...]

    @property
    def _entries(self) -> Mapping[str, MeasuredPair]:
        return self.measures

    @property
    def first(self) -> MeasuredPair:
        """The measure that decides."""
        return next(iter(self._entries.values()))

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON; `verdict` is in words."""
        values = super().as_dict()
        return {**values, **values.pop("verdict"), "verdict": self.verdict.words}

    def document(self) -> Document:
        """The verdict, and all that it rests on."""
        from cldrank.evaluation.result_documents import verdict_document

        return verdict_document(self)


@dataclass(frozen=True, repr=False, kw_only=True)
class ClickEvaluation(ByClicks[float]):
    """One ranker, measured by clicks alone: `evaluation["DCG@5"]` is a number, `measures` has it with its interval."""

    ranker: str

    @property
    def _entries(self) -> Mapping[str, float]:
        return {name: estimate.interval.estimate for name, estimate in self.measures.items()}

    def document(self) -> Document:
        """Estimates, what the log can see, and never-shown results."""
        from cldrank.evaluation.result_documents import click_evaluation_document

        return click_evaluation_document(self)
