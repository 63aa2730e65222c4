"""Whether a split goes where XGBoost sends each float32 number: Solr adds 1e-6 to thresholds, and XGBoost nothing."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from cldrank.export.formats.solr import _solr_thresholds, _written_thresholds

SLACK = np.float32(1e-6)


def many_thresholds() -> NDArray[np.float32]:
    random = np.random.default_rng(0)
    numbers = random.integers(0, 2**32, 3000, dtype=np.uint32).view(np.float32)
    near = np.concatenate([random.uniform(-1, 1, 2000) * 10.0**power for power in range(-8, 3)])
    powers = np.ldexp(1.0, np.arange(-30, 20))
    chosen = [0.0, -0.0, 1e-45, -1e-45, 1e-6, -1e-6, 2e-6, 3e-6, 1e-38, *powers, *-powers]
    edges = np.nextafter(np.array([*powers, *-powers], dtype=np.float32), np.float32(0))
    return np.concatenate([numbers[np.abs(numbers) < 1e38], near, chosen, edges]).astype(np.float32)


def test_a_split_is_exact_where_any_text_would_make_it_so() -> None:
    thresholds = many_thresholds()
    written, gap = _solr_thresholds(thresholds)
    last = np.nextafter(thresholds, np.float32(-np.inf))
    exact = gap == 0
    assert np.array_equal((written + SLACK)[exact], last[exact])
    assert ((written + SLACK) < last)[~exact].all()
    one = (last.astype(np.float64) - np.float64(SLACK)).astype(np.float32)
    candidate = one.view(np.int32)
    reached = np.zeros(len(thresholds), dtype=bool)
    for step in range(-40, 41):
        with np.errstate(invalid="ignore"):
            reached |= (candidate + np.int32(step)).view(np.float32) + SLACK == last
    assert np.array_equal(exact, reached)
    assert 100 < (~exact).sum() < len(exact) / 2  # there are some of both


@pytest.mark.parametrize("shared", [0.0, 0.5, 1e4])
def test_powers_of_two_make_all_splits_exact(shared: float) -> None:
    thresholds = many_thresholds()
    thresholds = thresholds[(np.abs(thresholds) < 5e5) & ((np.abs(thresholds) > 1e-30) | (thresholds == 0))]
    for start in range(0, len(thresholds), 500):
        own = np.append(thresholds[start : start + 500], np.float32(shared))
        powers, written, gap = _written_thresholds(np.zeros(len(own), dtype=np.int64), own)
        assert not gap.any()
        divisor = np.float32(2.0 ** -powers[0])
        for value in (own, np.nextafter(own, np.float32(-np.inf)), np.nextafter(own, np.float32(np.inf))):
            with np.errstate(over="ignore"):
                assert np.array_equal(value / divisor <= written + SLACK, value < own)


def test_what_cannot_be_exact_is_as_near_as_can_be() -> None:
    _, _, gap = _written_thresholds(np.zeros(2, dtype=np.int64), np.array([0.0, 1e30], dtype=np.float32))
    assert 0 < gap[0] < 1e-20
    assert gap[1] == 0
