"""Words of texts, and how often each word that queries use stands in each document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import FloatArray, IntArray

_WORD = re.compile(r"[a-z0-9]+")
_SINGULAR = ("ss", "us", "is")


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
        from scipy.sparse import csr_matrix

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
