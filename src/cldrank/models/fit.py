"""What a model leaves when it has been fitted: a ranker, and what is known about the fit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from cldrank.data.dataset import RankingDataset
from cldrank.models.linear.inference import Estimates
from cldrank.models.run import Epoch, Run
from cldrank.rankers import LinearRanker, Provenance, Ranker, TreeRanker
from cldrank.rankers.provenance import FitRecord
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
    """A fitted model.

    ranker        scores candidates
    diagnostics   how the fit ended: what the model card, JSON and the summary say of it
    learned       by name, what a method keeps as attributes whose names end in an underscore
    facts         more lines of a summary, as names and values
    """

    ranker: Ranker
    diagnostics: FitRecord
    learned: Mapping[str, Any] = field(default_factory=dict)
    facts: Sequence[tuple[str, str]] = ()

    def keeping(self, **learned: Any) -> Self:
        """The same with more for the method to keep."""
        return replace(self, learned={**self.learned, **learned})

    def summary(self, before: Facts, behind: Facts) -> FitSummary:
        """The fit to read, between lines about the method: the parameters of a linear model, the features of trees."""
        trained = isinstance(self.ranker, LinearRanker) and "history" not in self.learned
        origin = ("ranker", str(self.ranker.provenance) if trained else repr(self.ranker))
        facts = [*before, origin, *self.facts, *behind]
        width = max(len(name) for name, _ in facts)
        text = "\n".join(f"{name:<{width}}    {value}" for name, value in facts)
        if isinstance(self.ranker, TreeRanker):
            shares = list(self.ranker.importance().items())[:_MOST_FEATURES]
            longest = max((len(name) for name, _ in shares), default=0)
            table = "\n".join(f"{name:<{longest}}    {share:.1%}" for name, share in shares)
            return FitSummary(f"{text}\n\nshares of gain\n{table}")
        return FitSummary(f"{text}\n\n{self.learned['estimates']!r}" if "estimates" in self.learned else text)


class FitSummary(str):
    """The text of a summary, which a notebook shows as it is.

    >>> FitSummary("method    IPS()")._repr_html_()
    '<pre>method    IPS()</pre>'
    """

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"


def linear_fit(
    context: Context,
    scaling: Scaling,
    coefficients: NDArray[np.float64],
    intercept: float,
    estimates: Estimates,
    *,
    log_likelihood: float,
    observed: Any,
    errors: str,
    status: str = "converged",
    steps: int = 1,
    constant: Iterable[str] = (),
    collinear: Iterable[str] = (),
    facts: Facts | None = None,
    **learned: Any,
) -> Fit:
    """A fitted linear model, whose coefficients belong to the scaled features.

    log_likelihood         of all rows, without the penalty
    observed               the weighted rows learned from
    errors                 where standard errors come from, in words
    constant, collinear    features without any variation, and those that the features before them determine
    """
    constant, collinear = tuple(constant), tuple(collinear)
    rows, weight = int(observed.n_rows), float(observed.total)
    lines = [
        ("rows", f"{rows:,} of total weight {weight:,.0f}"),
        ("log-likelihood", f"{log_likelihood:,.4f}"),
        ("status", f"{status}, {count(steps, 'step')}"),
        ("std. errors", errors),
    ]
    lines += [("constant", f"no weight: {some(constant)}")] if constant else []
    lines += [("collinear", f"coefficients mean little: {some(collinear)}")] if collinear else []
    return Fit(
        ranker=linear_ranker(context, scaling, coefficients, intercept),
        diagnostics=FitRecord(
            status=status,
            steps=steps,
            log_likelihood=finite(log_likelihood),
            rows=rows,
            weight=finite(weight),
            constant=constant,
            collinear=collinear,
        ),
        learned={
            "coef": coefficients,
            "intercept": intercept,
            "standard_errors": estimates.error_of("relevance", context.data.feature_names),
            "estimates": estimates,
            "log_likelihood": log_likelihood,
            "n_rows": rows,
            "weight": weight,
            "constant_features": constant,
            "collinear_features": collinear,
            **learned,
        },
        facts=[*lines, *(facts or [])],
    )


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


def trained_fit(
    context: Context,
    ranker: Ranker,
    status: str,
    history: Sequence[Epoch],
    queries: tuple[int, int],
    *,
    step: str,
    **learned: Any,
) -> Fit:
    """What was trained step by step, while held-out queries chose what to keep.

    history   an `Epoch` for each step; the concordance on held-out queries is with the method's own targets, so it
              chooses what is kept but does not compare methods
    queries   how many were learned from, and how many were held out
    step      what a step is called
    """
    kept = max((epoch for epoch in history if epoch.best), key=lambda epoch: epoch.number)
    held = "nothing held out"
    if kept.validation is not None:
        loss = "" if kept.held_loss is None else f"loss {kept.held_loss:.4f}, "
        held = f"held-out {loss}concordance {kept.validation:.4f} with {context.target}"
    seconds = sum(epoch.seconds for epoch in history)
    named = count(kept.number, step) if isinstance(ranker, TreeRanker) else f"{step} {kept.number}"
    return Fit(
        ranker=ranker,
        diagnostics=FitRecord(
            status=status,
            steps=len(history),
            kept=kept.number,
            loss=finite(kept.loss),
            learned_queries=queries[0],
            held_queries=queries[1],
            held_loss=finite(kept.held_loss),
            concordance=finite(kept.validation),
            held_target=context.target if queries[1] else "",
        ),
        learned={
            "history": tuple(history),
            "best_epoch": kept.number,
            "n_queries": queries[0],
            "n_held": queries[1],
            **learned,
        },
        facts=[
            ("queries", f"{queries[0]:,} learned from, {queries[1]:,} held out"),
            ("status", f"{status}, {count(len(history), step)}, {seconds:.1f} s"),
            ("kept", f"{named}: loss {kept.loss:.4f}, {held}"),
        ],
    )


def finite(value: float | None) -> float | None:
    """A number that JSON can hold; None for any other."""
    return None if value is None or not math.isfinite(value) else float(value)
