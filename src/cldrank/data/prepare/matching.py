"""How well a query's terms match one field of a document: sixteen features in the manner of MSLR-WEB10K."""

from __future__ import annotations

import numpy as np

from cldrank._typing import FloatArray, IntArray
from cldrank.data.prepare.terms import FieldTerms

MATCHING = (
    "covered",
    "covered_ratio",
    "length",
    "idf_sum",
    "tf_sum",
    "tf_min",
    "tf_max",
    "tf_mean",
    "tf_var",
    "ntf_sum",
    "tfidf_sum",
    "tfidf_max",
    "tfidf_mean",
    "bm25",
    "lm_dir",
    "lm_jm",
)

_K1, _B = 1.2, 0.75  # BM25
_MU = 500.0  # Dirichlet smoothing: how many words of the collection are added to a document
_LAMBDA = 0.1  # Jelinek–Mercer smoothing: the weight of the collection
_UNKNOWN = 1e-6  # the probability that stands for the words of a query that has none


class FieldMatcher:
    """Computes the features of one field.

    With N documents, n of them with the term, t its count in the field, L the field's length and A the average one, and
    p = (count in all documents + 0.1) / (length of all documents + 1):

        idf      log((N + 1) / (n + ½))
        bm25     Σ log(1 + (N − n + ½) / (n + ½)) · t · (k₁ + 1) / (t + k₁ (1 − b + b L / A)),  k₁ = 1.2, b = 0.75
        lm_dir   Σ log((t + μ p) / (L + μ)),  μ = 500
        lm_jm    Σ log(0.9 t / L + 0.1 p)

    each Σ over the distinct terms of the query.
    """

    def __init__(self, field: FieldTerms) -> None:
        documents, with_term = len(field.lengths), field.documents_with
        total = field.lengths.sum() or 1.0
        self.field = field
        self.average = field.lengths.mean() or 1.0
        self.idf = np.log((documents + 1) / (with_term + 0.5))
        self.bm25_idf = np.log(1 + (documents - with_term + 0.5) / (with_term + 0.5))
        self.share = (field.occurrences + 0.1) / (total + 1)

    def features(self, documents: IntArray, numbers: IntArray) -> FloatArray:
        """(rows, 16) the features of rows; `numbers` are the distinct terms of each row's query, (rows, width)."""
        lengths = self.field.lengths[documents]
        if not numbers.shape[1]:  # one term that no document holds, and that weighs nothing
            none = np.zeros((len(documents), 1))
            return self._features(none, lengths, none, none, np.full_like(none, _UNKNOWN))
        count = self.field.frequencies(documents, numbers)
        return self._features(count, lengths, self.idf[numbers], self.bm25_idf[numbers], self.share[numbers])

    def _features(
        self, count: FloatArray, lengths: FloatArray, idf: FloatArray, bm25_idf: FloatArray, share: FloatArray
    ) -> FloatArray:
        length = lengths[:, None]
        relative = np.divide(count, length, out=np.zeros_like(count), where=length > 0)
        norm = _K1 * (1 - _B + _B * length / self.average)
        present, weighted, total = count > 0, count * idf, count.sum(axis=1)
        return np.column_stack(
            [
                present.sum(axis=1),
                present.mean(axis=1),
                lengths,
                np.where(present, idf, 0.0).sum(axis=1),
                total,
                count.min(axis=1),
                count.max(axis=1),
                count.mean(axis=1),
                count.var(axis=1),
                np.divide(total, lengths, out=np.zeros_like(lengths), where=lengths > 0),
                weighted.sum(axis=1),
                weighted.max(axis=1),
                weighted.mean(axis=1),
                (bm25_idf * count * (_K1 + 1) / (count + norm)).sum(axis=1),
                np.log((count + _MU * share) / (length + _MU)).sum(axis=1),
                np.log((1 - _LAMBDA) * relative + _LAMBDA * share).sum(axis=1),
            ]
        )
