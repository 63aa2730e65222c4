"""What holds for every estimator: the truth, intervals, refusals, notes, and tests of the fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.auditing import audit_table
from cldrank.clicks.simulate import (
    Cascade,
    ClickModel,
    FirstSwaps,
    NeighbourSwaps,
    PositionBased,
    ShuffledShare,
    TrustBiased,
)
from cldrank.clicks.table import ClickTable
from cldrank.errors import CldrankError, UnidentifiableError, UsageError
from cldrank.parameters import parameters
from cldrank.propensity import (
    AdjacentChain,
    AllPairs,
    ClickThrough,
    Pivot,
    Propensities,
    Randomised,
    estimators,
    impressions_needed,
)
from cldrank.propensity.cells import Cells
from cldrank.propensity.estimator import CurveEstimator, _halved, chance_of, check_attraction

HARVESTING: list[CurveEstimator] = [Pivot(), AdjacentChain(), AllPairs(), AllPairs(weighting="candidates")]
EVERY = [*HARVESTING, ClickThrough(), Randomised()]


@pytest.fixture(scope="module")
def shuffled(world: Any) -> ClickTable:
    return world.shuffled()  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def two_rankers(world: Any) -> ClickTable:
    return world.two_rankers()  # type: ignore[no-any-return]


@pytest.mark.parametrize("estimator", EVERY, ids=repr)
def test_a_random_order_tells_all_of_them_the_truth(estimator: CurveEstimator, shuffled: ClickTable) -> None:
    rho: Any = estimator.fit(shuffled)
    scores = np.log(rho.values * np.arange(1, 6))[1:] / rho.errors[1:]
    assert np.abs(scores).max() < 4
    assert rho.errors.max() < 0.2
    assert (rho.low <= rho.values).all()
    assert (rho.values <= rho.high).all()
    assert (rho.values[0], rho.low[0], rho.high[0], rho.errors[0]) == (1, 1, 1, 0)
    assert rho.method == type(estimator).__name__


@pytest.mark.parametrize("estimator", EVERY, ids=repr)
def test_weights_are_repetition_and_the_order_of_queries_does_not_matter(
    estimator: CurveEstimator, shuffled: ClickTable
) -> None:
    thrice = shuffled.merge(shuffled).merge(shuffled)[np.arange(shuffled.n_queries)[::-1]]
    np.testing.assert_allclose(estimator.fit(thrice).values, estimator.fit(shuffled).values, rtol=1e-9)


@pytest.mark.parametrize("estimator", [AllPairs(), Randomised()], ids=repr)
def test_the_same_seed_gives_the_same_interval(estimator: CurveEstimator, shuffled: ClickTable) -> None:
    first, again, other = (replace(estimator, seed=seed).fit(shuffled) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.replicates, again.replicates)
    assert not np.array_equal(first.replicates, other.replicates)  # type: ignore[arg-type]


@pytest.mark.parametrize("estimator", [Pivot(depth=3), ClickThrough(depth=3)])
def test_depth_estimates_the_first_positions_alike(estimator: CurveEstimator, shuffled: ClickTable) -> None:
    whole = type(estimator)().fit(shuffled)
    np.testing.assert_allclose(estimator.fit(shuffled).values, whole.values[:3])


@pytest.mark.parametrize(
    ("estimator", "design"),
    [(Pivot(), FirstSwaps(0.2)), (AdjacentChain(), NeighbourSwaps(0.2)), (AdjacentChain(), None), (AllPairs(), None)],
    ids=repr,
)
def test_swaps_and_two_rankers(world: Any, estimator: CurveEstimator, design: Any, two_rankers: ClickTable) -> None:
    rho: Any = estimator.fit(world.log(design) if design else two_rankers)
    np.testing.assert_allclose(rho.values, 1 / np.arange(1, 6), rtol=4 * rho.errors.max())
    assert rho.goodness.p_value > 0.01


def test_click_through_rates_of_a_good_ranker_are_too_steep(two_rankers: ClickTable) -> None:
    rho: Any = ClickThrough().fit(two_rankers)
    assert (rho.high[1:] < 1 / np.arange(2, 6)).all()
    assert rho.goodness.p_value < 0.01
    assert "too steep" in rho.notes[0]


NEW = """
from cldrank.parameters import parameter, value
from cldrank.propensity import AllPairs


