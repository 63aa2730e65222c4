"""`Safe`: rankers that are kept near production."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cldrank as cr
from cldrank import segments
from cldrank.clicks.simulate import PositionBased, Simulation
from cldrank.data.query_hash import held_out
from cldrank.errors import UsageError
from cldrank.evaluation import ClickJudge
from cldrank.measures import Interval
from cldrank.models import Linear, Trees
from cldrank.rankers import BlendRanker, LinearRanker, TreeRanker
from cldrank.safety import BlendTrial, Safe, UnsafeError
from cldrank.safety.imitation import imitate
from cldrank.safety.safe import confidences, safe_trials
from cldrank.scaling import Standard

RHO = cr.Propensities.power(1, 5)


def world(seed: int, queries: int = 120) -> cr.RankingDataset:
    """Queries of 8 candidates; the first feature is production's score, the first two make relevance."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(queries * 8, 6))
    labels = features[:, 0] + 2 * features[:, 1] + 0.5 * random.normal(size=len(features)) > 1.5
    names = ("production", "better", *"abcd")
    return cr.RankingDataset.from_arrays(
        features, np.arange(len(features)) // 8, labels.astype(int), feature_names=names
    )


DATA = world(0)
BEST = DATA.features[:, 0] + 2 * DATA.features[:, 1]
WITH_BEST = cr.RankingDataset.from_arrays(
    np.column_stack([DATA.features, BEST]), DATA.row_queries, DATA.labels, feature_names=(*"pqabcd", "score")
)


def log(sessions: int, scores: NDArray[Any] | None = None, data: cr.RankingDataset = DATA) -> cr.ClickTable:
    """Clicks on the pages of production."""
    own = DATA.features[:, 0] if scores is None else scores
    return Simulation(data, own, PositionBased(1, 0.1), depth=5).draw(sessions, seed=0)


def dcg(ranker: Any, data: cr.RankingDataset) -> float:
    assert data.labels is not None
    ranks = segments.descending_ranks(ranker.predict(data), data.offsets)
    return float((data.labels / np.log2(ranks + 1))[ranks <= 5].sum() / data.n_queries)


@pytest.fixture(scope="module")
def clear() -> Safe:
    """A method that is clearly better, with many sessions."""
    return Safe(cr.IPS()).fit(DATA, log(100_000), RHO)


