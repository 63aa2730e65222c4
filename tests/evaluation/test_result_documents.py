"""The verdict as a page: everything is on it, nothing else is needed, and it can be read in a browser."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from browser import Checked

import cldrank as cr
from cldrank.documents import Figure
from cldrank.evaluation import ClickComparison, SeveralComparisons
from cldrank.evaluation.click_results import WayToSettle
from cldrank.measures import Interval

EVIL = "<script>alert('x')</script>&\"'"


@pytest.fixture(scope="module")
def result() -> ClickComparison:
    """Sixty queries of eight candidates, of which five were shown, and a ranker that lifts some of the others."""
    random = np.random.default_rng(0)
    features = random.normal(size=(480, 4))
    labels = features[:, 0] + 0.5 * features[:, 1] + 0.5 * random.normal(size=480) > 0.7
    data = cr.RankingDataset.from_arrays(features, np.arange(480) // 8)
    order = np.argsort(-(features[:, 0] + random.normal(size=480)).reshape(60, 8), axis=1)[:, :5]
    rows, position = (np.arange(60)[:, None] * 8 + order).ravel(), np.tile(np.arange(1, 6), 60)
    clicked = random.binomial(40, np.where(labels[rows], 0.9, 0.1) / position)
    clicks = cr.ClickTable.from_arrays(data, row=rows, position=position, impressions=np.full(300, 40), clicks=clicked)
    new = features[:, 0] + 0.5 * features[:, 1] + 0.7 * features[:, 2]
    rho = cr.Propensities.power(1, 5)
    return cr.compare(new, "production", data, clicks=clicks, propensities=rho, names=(EVIL, "production"))


def with_ways(result: ClickComparison) -> ClickComparison:
    """The same with something that would settle it."""
    ways = (WayToSettle("interleaving test", 4234, f"mixed {EVIL}"), WayToSettle("more of this log", None, "no"))
    return replace(result, settling=ways)


class TestPage:
    def test_is_well_formed_and_needs_nothing_else(self, result: ClickComparison) -> None:
        page = with_ways(result).to_html()
        checked = Checked(page)
        assert checked.addresses == []
        assert "url(" not in page
        assert "@import" not in page
        titles = (
            "What the log can see",
            "Estimates",
            "Never-shown results",
            "Other assumptions",
            "When this must not be trusted",
        )
        for title in titles:
            assert f">{title}<" in page
        assert "prefers-color-scheme: dark" in page

    def test_a_chart_has_the_gain_by_each_measure(self, result: ClickComparison) -> None:
        margined = replace(result, verdict=replace(result.verdict, margin=result.first.old.interval.estimate / 20))
        (figure,) = (block for block in margined.document().blocks if isinstance(block, Figure))
        assert [series.name for series in figure.series] == list(result.measures)
        assert figure.marked == pytest.approx((0, -5, 5))
        for series, pair in zip(figure.series, result.measures.values(), strict=True):
            (point,), whole = series.points, abs(pair.old.interval.estimate) / 100
            interval = pair.interval
            known = np.array([interval.estimate, interval.low, interval.high]) / whole
            assert [point.value, point.low, point.high] == pytest.approx(known)
            assert figure.values.low < interval.low / whole < interval.high / whole < figure.values.high
        assert margined.to_html().count('class="marked"') == 3

    def test_tables_have_the_numbers(self, result: ClickComparison) -> None:
        rows = {row[0]: row for row in Checked(result.to_html()).rows}
        for name, pair in result.measures.items():
            low, high = pair.interval.low, pair.interval.high
            assert rows[name][1:3] == [f"{one.interval.estimate:.4f}" for one in (pair.new, pair.old)]
            assert rows[name][4].replace("−", "-") == f"{low:+.4f} to {high:+.4f}"
        for check in result.checks:
            assert check.decision in rows[check.name]
        page = with_ways(result).to_html()
        assert f"An interleaving test of about 4,200 pages would {result.verdict.settling} it." in page
        assert f"More of this log would not {result.verdict.settling} it: no." in page

    @pytest.mark.parametrize(
        ("decision", "tone", "said"),
        [
            ("better", "ok", "is better than production, by DCG@5."),
            ("worse", "blocking", "is worse than production, by DCG@5."),
            ("no difference", "note", "and production do not differ by more than 0.02 in DCG@5."),
            ("cannot tell", "warning", "is better than production, by DCG@5."),
        ],
    )
    def test_the_verdict_is_on_top(self, result: ClickComparison, decision: Any, tone: str, said: str) -> None:
        judged = replace(result, new="n", verdict=replace(result.verdict, decision=decision, margin=0.02))
        page = judged.to_html()
        assert f'<section class="verdict {tone}">' in page
        assert said in page
        assert ("cannot tell whether" in page) == (decision == "cannot tell")
        settles = "What would settle it" in with_ways(judged).to_html()
        assert settles == (decision == "cannot tell")  # else an experiment would confirm it

    def test_without_anything_unseen_and_without_clicks(self, result: ClickComparison) -> None:
        never_shown = replace(result.never_shown, results=0, break_even=None, model=None)
        pair, seen = result.first, replace(result.support, shown=1.0, shown_old=1.0)
        known = replace(pair.difference, lowest=pair.interval, highest=pair.interval)
        measures = {"DCG@5": replace(pair, difference=known)}
        sure = replace(
            result, never_shown=never_shown, support=seen, measures=measures, checks=(), permutation_check=None
        )
        page = sure.to_html()
        assert "Nothing rests on what never-shown results are worth." in page
        assert "The model of never-shown results" not in page

    @pytest.mark.parametrize(
        ("ends", "said"),
        [((7, 5, 9), "even if all"), ((-2, -7, -0.1), "even if none"), ((-0.2, -0.7, 0.3), "Clicks do not tell")],
    )
    def test_a_break_even_beyond_what_can_be(self, result: ClickComparison, ends: Any, said: str) -> None:
        even = replace(result.never_shown.break_even, **dict(zip(("estimate", "low", "high"), ends, strict=True)))  # type: ignore[type-var]
        page = replace(result, never_shown=replace(result.never_shown, break_even=even)).to_html()
        assert [words for words in ("even if all", "even if none", "Clicks do not tell") if words in page] == [said]

    @pytest.mark.parametrize(
        ("predicted", "said"),
        [(0.23, "too high by 6 points"), (0.1, "too low by 7 points"), (0.144, "within its error")],
    )
    def test_the_check_of_the_model_says_by_how_much_it_misses(
        self, result: ClickComparison, predicted: float, said: str
    ) -> None:
        observed = Interval(0.17, 0.14, 0.2, 0.9, 60)
        checked = replace(result.never_shown, hidden_predicted=predicted, hidden_observed=observed)
        assert f"the prediction is {said}." in replace(result, never_shown=checked).to_html()

    @pytest.mark.parametrize("decision", ["better", "cannot tell"])
    def test_an_open_verdict_names_the_commands(self, result: ClickComparison, decision: Any) -> None:
        judged = with_ways(replace(result, verdict=replace(result.verdict, decision=decision)))
        several = SeveralComparisons(
            data="", synthetic=False, old="production", measure=judged.first.measure, confidence=0.9,
            confidence_each=0.9, comparisons={"new": judged}, decisions={"new": decision}, try_first="new",
            not_told_apart=(),
        )  # fmt: skip
        for text in (judged.to_html(), str(judged), several.to_html()):
            assert ("cldrank online interleave" in text) == (decision == "cannot tell")
        assert ("--ratings FILE" in str(judged)) == (decision == "cannot tell")
        unplanned = replace(judged, settling=(WayToSettle("interleaving test", None, "no"),))
        assert "cldrank online interleave" not in str(unplanned)

    def test_a_ranker_has_one_name(self, result: ClickComparison) -> None:
        page = replace(result, new="trees").to_html()
        assert "Of the top 5 of trees, " in page
        assert not re.search(r"\bnew('s)?\b", page[page.index("<main>") :].replace(result.verdict.reason, ""))
