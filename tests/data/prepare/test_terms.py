"""Words, and which of them count as the same."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from cldrank.data.prepare.terms import row_products, terms, trigrams, words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("heats", ["heat"]),
        ("movies", ["movy"]),
        ("ties dies", ["tie", "die"]),  # too short to end in y
        ("gas bus glass", ["gas", "bus", "glass"]),
        ("virus tennis cross crisis", ["virus", "tennis", "cross", "crisis"]),
        ("Amélie's 8½ MEN", ["am", "lie", "s", "8", "men"]),
        ("", []),
        ("寅さん", []),
    ],
)
def test_terms(text: str, found: list[str]) -> None:
    assert terms(text) == found


def test_words_keep_their_plural() -> None:
    assert words("Heats of X-Men") == ["heats", "of", "x", "men"]


def test_trigrams_of_nothing() -> None:
    assert trigrams("¿?") == []


def test_products_of_rows_block_by_block() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 3, (4, 6)), rng.integers(0, 3, (5, 6))
    left, right = rng.integers(0, 4, 23), rng.integers(0, 5, 23)
    found = row_products(csr_matrix(first), csr_matrix(second), (left, right), block=7)
    np.testing.assert_array_equal(found, (first[left] * second[right]).sum(axis=1))
