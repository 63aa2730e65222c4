from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from simulated_clicks import simulated

import cldrank as cr
from cldrank.auditing import audit, audit_table
from cldrank.auditing.audit_document import audit_document
from cldrank.clicks.simulate import NeighbourSwaps
from cldrank.documents import render_html
from cldrank.errors import UsageError
from cldrank.evaluation.click_measures import ClickMeasure
from cldrank.evaluation.exposure import LoggedClicks, ScoreOrder, order_of
from cldrank.evaluation.intervals import ClickEstimator
from cldrank.evaluation.off_policy import off_policy_relevance


def planned(clicks: cr.ClickTable, plan: float = 0.05) -> Any:
    return audit_table(clicks, plan=plan).facts.plan


def test_the_error_is_that_of_all_orders_of_what_was_shown() -> None:
    shown = simulated(queries=8, sessions=800, depth=3)
    plan = planned(shown.clicks)
    log = LoggedClicks(shown.data, shown.clicks, shown.rho)
    relevance, share = off_policy_relevance(log), log.pages / log.pages.sum()
    discounts = 1 / np.log2(np.arange(3.0) + 2)
    variance = 0.0
    for query in range(8):
        own = relevance[(log.queries == query) & log.seen]
        values = [discounts @ own[list(order)] for order in itertools.permutations(range(3))]
        variance += share[query] ** 2 * np.var(values)
    production = ClickEstimator(log).value(ClickMeasure("DCG", 3), order_of("production", log)).value
    assert plan.production == pytest.approx(production)
    assert plan.queries_error == pytest.approx(np.sqrt(variance) / production)


def test_a_verdict_on_an_order_at_random_has_about_the_error_of_the_plan() -> None:
    swapped = simulated(queries=400, sessions=8000, policy=NeighbourSwaps(0.2))
    plan, log = planned(swapped.clicks), LoggedClicks(swapped.data, swapped.clicks, swapped.rho)
    estimator, random = ClickEstimator(log), np.random.default_rng(0)
    orders = [ScoreOrder.of("any", random.random(log.data.n_rows), log).among_seen(log) for _ in range(50)]
    by_chance = np.std([estimator.value(ClickMeasure("DCG", 4), order).value for order in orders])
    assert plan.queries_error == pytest.approx(by_chance / plan.production, rel=0.3)
    assert plan.curve_error > 0


def test_four_times_the_queries_for_half_of_the_difference() -> None:
    clicks = simulated(queries=100, sessions=500).clicks
    large, small = planned(clicks, 0.05), planned(clicks, 0.025)
    assert small.queries / large.queries == pytest.approx(4, rel=0.1)
    assert large.pages / large.queries == pytest.approx(5, rel=0.1)
    assert (large.measure, large.model_limit, small.model_limit) == ("DCG@4", 0.1, 0.05)
    assert (large.log_queries, large.log_pages) == ((clicks.query_impressions > 0).sum(), 500)
    assert planned(clicks, 0.9).queries == 50  # fewer say nothing of errors


def test_more_pages_of_each_query_need_fewer_queries_and_no_clicks_none_at_all() -> None:
    few, many = (planned(simulated(queries=200, sessions=pages).clicks) for pages in (400, 20_000))
    assert many.queries < few.queries
    world = simulated(queries=30, sessions=100)
    nothing = world.clicks
    silent = cr.ClickTable.from_arrays(
        world.data, row=nothing.row, position=nothing.position, impressions=nothing.impressions,
        clicks=np.zeros_like(nothing.clicks),
    )  # fmt: skip
    for useless in (silent, silent.where(np.zeros(silent.n_cells, dtype=bool))):
        plan = planned(useless)
        assert (plan.queries, plan.pages) == (None, None)
        assert "No plan for a difference of 5%" in plan.sentences[0]


def test_the_plan_is_in_text_page_and_json() -> None:
    clicks = simulated(policy=NeighbourSwaps(0.3)).clicks
    result = audit_table(clicks, plan=0.05)
    plan = result.facts.plan
    assert plan is not None
    for text in (str(result), render_html(audit_document(result))):
        assert f"about {plan.queries:,} held-out queries" in " ".join(text.split())
        assert "If half of its top was never shown" in " ".join(text.split())
    written = json.loads(json.dumps(result.as_dict()))["plan"]
    assert (written["queries"], written["difference"]) == (plan.queries, 0.05)
    assert "AllPairs" in written["curve"]
    assert audit_table(clicks).as_dict()["plan"] is None


@pytest.mark.parametrize("plan", [0, 1, -0.1, float("nan"), "much"])
def test_a_plan_is_a_share(plan: Any) -> None:
    with pytest.raises(UsageError, match="`plan` must be"):
        audit("nothing.parquet", plan=plan)