class TestWhatIsKept:
    def test_much_where_the_method_is_clearly_better(self, clear: Safe) -> None:
        assert clear.safety_.share >= 0.5
        assert clear.safety_.low > 0
        unseen = world(1)
        production = LinearRanker(
            feature_names=DATA.feature_names, scaling=cr.scaling.fit(None, DATA.features), coefficients=np.eye(6)[0]
        )
        assert dcg(clear.ranker_, unseen) > 1.1 * dcg(production, unseen)

    @pytest.mark.parametrize("method", [cr.Naive(), cr.IPS(model=Linear(scaling=Standard(clip=0.3)))])
    def test_nothing_where_clicks_are_noise(self, method: Any) -> None:
        """Production's own order is kept, exactly, if its score is known and nothing may be lost."""
        clicks = Simulation(WITH_BEST, BEST, PositionBased(1, 1.0), depth=5).draw(3000, seed=1)
        kept = Safe(method, margin=0, production="score").fit(WITH_BEST, clicks, RHO)
        assert kept.safety_.share == 0
        assert kept.safety_.overlap == 1
        assert (kept.safety_.gain, kept.safety_.low, kept.safety_.high) == (0, 0, 0)
        ranks = [segments.descending_ranks(one, DATA.offsets) for one in (kept.predict(WITH_BEST), BEST)]
        np.testing.assert_array_equal(*ranks)

    def test_nothing_that_is_not_shown_to_be_safe(self) -> None:
        """Few clicks cannot even show that the imitation is."""
        with pytest.raises(UnsafeError) as caught:
            Safe(cr.IPS(), margin=0.0).fit(DATA, log(100), RHO)
        assert all(words in str(caught.value) for words in ("imitation", "DCG@5", "`production`", "`margin`"))

    def test_the_sequence_and_its_end(self, clear: Safe) -> None:
        """The safe shares are those up to the first that is not, from either end; the one that gains most is kept."""
        safety = clear.safety_
        assert [one.share for one in clear.trials_] == [step / 10 for step in range(11)]
        assert safety.tried == {f"{one.share:g}": one.gain.low for one in clear.trials_}
        passed: list[BlendTrial] = []
        for one in clear.trials_:
            if one.gain.low < -safety.margin:
                break
            passed.append(one)
        for one in clear.trials_[::-1]:
            if one.strict < -safety.margin:
                break
            passed.append(one)
        best = max(passed, key=lambda one: one.gain.estimate)
        assert (safety.share, safety.gain) == (best.share, best.gain.estimate)

    def test_figures_are_those_of_the_judge(self, clear: Safe) -> None:
        clicks = log(100_000)
        held = held_out(DATA.query_ids, 0.3, seed=1)
        judge = ClickJudge.of(DATA[held], clicks[held], RHO, confidence=0.92)
        found = judge.compare(clear.ranker_, "production", "DCG@5").measures["DCG@5"]
        safety = clear.safety_
        assert safety.gain == pytest.approx(
            found.interval.estimate, abs=0.05
        )  # the model of the unseen knows both ends
        assert found.interval.low < safety.gain < found.interval.high
        assert safety.low < safety.gain < safety.high
        assert safety.value == pytest.approx(found.old.interval.estimate)
        assert safety.margin == pytest.approx(0.01 * found.old.interval.estimate)
        assert safety.queries == held.sum()

    @pytest.mark.filterwarnings("ignore:the clicks refute")
    def test_gains_of_permuted_clicks_do_not_count(self) -> None:
        """With a curve that is too steep, and pages that show everything: only permuted clicks can tell."""
        clicks = Simulation(WITH_BEST, BEST, PositionBased(0, 0.1), depth=8).draw(50_000, seed=0)
        steep = cr.Propensities.power(1.5, 8)
        kept = Safe(cr.IPS(envelope="off"), production="score").fit(WITH_BEST, clicks, steep)
        assert kept.safety_.share <= 0.3
        whole = kept.trials_[-1]
        assert whole.gain.low + whole.permuted > 0 > whole.gain.low

    def test_a_blend_adds_up_both_in_units_of_their_spread(self, clear: Safe) -> None:
        held = held_out(DATA.query_ids, 0.3, seed=1)
        part, share = DATA[~held], clear.safety_.share
        assert 0 < share < 1
        rankers = (imitate(clear.method.ranker_, clear.method, part, log(100_000)[~held]), clear.method.ranker_)
        tables = [one.predict(part).reshape(-1, 8) for one in rankers]
        deviations = [(table - table.mean(axis=1, keepdims=True)).std() for table in tables]
        imitation, learned = (one.predict(DATA) / deviation for one, deviation in zip(rankers, deviations, strict=True))
        np.testing.assert_allclose(clear.predict(DATA), (1 - share) * imitation + share * learned, rtol=1e-9, atol=1e-9)

    def test_queries_that_judge_are_not_learned_from(self, clear: Safe) -> None:
        held = held_out(DATA.query_ids, 0.3, seed=1)
        part, clicks = DATA[~held], log(100_000)[~held]
        alone = cr.IPS().fit(part, clicks, RHO)
        np.testing.assert_array_equal(clear.method.predict(DATA), alone.predict(DATA))
        np.testing.assert_array_equal(clear.method.ranker_.saw(DATA.query_ids), ~held)
        assert clear.ranker_.saw(DATA.query_ids).all()  # type: ignore[union-attr]  # the others chose the blend


class TestModels:
    def test_a_linear_production_beside_trees(self) -> None:
        """A linear imitation is more faithful than one by trees, and the blend is both."""
        kept = Safe(cr.IPS(model=Trees(rounds=20, min_weight=5.0))).fit(DATA, log(10_000), RHO)
        assert 0 < kept.safety_.share < 1
        assert kept.safety_.overlap > 0.95
        assert isinstance(kept.ranker_, BlendRanker)
        assert [one.kind for one in kept.ranker_.members] == ["linear", "trees"]

    @pytest.mark.parametrize("held", [True, False])
    def test_trees_beside_a_feature_where_others_are_missing(self, held: bool, tmp_path: Path) -> None:
        """Be it among the queries that judge, or among the others: a linear ranker would refuse to score them."""
        features = np.array(DATA.features)
        features[(held_out(DATA.query_ids, 0.3, seed=1) == held)[DATA.row_queries], 4] = np.nan
        data = cr.RankingDataset.from_arrays(
            features, DATA.row_queries, DATA.labels, feature_names=DATA.feature_names, missing="keep"
        )
        method = cr.Naive(model=Trees(rounds=20, min_weight=5.0))
        kept = Safe(method, margin=0.2, production="production").fit(data, log(100_000, data=data), RHO)
        assert kept.safety_.overlap > 0.9
        assert isinstance(kept.ranker_, TreeRanker)
        kept.ranker_.save(tmp_path / "ranker")
        np.testing.assert_array_equal(cr.load_ranker(tmp_path / "ranker").predict(data), kept.predict(data))
        with pytest.raises(UsageError, match="`missing=0`"):
            Safe(method, production="c").fit(data, log(5000, data=data), RHO)

    @pytest.mark.parametrize("scaling", ["log", None])
    def test_a_linear_ranker_beside_a_feature_is_linear(self, scaling: Any) -> None:
        kept = Safe(cr.IPS(model=Linear(scaling=scaling)), production="production").fit(DATA, log(100_000), RHO)
        assert kept.safety_.share > 0
        assert isinstance(kept.ranker_, LinearRanker)

    def test_a_vote_is_refused_before_it_is_trained(self) -> None:
        with pytest.raises(UsageError, match="RankAgg cannot be blended with production"):
            Safe(cr.RankAgg(model=Linear()))


