"""What a model leaves when it has been fitted: a ranker, and what is known about the fit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from cldrank.data.dataset import RankingDataset
from cldrank.models.linear.inference import Estimates
from cldrank.models.run import Epoch, Run
from cldrank.rankers import LinearRanker, Provenance, Ranker, TreeRanker
from cldrank.scaling import Scaling
from cldrank.wording import count, some

_MOST_FEATURES = 10  # that a summary names

Facts = list[tuple[str, str]]


@dataclass(frozen=True, eq=False)
class Context:
    """What a model needs to know beside its targets.

    data         the candidates and their features
    run          where and how to compute
    user         the name of the method, for messages
    target       what it learns, in words: held-out queries are judged against it
    provenance   of the ranker to be made
    """

    data: RankingDataset
    run: Run
    user: str
    target: str
    provenance: Provenance


@dataclass(frozen=True, eq=False, kw_only=True)
class Fit:
    """A fitted model. A method keeps each field as an attribute whose name ends in an underscore.

    ranker        scores candidates
    status        how the fit ended
    n_iter        steps or epochs taken
    warm_start    the ranker that it began with, in words; empty for none
    """

    ranker: Ranker
    status: str
    n_iter: int
    warm_start: str = ""

    def facts(self) -> Facts:
        """Lines of a summary, as names and values."""
        return [("ranker", str(self.ranker.provenance)), ("status", f"{self.status}, {self.n_iter} steps")]

    def table(self) -> str:
        """What a summary shows below these lines."""
        return ""

    def chart(self) -> str:
        """What a summary shows in a notebook below that, as SVG."""
        return ""


class FitSummary(str):
    """The text of a summary; a notebook shows its chart as well.

    >>> FitSummary("method    IPS()", chart="<svg/>")._repr_html_()
    '<pre>method    IPS()</pre><svg/>'
    """

    chart: str

    def __new__(cls, text: str, *, chart: str = "") -> Self:
        """A text and, for notebooks, a chart as SVG."""
        made = super().__new__(cls, text)
        made.chart = chart
        return made

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>{self.chart}"


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearFit(Fit):
    """A fitted linear model. Coefficients belong to the scaled features.

    coef, intercept      of the score
    standard_errors      of `coef`; NaN where a feature has none
    estimates            all parameters by name, with their covariance
    log_likelihood       of all rows, without the penalty
    n_rows, weight       the weighted rows learned from, and their total weight
    constant_features    without any variation: their coefficient is 0
    collinear_features   determined by the features before them: their own coefficients mean little
    errors               where standard errors come from, in words
    """

    coef: NDArray[np.float64]
    intercept: float
    standard_errors: NDArray[np.float64]
    estimates: Estimates
    log_likelihood: float
    n_rows: int
    weight: float
    constant_features: tuple[str, ...]
    collinear_features: tuple[str, ...]
    errors: str

    def facts(self) -> Facts:
        """Lines of a summary, as names and values."""
        facts = [
            ("ranker", str(self.ranker.provenance)),
            ("rows", f"{self.n_rows:,} of total weight {self.weight:,.0f}"),
            ("log-likelihood", f"{self.log_likelihood:,.4f}"),
            ("status", f"{self.status}, {count(self.n_iter, 'step')}"),
            ("std. errors", self.errors),
        ]
        if self.constant_features:
            facts.append(("constant", f"no weight: {some(self.constant_features)}"))
        if self.collinear_features:
            facts.append(("collinear", f"coefficients mean little: {some(self.collinear_features)}"))
        return facts

    def table(self) -> str:
        """All parameters with their standard errors."""
        return repr(self.estimates)


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainedFit(Fit):
    """What was trained step by step, while held-out queries chose what to keep.

    history       an `Epoch` for each step; the concordance on held-out queries is with the method's own targets, so it
                  chooses what is kept but does not compare methods
    best_epoch    the step that was kept
    n_queries     the queries learned from; `n_held` those held out
    held_target   in words, what held-out queries are judged against
    """

    step: ClassVar[str] = "epoch"

    history: tuple[Epoch, ...]
    best_epoch: int
    n_queries: int
    n_held: int
    held_target: str

    def facts(self) -> Facts:
        """Lines of a summary, as names and values."""
        kept = self.history[self.best_epoch - 1]
        held = "nothing held out"
        if kept.validation is not None:
            loss = "" if kept.held_loss is None else f"loss {kept.held_loss:.4f}, "
            held = f"held-out {loss}concordance {kept.validation:.4f} with {self.held_target}"
        seconds = sum(epoch.seconds for epoch in self.history)
        return [
            ("ranker", repr(self.ranker)),
            ("queries", f"{self.n_queries:,} learned from, {self.n_held:,} held out"),
            ("status", f"{self.status}, {count(self.n_iter, self.step)}, {seconds:.1f} s"),
            ("kept", f"{self._kept()}: loss {kept.loss:.4f}, {held}"),
        ]

    def _kept(self) -> str:
        return f"{self.step} {self.best_epoch}"


@dataclass(frozen=True, eq=False, kw_only=True)
class NetworkFit(TrainedFit):
    """A trained network; its status is `completed`, `early_stopped`, `interrupted` (by Ctrl-C) or `non_finite`."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SelectionNetworkFit(NetworkFit):
    """A network of relevance and a linear model of selection, `selection_coef` and `selection_intercept`."""

    selection_coef: NDArray[np.float64]
    selection_intercept: float


