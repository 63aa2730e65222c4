"""Warm starts: where a fit begins, and that it ends where it should."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.errors import CldrankWarning, DataError, UsageError
from cldrank.models import MLP, Linear, Run, Trees
from cldrank.models.warm import WarmStart
from cldrank.rankers import LinearRanker, load_ranker
from cldrank.safety import Safe
from cldrank.scaling import Standard
from cldrank.scaling import fit as fit_scaling

RHO = cr.Propensities.power(1, 5)
UNCLIPPED = Standard(clip=None)  # so that one scaling is a linear function of another


def scene(seed: int, queries: int = 60, shift: float = 0.0) -> tuple[cr.RankingDataset, cr.ClickTable]:
    """Queries of ten candidates, five of them shown; another seed is another day, with features that may have moved."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(10 * queries, 4)) * [1, 10, 0.1, 1] + [0, 5 + shift, shift, 0]
    worth = features @ [1.0, 0.1, 0, 0]
    names, order = np.repeat(np.arange(queries), 10), worth + random.normal(size=len(worth))
    rank = np.argsort(np.argsort(-order.reshape(-1, 10), axis=1), axis=1).ravel() + 1
    position = np.where(rank <= 5, rank, 0)
    impressions = np.where(position > 0, 200, 0)
    clicks = random.binomial(impressions, 1 / (1 + np.exp(-worth)) / np.maximum(position, 1))
    data = cr.RankingDataset.from_arrays(features, names, feature_names=["a", "b", "c", "d"])
    return data, cr.ClickTable.from_arrays(data, position=position, impressions=impressions, clicks=clicks)


@pytest.fixture(scope="module")
def yesterday() -> cr.CLD:
    return cr.CLD().fit(*scene(0), RHO)


