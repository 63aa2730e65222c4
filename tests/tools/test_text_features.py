"""Words, which of them count as the same, and features of a query and a field against numbers worked out by hand."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from public_sets.text_features import MATCHING, FieldMatcher, FieldTerms, Vocabulary, terms

# Three documents, of 3, 1 and 0 terms. `heat` stands in one of them, twice; `city` in two, once each. `far` is not in
# the vocabulary, but it counts for the length of the third document below.
TEXTS = [["heat", "city", "heat"], ["city"], []]
HEAT, CITY = 0, 1


def features(texts: list[list[str]], document: int, asked: list[int]) -> dict[str, float]:
    matcher = FieldMatcher(FieldTerms.of(texts, Vocabulary([["heat", "city"]])))
    found = matcher.features(np.array([document]), np.array([asked], dtype=np.int64).reshape(1, -1))
    return dict(zip(MATCHING, found[0].tolist(), strict=True))


def test_a_document_with_both_terms() -> None:
    found = features(TEXTS, 0, [HEAT, CITY])
    idf_heat, idf_city = log(4 / 1.5), log(4 / 2.5)  # of 3 documents, 1 and 2 hold them
    share = 2.1 / 5  # each term stands twice among 4
    norm = 1.2 * (0.25 + 0.75 * 3 / (4 / 3))
    assert found == pytest.approx(
        {
            "covered": 2,
            "covered_ratio": 1,
            "length": 3,
            "idf_sum": idf_heat + idf_city,
            "tf_sum": 3,
            "tf_min": 1,
            "tf_max": 2,
            "tf_mean": 1.5,
            "tf_var": 0.25,
            "ntf_sum": 1,
            "tfidf_sum": 2 * idf_heat + idf_city,
            "tfidf_max": 2 * idf_heat,
            "tfidf_mean": (2 * idf_heat + idf_city) / 2,
            "bm25": log(1 + 2.5 / 1.5) * 2 * 2.2 / (2 + norm) + log(1 + 1.5 / 2.5) * 2.2 / (1 + norm),
            "lm_dir": log((2 + 500 * share) / 503) + log((1 + 500 * share) / 503),
            "lm_jm": log(0.9 * 2 / 3 + 0.1 * share) + log(0.9 * 1 / 3 + 0.1 * share),
        },
        rel=1e-12,
    )


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