@dataclass(frozen=True, eq=False, kw_only=True)
class TreesFit(TrainedFit):
    """Boosted trees up to a round; their status is `completed`, `early_stopped` or `interrupted` (by Ctrl-C)."""

    step: ClassVar[str] = "round"

    def table(self) -> str:
        """The features that the trees rely on most."""
        return self.ranker.importance().table(_MOST_FEATURES) if isinstance(self.ranker, TreeRanker) else ""

    def chart(self) -> str:
        """The same as bars."""
        return self.ranker.importance()._repr_svg_() if isinstance(self.ranker, TreeRanker) else ""

    def _kept(self) -> str:
        return count(self.best_epoch, self.step)


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearPairFit(SelectionNetworkFit):
    """A linear model trained on pairs by the loop of networks; `coef` and `intercept` of the score, without errors."""

    coef: NDArray[np.float64]
    intercept: float

    @classmethod
    def of(cls, found: SelectionNetworkFit) -> Self:
        """The fit of a network without hidden layers."""
        ranker = found.ranker
        if not isinstance(ranker, LinearRanker):
            raise AssertionError("a network without hidden layers leaves a linear ranker")
        return cls(**vars(found), coef=ranker.coefficients, intercept=ranker.intercept)


def linear_parts(
    context: Context, scaling: Scaling, coefficients: NDArray[np.float64], intercept: float, estimates: Estimates
) -> dict[str, Any]:
    """What every `LinearFit` is made of: the ranker, its coefficients, and their standard errors."""
    return {
        "ranker": linear_ranker(context, scaling, coefficients, intercept),
        "coef": coefficients,
        "intercept": intercept,
        "standard_errors": estimates.error_of("relevance", context.data.feature_names),
        "estimates": estimates,
    }


def linear_ranker(
    context: Context, scaling: Scaling, coefficients: NDArray[np.float64], intercept: float
) -> LinearRanker:
    """The ranker of a linear fit."""
    return LinearRanker(
        feature_names=context.data.feature_names,
        scaling=scaling,
        coefficients=coefficients,
        intercept=intercept,
        provenance=context.provenance,
    )


def lines_of(facts: Iterable[tuple[str, str]]) -> str:
    """Facts about a fit, one per line, names and values aligned.

    >>> print(lines_of([("rows", "1,000"), ("status", "converged")]))
    rows      1,000
    status    converged
    """
    facts = list(facts)
    width = max((len(name) for name, _ in facts), default=0)
    return "\n".join(f"{name:<{width}}    {value}" for name, value in facts)