class TestWhatItTells:
    def test_the_card(self, clear: Safe, tmp_path: Path) -> None:
        clear.ranker_.save(tmp_path / "ranker")
        card, safety = (tmp_path / "ranker" / "README.md").read_text(), clear.safety_
        assert "## Safety\n" in card
        assert str(safety).partition(";")[0] in card
        assert f"| share | {safety.share:.6g} |" in card
        assert (
            "safety.Safe(IPS(), margin=0.01, confidence=0.95, hold_out=0.3).fit(dataset, clicks, propensities)" in card
        )
        origin = cr.load_ranker(tmp_path / "ranker").provenance
        assert origin.safety == safety
        assert (origin.queries, origin.rows, origin.fingerprint) == (120, 960, DATA.fingerprint)
        assert origin.clicks is not None
        assert origin.clicks.impressions == 500_000


class TestRefused:
    def test_what_cannot_be_judged(self) -> None:
        clicks = log(5000)
        cases: list[tuple[str, Any]] = [
            ("Oracle", lambda: Safe(cr.Oracle())),
            ("not a str", lambda: Safe("ips")),  # type: ignore[arg-type]
            ("`margin`", lambda: Safe(cr.IPS(), margin=-0.1)),
            ("`confidence`", lambda: Safe(cr.IPS(), confidence=1)),
            ("`hold_out`", lambda: Safe(cr.IPS(), hold_out=0)),
            ("`propensities`", lambda: Safe(cr.Naive()).fit(DATA, clicks, None)),  # type: ignore[arg-type]
            ("`production='bm25'`", lambda: Safe(cr.IPS(), production="bm25").fit(DATA, clicks, RHO)),
            ("none", lambda: Safe(cr.IPS(), hold_out=1e-9).fit(DATA, clicks, RHO)),
            ("Safe", lambda: Safe(cr.IPS()).predict(DATA)),
        ]
        for message, call in cases:
            with pytest.raises(UsageError) as caught:
                call()
            assert message in str(caught.value)

    def test_a_feature_that_is_not_productions_score(self) -> None:
        with pytest.warns(cr.errors.CldrankWarning, match="'a'"), pytest.raises(UnsafeError, match="'a'.*DCG@5"):
            Safe(cr.Naive(), production="a").fit(WITH_BEST, log(300, BEST, data=WITH_BEST), RHO)


# -- the sequence of tests --------------------------------------------------------------------------------------------


def trial(share: float, low: float, estimate: float = 0.0, strict: float = -1.0) -> BlendTrial:
    return BlendTrial(share, Interval(estimate, low, 1.0, 0.9, 100), strict)


def test_the_way_up_ends_at_the_first_that_is_not_safe() -> None:
    trials = [trial(0.0, -0.01), trial(0.1, 0.02), trial(0.2, -0.02), trial(0.3, 0.5)]
    assert safe_trials(trials, 0.01) == trials[:2]
    assert safe_trials(trials[::-1], 0.01) == trials[:2]
    assert safe_trials(trials, 0.02) == trials
    assert safe_trials(trials, 0.009) == []


def test_the_way_down_ends_there_too() -> None:
    """The imitation may be worse than production, where the learned ranker is much better."""
    trials = [trial(0.0, -0.5), trial(0.1, 0.5, strict=0.4), trial(0.2, 0.5, strict=-0.02), trial(0.3, 0.5, strict=0.0)]
    assert safe_trials(trials, 0.01) == trials[3:]
    assert safe_trials(trials, 0.02) == trials[1:]
    assert safe_trials([*trials, trial(1.0, 0.5, strict=-0.03)], 0.02) == []


def test_the_two_ways_share_the_chance_of_an_error() -> None:
    for confidence in (0.5, 0.9, 0.99):
        one_sided = [(1 - two_sided) / 2 for two_sided in confidences(confidence)]
        assert sum(one_sided) == pytest.approx(1 - confidence)


@pytest.mark.parametrize("low", [np.nan, -np.inf])
def test_what_cannot_be_estimated_is_not_safe(low: float) -> None:
    assert safe_trials([trial(0.0, low, strict=low)], 0.01) == []
