"""What a model leaves when it has been fitted: a ranker, and what is known about the fit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from cldrank.data.dataset import RankingDataset
from cldrank.models.run import Epoch, Run
from cldrank.rankers import LinearRanker, Provenance, Ranker
from cldrank.rankers.provenance import FitRecord
from cldrank.scaling import Scaling


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

    def decisive(self, *free: str) -> dict[str, Any]:
        """The parameters that decide the course of a training: all but those of the run, and those that are free."""
        given = self.provenance.parameters
        return {name: value for name, value in given.items() if name not in free and not name.startswith("run__")}


@dataclass(frozen=True, eq=False, kw_only=True)
class Fit:
    """A fitted model.

    ranker        scores candidates
    diagnostics   how the fit ended: what the model card, JSON and the summary say of it
    learned       by name, what a method keeps as attributes whose names end in an underscore
    """

    ranker: Ranker
    diagnostics: FitRecord
    learned: Mapping[str, Any] = field(default_factory=dict)

    def keeping(self, **learned: Any) -> Self:
        """The same with more for the method to keep."""
        return replace(self, learned={**self.learned, **learned})

    def summary(self, about: Mapping[str, str]) -> str:
        """The fit to read, below what is said about the method."""
        facts = {**about, "ranker": repr(self.ranker), **self.diagnostics.facts()}
        width = max(map(len, facts))
        texts = {name: f"{value:,.4f}" if isinstance(value, float) else str(value) for name, value in facts.items()}
        return "\n".join(f"{name:<{width}}    {text}" for name, text in texts.items())


def linear_fit(
    context: Context,
    scaling: Scaling,
    coefficients: NDArray[np.float64],
    intercept: float,
    *,
    observed: Any,
    constant: Iterable[str],
    log_likelihood: float | None = None,
    status: str = "converged",
    steps: int = 1,
    **learned: Any,
) -> Fit:
    """A fitted linear model, whose coefficients belong to the scaled features.

    observed         the weighted rows learned from
    constant         features without any variation
    log_likelihood   of all rows, without any penalty
    """
    constant = tuple(constant)
    rows, weight = int(observed.n_rows), float(observed.total)
    if log_likelihood is not None:
        learned["log_likelihood"] = log_likelihood
    return Fit(
        ranker=linear_ranker(context, scaling, coefficients, intercept),
        diagnostics=FitRecord(
            status=status,
            steps=steps,
            log_likelihood=finite(log_likelihood),
            rows=rows,
            weight=finite(weight),
            constant=constant,
        ),
        learned={
            "coef": coefficients,
            "intercept": intercept,
            "n_rows": rows,
            "weight": weight,
            "constant_features": constant,
            **learned,
        },
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
    context: Context, ranker: Ranker, status: str, history: Sequence[Epoch], queries: tuple[int, int], **learned: Any
) -> Fit:
    """What was trained step by step, while held-out queries chose what to keep.

    history   an `Epoch` for each step; the concordance on held-out queries is with the method's own targets, so it
              chooses what is kept but does not compare methods
    queries   how many were learned from, and how many were held out
    """
    kept = max((epoch for epoch in history if epoch.best), key=lambda epoch: epoch.number)
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
    )


def finite(value: float | None) -> float | None:
    """A number that JSON can hold; None for any other."""
    return None if value is None or not math.isfinite(value) else float(value)
