"""How well a query's terms match a field of a document: words, their counts, and sixteen features."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from cldrank._typing import FloatArray, IntArray

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

_WORD = re.compile(r"[a-z0-9]+")
_SINGULAR = ("ss", "us", "is")
_K1, _B = 1.2, 0.75  # BM25
_MU = 500.0  # Dirichlet smoothing: how many words of the collection are added to a document
_LAMBDA = 0.1  # Jelinek–Mercer smoothing: the weight of the collection
_UNKNOWN = 1e-6  # the probability that stands for the words of a query that has none


def words(text: str) -> list[str]:
    """The words of a text in lower case, of ASCII letters and digits.

    >>> words("Spider-Man: Far from Home (2019)")
    ['spider', 'man', 'far', 'from', 'home', '2019']
    """
    return _WORD.findall(text.lower())


def terms(text: str) -> list[str]:
    """The words of a text without the s of the plural.

    >>> terms("Boxes, movies and glass")
    ['boxe', 'movy', 'and', 'glass']
    """
    return [_stem(word) for word in words(text)]


@lru_cache(maxsize=1 << 16)
def _stem(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith(_SINGULAR):
        return word[:-1]
    return word


def trigrams(text: str) -> list[str]:
    """All runs of three characters in the words of a text, which one space separates and surrounds.

    >>> trigrams("Up!")
    [' up', 'up ']
    """
    spaced = f" {' '.join(words(text))} "
    return [spaced[start : start + 3] for start in range(len(spaced) - 2)]


class Vocabulary:
    """Terms and their numbers, from 0 in the order in which they were met.

    >>> vocabulary = Vocabulary([["the", "matrix"], ["the", "the"]])
    >>> len(vocabulary), vocabulary.numbers(["matrix", "reloaded", "the"])
    (2, [1, -1, 0])
    """

    def __init__(self, texts: Iterable[Iterable[str]]) -> None:
        self._numbers = {term: number for number, term in enumerate(dict.fromkeys(t for text in texts for t in text))}

    def __len__(self) -> int:
        return len(self._numbers)

    def numbers(self, text: Iterable[str]) -> list[int]:
        """The number of each term, -1 for one that is not in the vocabulary."""
        return [self._numbers.get(term, -1) for term in text]

    def counts(self, texts: Sequence[Iterable[str]]) -> Any:
        """How often each text holds each term: a sparse matrix, (texts, terms)."""
        numbered = [np.array(self.numbers(text), dtype=np.int64) for text in texts]
        row = np.repeat(np.arange(len(texts)), [len(one) for one in numbered])
        column = np.concatenate([*numbered, np.empty(0, np.int64)])
        known = column >= 0
        ones = np.ones(np.count_nonzero(known), dtype=np.int64)
        return csr_matrix((ones, (row[known], column[known])), shape=(len(texts), len(self)))


@dataclass(frozen=True)
class FieldTerms:
    """The terms of one field in all documents.

    counts    (documents, terms) sparse; how often each term of the vocabulary stands in the field
    lengths   (documents,) how many terms the field has, those outside the vocabulary included
    """

    counts: Any
    lengths: FloatArray

    @classmethod
    def of(cls, texts: Sequence[Sequence[str]], vocabulary: Vocabulary) -> FieldTerms:
        """Count the terms of one field; one list of terms per document."""
        return cls(vocabulary.counts(texts), np.array([len(text) for text in texts], dtype=np.float64))

    @classmethod
    def together(cls, fields: Sequence[FieldTerms]) -> FieldTerms:
        """Several fields as if they were one text."""
        counts, lengths = fields[0].counts, fields[0].lengths
        for field in fields[1:]:
            counts, lengths = counts + field.counts, lengths + field.lengths
        return cls(counts, lengths)

    @property
    def documents_with(self) -> NDArray[np.float64]:
        """(terms,) how many documents hold each term."""
        return np.asarray(self.counts.getnnz(axis=0), dtype=np.float64)

    @property
    def occurrences(self) -> NDArray[np.float64]:
        """(terms,) how often each term stands in all documents."""
        return np.asarray(self.counts.sum(axis=0), dtype=np.float64).ravel()

    def frequencies(self, documents: IntArray, numbers: IntArray) -> FloatArray:
        """(rows, width) how often each row's document holds the row's terms, given by number."""
        width = numbers.shape[1]
        found = self.counts[np.repeat(documents, width), numbers.ravel()]
        return np.asarray(found, dtype=np.float64).reshape(-1, width)


def row_products(first: Any, second: Any, pairs: tuple[IntArray, IntArray], block: int = 1 << 16) -> NDArray[np.int64]:
    """The scalar product of a row of one sparse matrix and a row of another, for each pair of rows."""
    left, right = pairs
    found = np.empty(len(left), dtype=np.int64)
    for start in range(0, len(left), block):
        here = slice(start, start + block)
        found[here] = np.asarray(first[left[here]].multiply(second[right[here]]).sum(axis=1)).ravel()
    return found


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
