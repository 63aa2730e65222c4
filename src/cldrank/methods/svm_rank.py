"""SVMRank: a linear SVM on pairs within a query, learned from a small part of the labels, as production rankers are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank import scaling as scalings
from cldrank import segments
from cldrank._typing import IntArray
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, UsageError
from cldrank.methods.evidence import Evidence
from cldrank.methods.method import Method
from cldrank.models import Linear
from cldrank.models.fit import Fit, linear_ranker
from cldrank.parameters import described, learned, parameter
from cldrank.rankers.provenance import FitRecord


@described
class SVMRank(Method):
    """Linear ranking SVM on a random fraction of the labelled rows.

        minimise  ½ ‖β‖² + C Σ_{i better than j, same query} max(0, 1 - β·(x_i - x_j))²

    The fraction is made of whole queries, drawn until their rows reach it, as only pairs within a query teach anything.
    At most `max_pairs` pairs are used, drawn evenly from all. `n_rows_` and `n_pairs_` say what was learned from.

    >>> data = RankingDataset.from_arrays([[0, 1], [1, 0], [2, 1], [3, 0]], [1, 1, 2, 2], labels=[0, 1, 2, 3])
    >>> model = SVMRank(fraction=1).fit(data)
    >>> model.predict(data).argsort(), model.n_pairs_
    (array([0, 2, 1, 3]), 2)
    """

    name = "svm-rank"
    label = "SVM-rank"
    sentence = "learns from a small part of the labels, as production rankers are made"
    order = 91
    needs = "labels"
    learns = "labels"
    way = "fit_margins"

    model: Linear = parameter(default=Linear(), about="what is fitted", option=False)
    fraction: float = parameter(default=0.01, about="share of the labelled rows to learn from", above=0, most=1)
    C: float = parameter(default=0.01, about="weight of the pairs against the penalty", above=0)
    max_pairs: int = parameter(default=20_000, about="most pairs to learn from, drawn evenly from all", least=1)

    n_pairs_: int = learned(about="how many pairs of rows it has learned from")

    def _learn(self, evidence: Evidence) -> Fit:
        if evidence.data.query_weights is not None:
            raise UsageError(f"{self.label} draws queries and takes no `query_weights`; choose another method.")
        data, context = evidence.data, self._context(evidence.data)
        scaling = scalings.fit(self.model.scaling, data.features)
        random = np.random.default_rng(self.run.seed)
        rows, offsets = self._sampled(data, random)
        better, worse = label_pairs(np.asarray(data.labels)[rows], offsets, self.max_pairs, random)
        if not len(better):
            raise DataError(
                f"the {len(rows):,} rows that `fraction={self.fraction!r}` draws from {data!r} hold no two of the "
                "same query with different labels; choose a larger fraction."
            )
        scaled = scaling.transform(data.features[rows]).astype(np.float64)
        coefficients = separated(scaled[better] - scaled[worse], float(self.C))
        return Fit(
            ranker=linear_ranker(context, scaling, coefficients, 0.0),
            diagnostics=FitRecord(status="converged", steps=1),
            learned={"coef": coefficients, "intercept": 0.0, "n_rows": len(rows), "n_pairs": len(better)},
        )

    def _sampled(self, data: RankingDataset, random: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Some rows, those of a query together, and their offsets."""
        wanted = max(round(self.fraction * data.n_rows), 1)
        order = random.permutation(data.n_queries)
        enough = int(np.searchsorted(np.cumsum(data.sizes[order]), wanted)) + 1
        queries = np.sort(order[:enough])
        return segments.rows_of_segments(data.offsets, queries), segments.from_lengths(data.sizes[queries])


def label_pairs(
    labels: NDArray[Any], offsets: IntArray, most: int, random: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Pairs within a query with different labels, the better row first: all of them, or `most` drawn evenly.

    >>> label_pairs(np.array([0, 2, 1, 1]), np.array([0, 3, 4]), 10, np.random.default_rng(0))
    (array([1, 1, 2]), array([2, 0, 0]))
    """
    query = segments.segment_of_rows(offsets)
    order = np.lexsort((-labels, query))  # best first, so that all worse rows are behind a row's equals
    ends = offsets[1:][query]
    changes = np.flatnonzero((np.diff(query) != 0) | (np.diff(labels[order]) != 0)) + 1
    alike = segments.segment_of_rows(np.concatenate([[0], changes, [len(labels)]]))
    behind = np.append(changes, len(labels))[alike]  # where the equals of each sorted row end
    counts = ends - behind
    firsts = np.cumsum(counts) - counts
    total = int(counts.sum())
    chosen = np.arange(total) if total <= most else np.sort(random.choice(total, most, replace=False, shuffle=False))
    better = np.searchsorted(firsts + counts, chosen, side="right")
    worse = behind[better] + chosen - firsts[better]
    return order[better], order[worse]


def separated(differences: NDArray[np.float64], C: float) -> NDArray[np.float64]:
    """The β that minimises ½ ‖β‖² + C Σ max(0, 1 - β·difference)², by liblinear's Newton method."""
    from sklearn.svm import LinearSVC

    weight = np.ones(len(differences))
    if len(differences) == 1:
        differences, weight = np.repeat(differences, 2, axis=0), np.full(2, 0.5)
    sign = np.where(np.arange(len(differences)) % 2, -1.0, 1.0)  # a classifier wants two classes: turn every other pair
    machine = LinearSVC(C=C, dual=False, fit_intercept=False, tol=1e-8, max_iter=10_000)
    machine.fit(differences * sign[:, None], sign, sample_weight=weight)
    coefficients: NDArray[np.float64] = machine.coef_[0]
    return coefficients
