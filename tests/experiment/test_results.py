from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from result_rows import row, seeds, table
from scipy import stats

from cldrank.experiment import results


def found_of(rows: list[dict[str, Any]]) -> dict[str, results.Summary]:
    return {one.method: one for one in results.summary(table(rows))}


def test_mean_and_t_interval_over_seeds() -> None:
    values = [0.41, 0.42, 0.40, 0.41, 0.42]
    one = found_of(seeds("CLD", values))["CLD"]
    low, high = stats.t.interval(0.9, 4, np.mean(values), stats.sem(values))
    assert (one.mean, one.low, one.high, one.seeds) == pytest.approx((np.mean(values), low, high, 5))
    assert (one.seconds, one.failed) == (2.0, 0)
    assert f"{one.interval:.3f}" == "0.412 ± 0.008"


def test_folds_are_averaged_within_a_seed() -> None:
    rows = [row("CLD", seed, value, fold=fold) for seed, fold, value in
            [(0, "fold1", 0.2), (0, "fold2", 0.4), (1, "fold1", 0.6), (1, "fold2", 0.8)]]  # fmt: skip
    one = found_of(rows)["CLD"]
    assert (one.mean, one.seeds) == pytest.approx((0.5, 2))
    incomplete = found_of(rows[:3])["CLD"]
    assert (incomplete.mean, incomplete.seeds) == pytest.approx((0.3, 1))


def test_a_failed_seed_is_left_out_and_counted() -> None:
    one = found_of(seeds("CLD", [0.4, math.nan, 0.6]))["CLD"]
    assert (one.mean, one.seeds, one.failed) == pytest.approx((0.5, 2, 1))
    none = found_of(seeds("CLD", [math.nan]))["CLD"]
    assert math.isnan(none.mean)
    assert none.interval is None
    assert not none.best


@pytest.mark.parametrize("value", [math.nan, math.inf, None])
def test_a_value_that_is_no_number_counts_as_failed(value: float | None) -> None:
    broken = {**row("CLD", 1, 0.5), "value": value}
    found = found_of([row("CLD", 0, 0.4), broken, row("CLD", 2, 0.6), *seeds("IPS", [0.3, 0.2, 0.1])])
    assert (found["CLD"].mean, found["CLD"].seeds, found["CLD"].failed) == pytest.approx((0.5, 2, 1))
    assert found["CLD"].best


def test_a_rival_that_is_ahead_wherever_both_have_finished_is_not_tied() -> None:
    found = found_of([*seeds("CLD", [0.50, 0.51, 0.52]), *seeds("IPS", [0.40, 0.41, 0.42, 0.99])])
    assert [(one.best, one.tied) for one in (found["IPS"], found["CLD"])] == [(True, True), (False, False)]


def test_best_and_tied() -> None:
    rows = (
        seeds("Oracle", [0.9, 0.9, 0.9])
        + seeds("CLD", [0.50, 0.60, 0.70])
        + seeds("IPS", [0.51, 0.58, 0.70])  # now above, now below
        + seeds("Naive", [0.40, 0.50, 0.60])  # always a tenth below: overlapping intervals, yet surely worse
    )
    found = found_of(rows)
    assert {name for name, one in found.items() if one.best} == {"CLD"}
    assert {name for name, one in found.items() if one.tied} == {"CLD", "IPS"}
    assert stats.ttest_rel([0.51, 0.58, 0.70], [0.50, 0.60, 0.70]).pvalue > 0.1
    assert [name for name, one in found.items() if one.sees_labels] == ["Oracle"]


def test_what_sees_labels_is_no_rival_whatever_it_is_called() -> None:
    told = json.dumps({"method": {"class": "oracle", "parameters": {"model": "trees"}}})
    found = found_of(seeds("Forest", [0.9, 0.9], configuration=told) + seeds("CLD", [0.5, 0.5]))
    assert (found["CLD"].best, found["Forest"].best, found["Forest"].tied) == (True, False, False)
