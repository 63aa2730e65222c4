"""How candidates are weighed, and what weighing them by impressions buys where some queries are searched more often."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.clicks.table import ClickTable
from cldrank.propensity import AdjacentChain, AllPairs, Pivot
from cldrank.propensity.harvesting import Harvesting

DEPTH = 5


def uneven_log(seed: int, queries: int = 400, candidates: int = 12, sessions: int = 40_000) -> ClickTable:
    """Two rankers, half of the sessions each; few queries make up most of the searches, as on the web."""
    random = np.random.default_rng(seed)
    data = cr.RankingDataset.from_arrays(
        np.zeros((queries * candidates, 1)), np.arange(queries * candidates) // candidates
    )
    relevance = random.beta(0.6, 2, (queries, candidates))
    searched = random.multinomial(sessions, (share := np.arange(1, queries + 1) ** -1.2) / share.sum())
    first = random.binomial(searched, 0.5)
    one = 2 * relevance + random.normal(size=relevance.shape)
    two = one + random.normal(0, 0.7, relevance.shape)
    shown = np.zeros((queries * candidates, DEPTH), dtype=np.int64)
    for scores, pages in ((one, first), (two, searched - first)):
        top = np.argsort(-scores, axis=1)[:, :DEPTH] + candidates * np.arange(queries)[:, None]
        shown[top, np.arange(DEPTH)] += pages[:, None]
    row, place = np.nonzero(shown)
    impressions = shown[row, place]
    clicks = random.binomial(impressions, relevance.ravel()[row] / (place + 1))
    return ClickTable.from_arrays(data, row=row, position=place + 1, impressions=impressions, clicks=clicks)


def logs_and_widths(kind: type[Harvesting], tables: list[ClickTable], **weighting: Any) -> tuple[float, float]:
    """The mean error of log rho, and the mean width of the intervals over the estimate."""
    errors, widths = [], []
    for table in tables:
        rho = kind(**weighting).fit(table)
        assert rho.low is not None
        assert rho.high is not None
        errors.append(np.abs(np.log(rho.values * np.arange(1, DEPTH + 1)))[1:].mean())
        widths.append(((rho.high - rho.low) / rho.values)[1:].mean())
    return float(np.mean(errors)), float(np.mean(widths))


@pytest.fixture(scope="module")
def tables() -> list[ClickTable]:
    return [uneven_log(seed) for seed in range(8)]


@pytest.mark.parametrize("kind", [AllPairs, AdjacentChain])
def test_weighing_by_impressions_is_the_default_and_halves_errors_and_intervals(
    kind: type[Harvesting], tables: list[ClickTable]
) -> None:
    error, width = logs_and_widths(kind, tables)
    alike_error, alike_width = logs_and_widths(kind, tables, weighting="candidates")
    assert width < 0.6 * alike_width
    assert error < 0.6 * alike_error


def test_estimators_agree_where_the_paper_s_weighting_lets_them_drift_apart(tables: list[ClickTable]) -> None:
    def apart(**weighting: Any) -> float:
        """By what factor, at the worst position, the chain and all pairs differ, in the mean of logs."""
        pairs, chain = ([kind(**weighting).fit(table).values for table in tables] for kind in (AllPairs, AdjacentChain))
        return float(np.exp(np.abs(np.log(np.array(pairs) / chain)).max(axis=1).mean()))

    assert apart() < 1.15
    assert apart(weighting="candidates") > 1.3


def test_a_swap_is_the_pivot_or_the_chain_of_its_own_pages(tables: list[ClickTable]) -> None:
    ways: list[Any] = ["impressions", "candidates"]
    for way in ways:
        first, neighbours = (kind(depth=3, weighting=way).fit(tables[0]) for kind in (Pivot, AdjacentChain))
        np.testing.assert_array_equal(first.values, Pivot(depth=3, weighting=way).fit(tables[0]).values)
        np.testing.assert_array_equal(neighbours.values, AdjacentChain(depth=3, weighting=way).fit(tables[0]).values)
