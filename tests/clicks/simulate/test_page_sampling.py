from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from cldrank import segments
from cldrank.clicks.simulate.page_sampling import draw_pages, log_tails


@given(
    st.lists(st.lists(st.floats(-50, 50), min_size=1, max_size=9), min_size=1, max_size=4),
    st.sampled_from([0.1, 1.0, 30.0]),
)
def test_tails_are_sums_of_weights(queries: list[list[float]], temperature: float) -> None:
    scores = np.concatenate(queries)
    offsets = segments.from_lengths(np.array([len(query) for query in queries]))
    order = segments.descending_order(scores, offsets)
    tails = log_tails(scores, temperature, order, offsets)
    for start, stop in zip(offsets, offsets[1:], strict=False):
        logits = scores[order[start:stop]] / temperature
        gaps = -np.diff(logits)
        if (gaps < 750).all():
            expected = [logsumexp(logits[place:] - logits[0]) for place in range(stop - start)]
            np.testing.assert_allclose(tails[start:stop], expected, rtol=1e-12, atol=1e-12)


def test_tails_are_finite_whatever_the_scores() -> None:
    scores = np.array([1e308, 1e308, 0.0, -1e308])
    order, offsets = np.arange(4), np.array([0, 4])
    for temperature in (5e-324, 1.0, 1e308, np.inf):
        assert np.isfinite(log_tails(scores, temperature, order, offsets)).all()
    np.testing.assert_allclose(log_tails(scores, np.inf, order, offsets), np.log([4, 3, 2, 1]))
    assert log_tails(scores, 1.0, order, offsets) == pytest.approx([np.log(2), 0, -750, -1500])


def test_a_page_of_all_candidates_ends() -> None:
    """Each result that is left is found, however little it weighs beside those that are on the page."""
    order, offsets = np.arange(2_000), np.array([0, 2_000])
    for scores in (np.zeros(2_000), -np.arange(2_000.0), -np.sqrt(np.arange(2_000.0))):
        tails = log_tails(scores, 1.0, order, offsets)
        page = draw_pages(tails, order, offsets, np.zeros(1, dtype=np.int64), 2_000, np.random.default_rng(0))
        assert sorted(page[0]) == order.tolist()