@value
class HalfPairs(AllPairs):
    share: float = parameter(default=0.5, above=0, most=1, about="Of the pairs")
    name = "half-pairs"
    sentence = "Some of the pairs"
    order = 1
    assumes = "half of them suffice"
"""


class TestDescriptions:
    @pytest.mark.parametrize("kind", estimators().values(), ids=lambda kind: kind.name)
    def test_each_describes_itself(self, kind: Any) -> None:
        assert kind.name == kind.name.lower()
        assert kind.sentence[0].isupper()
        assert not kind.sentence.endswith(".")
        assert kind.needs in ("cells", "log", "features")
        assert all(one.about and not one.about.endswith(".") for one in parameters(kind).values())
        assert repr(kind()) == f"{kind.__name__}()"

    @pytest.mark.parametrize("kind", estimators().values(), ids=lambda kind: kind.name)
    def test_what_it_needs_is_asked_for(self, kind: Any, world: Any) -> None:
        log = world.shuffled(1e3)
        if kind.needs == "cells":
            assert kind().missing(None) is None
            return
        with pytest.raises(UsageError, match=f"{kind.name}: it needs the (features|probability)"):
            kind().fit(log)
        assert not kind().requirements(log).met

    def test_a_new_one_is_one_new_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shuffled: ClickTable
    ) -> None:
        (tmp_path / "half_pairs.py").write_text(NEW)
        monkeypatch.setattr(cr.propensity, "__path__", [*cr.propensity.__path__, str(tmp_path)])
        assert "half-pairs" in estimators()
        result = audit_table(shuffled)
        audited = {need.estimator: need for need in result.facts.requirements}
        assert audited["half-pairs"] == replace(audited["all-pairs"], estimator="half-pairs")
        advice = " ".join(finding.advice for finding in result.verdict.findings)
        assert "--method half-pairs`), if half of them suffice" in advice


def test_a_position_that_was_never_swapped(world: Any) -> None:
    log = world.log(FirstSwaps(0.5, positions=(2, 3, 5)))
    with pytest.raises(UnidentifiableError, match="position 4") as refusal:
        Pivot().fit(log)
    assert (refusal.value.positions, refusal.value.depth) == ((4,), 3)
    assert len(Pivot(depth=refusal.value.depth).fit(log)) == 3


class TestRefusals:
    @pytest.mark.parametrize("estimator", [Pivot(), AllPairs()], ids=repr)
    def test_a_single_ranker(self, estimator: CurveEstimator, world: Any) -> None:
        with pytest.raises(UnidentifiableError, match=r"±10% at 90%") as refusal:
            estimator.fit(world.log())
        assert refusal.value.positions == (1, 2, 3, 4, 5)

    def test_an_order_that_is_not_random(self, world: Any, two_rankers: ClickTable) -> None:
        for log in (world.log(), two_rankers):
            with pytest.raises(UnidentifiableError, match="needs pages in random order"):
                Randomised().fit(log)

    def test_too_few_clicks(self, world: Any) -> None:
        with pytest.raises(UnidentifiableError, match=r"times as many pages for ±10% at 90%"):
            AdjacentChain(refuse_above=0.05).fit(world.two_rankers(3e3))

    @pytest.mark.parametrize(("clicked", "enough"), [(2, False), (20, True)])
    def test_replicates_without_an_estimate(self, clicked: int, enough: bool) -> None:
        """All clicks at position 2 come from a few candidates: one resample in seven has none of two of them."""
        shown = [(row, position, 50, 10 * (position == 1 or row < clicked)) for row in range(60) for position in (1, 2)]
        estimator = Pivot(refuse_above=5.0)  # so that it is not the error of the others that refuses
        if enough:
            assert len(estimator.fit(cells(shown))) == 2
            return
        with pytest.raises(UnidentifiableError, match="20 clicks") as refusal:
            estimator.fit(cells(shown))
        assert refusal.value.positions == (2,)

    def test_replicates_that_lack_a_position_are_left_out(self) -> None:
        """Of four candidates with all clicks at position 2, one resample in sixty draws none."""
        shown = [(row, position, 50, 10 * (position == 1 or row < 4)) for row in range(60) for position in (1, 2)]
        found: Any = Pivot(refuse_above=5.0).fit(cells(shown))
        assert 380 <= len(found.replicates) < 400
        assert (found.replicates > 0).all()
        np.testing.assert_allclose(found.covariance, np.cov(np.log(found.replicates), rowvar=False))

    def test_too_few_candidates_in_common(self) -> None:
        table = cells([(row, position, 500, 100) for row in range(60) for position in ((1, 2) if row < 3 else (1,))])
        with pytest.raises(UnidentifiableError, match="only 3 candidates"):
            Pivot().fit(table)

    def test_candidates_in_common_without_clicks(self) -> None:
        table = cells([(row, position, 50, 10 * (position == 1)) for row in range(60) for position in (1, 2)])
        for estimator in HARVESTING:
            with pytest.raises(UnidentifiableError, match="60 candidates"):
                estimator.fit(table)

    def test_a_disconnected_position(self) -> None:
        shown = [(row, position, 50, 10) for row in range(60) for position in ((1, 2) if row % 2 else (3, 4))]
        with pytest.raises(UnidentifiableError, match="positions 3 and 4.*depth=2") as refusal:
            AllPairs().fit(cells(shown))
        assert refusal.value.positions == (3, 4)

    def test_a_position_that_was_never_shown(self) -> None:
        shown = [(row, position, 50, 10) for row in range(60) for position in (1, 2, 4)]
        for estimator in EVERY:
            with pytest.raises(UnidentifiableError, match="position 3 was never shown.*depth=2"):
                estimator.fit(cells(shown))

    @pytest.mark.parametrize("shown", [[], [(0, 1, 5, 1)], [(0, 1, 5, 1), (0, 2, 5, 1)]])
    def test_next_to_nothing(self, shown: list[tuple[int, int, int, int]]) -> None:
        for estimator in EVERY:
            with pytest.raises(UnidentifiableError, match="empty|one position|only one candidate"):
                estimator.fit(cells(shown))

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: AllPairs(depth=1), "`depth`"),
            (lambda: AllPairs(replicates=2), "at least 20"),
            (lambda: AllPairs(weighting="none"), "`weighting`"),  # type: ignore[arg-type]
        ],
    )
    def test_wrong_parameters(self, make: Any, message: str) -> None:
        with pytest.raises(CldrankError, match=message):
            make()


class TestNotes:
    def test_one_query_is_resampled_by_candidates(self) -> None:
        random = np.random.default_rng(0)
        shown = [(row, position, 500, int(random.binomial(500, 0.3))) for row in range(80) for position in (1, 2)]
        rho = Randomised().fit(cells(shown))
        assert "candidates were resampled" in " ".join(rho.notes)

    def test_estimates_above_one_are_kept(self) -> None:
        shown = [(row, position, 500, 100 + 100 * (position == 3)) for row in range(80) for position in (1, 2, 3)]
        np.testing.assert_allclose(Pivot().fit(cells(shown)).values, [1, 1, 2])


def test_the_data_that_a_refusal_asks_for_suffice() -> None:
    random = np.random.default_rng(0)
    rate, first = 0.05, 0.2
    needed = impressions_needed(rate, first)
    ratios = random.binomial(needed, rate, 4000) / random.binomial(needed, first, 4000) / (rate / first)
    assert np.mean(np.abs(np.log(ratios)) < 0.1) == pytest.approx(0.9, abs=0.02)


def cells(shown: list[tuple[int, int, int, int]]) -> ClickTable:
    """A table of one query from (row, position, impressions, clicks)."""
    data = cr.RankingDataset.from_arrays(np.zeros((100, 1)), np.zeros(100, dtype=int))
    columns = np.array(shown, dtype=np.int64).reshape(-1, 4).T
    named = dict(zip(("row", "position", "impressions", "clicks"), columns, strict=True))
    return ClickTable.from_arrays(data, **named)


# -- the p-value of the fit -------------------------------------------------------------------------------------------


def test_the_p_value_counts_the_log_itself_among_the_replicates() -> None:
    """(1 + those at least as far off) / (1 + replicates): never 0, whatever the residual."""
    spread = np.array([[1.0], [-1.0]] * 50)  # each replicate is one standard error off
    for residual, p_value in ((0.5, 1.0), (1.0, 1.0), (1.001, 1 / 101), (50.0, 1 / 101)):
        found: Any = chance_of(np.array([residual]), spread)
        statistic, p, tested, worst = found
        assert p == pytest.approx(p_value)
        assert statistic == pytest.approx(residual**2)
        assert (tested, worst) == (1, 0)


def test_a_true_curve_is_refuted_as_often_as_it_should_be() -> None:
    random = np.random.default_rng(0)
    found = [chance_of(random.normal(size=6), random.normal(size=(39, 6))) for _ in range(4000)]
    p_values = np.array([entry[1] for entry in found if entry is not None])
    assert len(p_values) == 4000
    assert p_values.min() == 1 / 40
    # with 39 replicates p is uniform on 1/40 … 1 but for the error of 39 replicates itself, which divides each residual
    assert np.mean(p_values <= 0.05) == pytest.approx(0.05, abs=0.02)


def test_nothing_is_tested_where_nothing_is_uncertain() -> None:
    assert chance_of(np.array([0.1]), np.zeros((100, 1))) is None
    assert chance_of(np.array([0.1]), np.full((100, 1), np.nan)) is None
    assert chance_of(np.array([0.1]), np.ones((19, 1))) is None


# -- attractive and other results -------------------------------------------------------------------------------------


def checked(log: ClickTable, rho: Propensities) -> float | None:
    return check_attraction(Cells.of(log, len(rho), 0), rho.values)


MODELS: list[tuple[ClickModel, bool]] = [(PositionBased(1, 0.1), True), (TrustBiased(1), False), (Cascade(0.1), False)]


@pytest.mark.parametrize(("model", "position_based"), MODELS, ids=str)
def test_tells_position_bias_from_what_is_more(world: Any, model: ClickModel, position_based: bool) -> None:
    log = world.log(ShuffledShare(1.0), 5e4, model=model)
    rho = Randomised(refuse_above=5).fit(log)
    found: Any = checked(log, rho)
    assert (found > 0.01) == position_based
    assert any("not position bias alone" in note for note in rho.notes) != position_based


def test_seldom_cries_wolf(world: Any) -> None:
    found = [checked(log, Propensities.power(1, 5)) for log in map(world.two_rankers, [2e4] * 25, range(25))]
    values = np.array([entry for entry in found if entry is not None])
    assert len(values) == 25
    assert (values < 0.05).mean() <= 0.2
    assert values.mean() > 0.3


def test_says_nothing_where_nothing_can_be_compared(world: Any) -> None:
    assert checked(world.log(), Propensities.power(1, 5)) is None
    data = cr.RankingDataset.from_arrays(np.zeros((2, 1)), [0, 0])
    few = ClickTable.from_arrays(data, row=[0, 0, 1, 1], position=[1, 2, 1, 2], impressions=[9] * 4, clicks=[3] * 4)
    assert checked(few, Propensities.power(1, 2)) is None


def test_one_half_says_what_is_attractive_and_the_other_is_compared(world: Any) -> None:
    cells = Cells.of(world.two_rankers(1e5), None, 0)
    _, rest = _halved(cells, 1 / np.arange(1.0, cells.size + 1), np.random.default_rng(0))
    assert (rest.clicks <= rest.impressions).all()
    for whole, half in ((cells.impressions, rest.impressions), (cells.clicks, rest.clicks)):
        assert half.sum() == pytest.approx(whole.sum() / 2, rel=0.02)