class TestLinear:
    @pytest.mark.parametrize(
        "settings",
        [
            {},
            {"gamma": 0.5, "likelihood": "tobit", "sigma": "estimate"},
            {"model": Linear(scaling=None)},
            {"model": Linear(scaling="log")},
            {"model": Linear(fit_intercept=False)},
            {"relevance_features": ["a", "b"], "selection_features": ["b", "d"]},
        ],
    )
    def test_the_optimum_is_the_same_and_nearer(self, settings: dict[str, Any]) -> None:
        earlier = cr.CLD(**settings).fit(*scene(0), RHO)
        today = scene(1, shift=0.5)
        cold = cr.CLD(**settings).fit(*today, RHO)
        warm = cr.CLD(**settings, run=Run(warm_start=earlier.ranker_)).fit(*today, RHO)
        assert warm.status_ == cold.status_ == "converged"
        np.testing.assert_allclose(warm.coef_, cold.coef_, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(warm.selection_coef_, cold.selection_coef_, rtol=1e-7, atol=1e-9)
        assert warm.n_iter_ < cold.n_iter_  # a start of zeros takes as many
        assert warm.fit_.diagnostics.warm_start.startswith("CLD, weights_sha256 ")

    def test_the_same_day_again_takes_no_step(self, yesterday: cr.CLD, tmp_path: Path) -> None:
        yesterday.ranker_.save(tmp_path / "ranker")
        for start in (yesterday.ranker_, tmp_path / "ranker", str(tmp_path / "ranker")):
            again = cr.CLD(run=Run(warm_start=start)).fit(*scene(0), RHO)
            assert again.n_iter_ == 0
            np.testing.assert_allclose(again.coef_, yesterday.coef_, rtol=1e-9)
        assert yesterday.n_iter_ > 2

    def test_the_start_is_that_of_the_scores_and_of_selection(self) -> None:
        yesterday = cr.CLD(model=Linear(scaling=UNCLIPPED)).fit(*scene(0), RHO)
        data, _ = scene(3, shift=2.0)
        scaling = fit_scaling(UNCLIPPED, data.features)
        context = cr.CLD(run=Run(warm_start=yesterday.ranker_))._context(data)
        warm = WarmStart.of(context, scaling)
        assert warm is not None
        assert isinstance(yesterday.ranker_, LinearRanker)
        coefficients, intercept = warm.linear(yesterday.ranker_.coefficients, yesterday.ranker_.intercept)
        translated = scaling.transform(data.features) @ coefficients + intercept
        np.testing.assert_allclose(translated, yesterday.predict(data), atol=1e-4)
        found = warm.selection()
        assert found is not None
        before = yesterday.ranker_.scaling.transform(data.features) @ yesterday.selection_coef_
        after = scaling.transform(data.features) @ found[0] + found[1] - yesterday.selection_intercept_
        np.testing.assert_allclose(after, before, atol=1e-4)

    def test_features_are_matched_by_name(self, yesterday: cr.CLD) -> None:
        data, clicks = scene(1)
        order = [3, 1, 0]
        names = (*(data.feature_names[at] for at in order), "new")
        fresh = np.random.default_rng(5).normal(size=(data.n_rows, 1)).astype(np.float32)
        other = replace(data, features=np.hstack([data.features[:, order], fresh]), feature_names=names)
        cold = cr.CLD().fit(other, clicks, RHO)
        with pytest.warns(CldrankWarning, match="new features start at zero: new; dropped: c"):
            warm = cr.CLD(run=Run(warm_start=yesterday.ranker_)).fit(other, clicks, RHO)
        np.testing.assert_allclose(warm.coef_, cold.coef_, rtol=1e-7, atol=1e-9)
        unknown = replace(data, feature_names=("e", "f", "g", "h"))
        with pytest.raises(DataError, match="knows none of the features"):
            cr.CLD(run=Run(warm_start=yesterday.ranker_)).fit(unknown, clicks, RHO)

    def test_everything_shown_leaves_no_selection_to_begin_with(self) -> None:
        data, clicks = scene(0)
        shown = clicks.shown
        part = cr.RankingDataset.from_arrays(data.features[shown], data.row_queries[shown])
        places = clicks.position, clicks.impressions, clicks.clicks
        all_shown = cr.ClickTable.from_arrays(
            part, position=places[0], impressions=places[1], clicks=places[2], row=np.arange(part.n_rows)
        )
        with pytest.warns(CldrankWarning):
            one = cr.CLD().fit(part, all_shown, RHO)
        with pytest.warns(CldrankWarning):
            again = cr.CLD(run=Run(warm_start=one.ranker_)).fit(part, all_shown, RHO)
        np.testing.assert_allclose(again.coef_, one.coef_, rtol=1e-7)


class TestRefusals:
    def test_what_has_no_use_for_it_says_why(self, yesterday: cr.CLD) -> None:
        run = Run(warm_start=yesterday.ranker_)
        with pytest.raises(
            UsageError, match="IPS has no use for `warm_start`, as it fits a linear model: such a fit has nothing to"
        ):
            cr.IPS(run=run).fit(*scene(0), RHO)
        with pytest.raises(
            UsageError, match="boosted trees: going on would add trees to those of clicks that have left"
        ):
            cr.CLDPair(model=Trees(), run=run).fit(*scene(0), RHO)
        with pytest.raises(UsageError, match="`warm_start` must be"):
            Run(warm_start=3)  # type: ignore[arg-type]

    def test_safe_networks_begin_anew(self, yesterday: cr.CLD) -> None:
        run = Run(warm_start=yesterday.ranker_)
        with pytest.raises(UsageError, match="may know the clicks that judge it here"):
            Safe(cr.CLDPair(model=MLP(hidden=(4,)), run=run)).fit(*scene(0), RHO)

    def test_other_kinds_of_rankers(self) -> None:
        pytest.importorskip("torch")
        network = cr.CLDPair(model=MLP(hidden=(4,), epochs=1)).fit(*scene(0), RHO).ranker_
        with pytest.raises(UsageError, match="cannot start from a network"):
            cr.CLD(run=Run(warm_start=network)).fit(*scene(0), RHO)
        with pytest.raises(UsageError, match=r"has 4 → 5 elu → 1, the earlier one 4 → 4 elu → 1"):
            cr.CLDPair(model=MLP(hidden=(5,)), run=Run(warm_start=network)).fit(*scene(0), RHO)
        with pytest.raises(UsageError, match=r"the earlier one 4 → 4 elu → 1"):
            cr.CLDPair(model=MLP(hidden=(4,), activation="relu"), run=Run(warm_start=network)).fit(*scene(0), RHO)


class TestNetworks:
    @pytest.mark.parametrize("model", [Linear(scaling=UNCLIPPED), MLP(hidden=(8, 4), dropout=0.0, scaling=UNCLIPPED)])
    def test_they_begin_with_the_scores_of_the_earlier_one(self, model: Any, tmp_path: Path) -> None:
        torch = pytest.importorskip("torch")
        from cldrank.models.network.fitting import begin_with
        from cldrank.models.network.tasks import SelectedPairs

        earlier = cr.CLDPair(model=model).fit(*scene(0), RHO)
        earlier.ranker_.save(tmp_path / "ranker")
        loaded = load_ranker(tmp_path / "ranker")
        data, _ = scene(1, shift=0.3)
        scaling = fit_scaling(UNCLIPPED, data.features)
        warm = WarmStart.of(cr.CLDPair(run=Run(warm_start=loaded))._context(data), scaling)
        assert warm is not None
        network = model.as_network() if isinstance(model, Linear) else model
        task = SelectedPairs(network.build(4, 5), 4, 1.0, 1.0)
        begin_with(warm, task, "CLD-pair")
        scaled = torch.from_numpy(scaling.transform(data.features))
        with torch.no_grad():
            scores = task.networks["relevance"](scaled).numpy().ravel()
            selection = task.networks["selection"](scaled).numpy().ravel()
        before = warm.ranker.scaling.transform(data.features)
        gap = scores - earlier.predict(data)
        np.testing.assert_allclose(gap, np.median(gap), atol=1e-4)  # the same but for a constant
        expected = before @ vars(earlier)["selection_coef_"] + vars(earlier)["selection_intercept_"]
        np.testing.assert_allclose(selection, expected, atol=1e-4)

    def test_what_was_held_out_stays_so(self) -> None:
        pytest.importorskip("torch")
        model = MLP(hidden=(4,), epochs=1, validation=0.2)
        first = cr.CLDPair(model=model).fit(*scene(0), RHO).ranker_
        warm = cr.CLDPair(model=model, run=Run(warm_start=first, seed=9)).fit(*scene(1), RHO)
        cold = cr.CLDPair(model=model, run=Run(seed=9)).fit(*scene(1), RHO)
        assert len(first.start["held_out"]) == warm.n_held_ == 12
        assert np.array_equal(warm.ranker_.start["held_out"], first.start["held_out"])
        assert not np.array_equal(cold.ranker_.start["held_out"], first.start["held_out"])
        more = cr.CLDPair(model=model, run=Run(warm_start=first)).fit(*scene(1, queries=120), RHO)  # 60 of them new
        held = more.ranker_.start["held_out"]
        assert first.trained_on is not None
        assert more.ranker_.saw(scene(0)[0].query_ids).all()  # type: ignore[union-attr]
        few = cr.CLDPair(model=model, run=Run(warm_start=first)).fit(*scene(1, queries=30), RHO).ranker_
        assert few.saw(np.arange(60)).all()  # type: ignore[union-attr]  # also those that only the first one learned from
        assert not cr.CLD(run=Run()).fit(*scene(1, queries=30), RHO).ranker_.saw([45]).any()  # type: ignore[union-attr]
        assert np.isin(first.start["held_out"], held).all()
        assert not np.isin(held[~np.isin(held, first.start["held_out"])], first.trained_on).any()

    def test_it_is_on_the_record(self, tmp_path: Path) -> None:
        pytest.importorskip("torch")
        model = MLP(hidden=(4,), epochs=1)
        first = cr.CLDPair(model=model).fit(*scene(0), RHO).ranker_
        warm = cr.CLDPair(model=model, run=Run(warm_start=first)).fit(*scene(1), RHO).ranker_
        warm.save(tmp_path / "warm")
        first.save(tmp_path / "first")
        loaded = load_ranker(tmp_path / "warm")
        assert loaded.provenance.diagnostics is not None
        recorded = loaded.provenance.diagnostics.warm_start
        assert recorded.startswith("CLDPair, weights_sha256 ")
        assert recorded.split()[-1].rstrip("…") in (tmp_path / "first" / "ranker.json").read_text()
        assert "started from" in (tmp_path / "warm" / "README.md").read_text()
        assert "started from" not in (tmp_path / "first" / "README.md").read_text()
