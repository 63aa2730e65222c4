"""What each feature contributes."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from made_rankers import FEATURES, NAMES, borda, dataset, linear, network, trees

from cldrank.errors import DataError, UsageError
from cldrank.rankers import Contributions, Importance, Ranker


@pytest.mark.parametrize("missing", [False, True])
def test_contributions_of_trees_add_up_to_the_scores(missing: bool) -> None:
    ranker, table = trees(), FEATURES.copy()
    if missing:
        table[np.random.default_rng(1).random(table.shape) < 0.3] = np.nan
    found = ranker.explain(table)
    assert found.values.shape == table.shape
    np.testing.assert_allclose(found.scores, ranker.predict(table), rtol=1e-4, atol=1e-4)
    assert len(np.unique(found.base)) == 1


def test_shapley_values_by_hand() -> None:
    """Of one feature, what it adds on average over all orders in which features become known (path-dependent)."""
    ranker = trees(rounds=1)
    (tree,) = ranker.trees
    left, right = tree["left_children"], tree["right_children"]

    def expected(row: np.ndarray, known: frozenset[int], node: int = 0) -> float:
        if left[node] < 0:
            return float(tree["split_conditions"][node])
        feature = tree["split_indices"][node]
        if feature in known:
            goes_left = row[feature] < tree["split_conditions"][node]
            return expected(row, known, left[node] if goes_left else right[node])
        shares = [tree["sum_hessian"][child] / tree["sum_hessian"][node] for child in (left[node], right[node])]
        both = zip(shares, (left[node], right[node]), strict=True)
        return float(sum(share * expected(row, known, child) for share, child in both))

    rows = FEATURES[:6]
    found = ranker.explain(rows)
    for at, row in enumerate(rows):
        by_hand = np.zeros(4)
        for order in permutations(range(4)):
            known: frozenset[int] = frozenset()
            for feature in order:
                by_hand[feature] += expected(row, known | {feature}) - expected(row, known)
                known |= {feature}
        np.testing.assert_allclose(found.values[at], by_hand / 24, rtol=1e-4, atol=1e-4)
        assert found.base[at] == pytest.approx(expected(row, frozenset()), rel=1e-4)


def test_contributions_of_a_linear_ranker_are_coefficients_times_values() -> None:
    ranker = linear()
    found = ranker.explain(dataset())
    np.testing.assert_allclose(found.scores, ranker.predict(dataset()), rtol=1e-9)
    np.testing.assert_allclose(found.values, ranker.scaling.transform(FEATURES) * ranker.coefficients)
    assert (found.base == ranker.intercept).all()


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = trees().explain(FEATURES)
    monkeypatch.setattr("cldrank.rankers.trees._BLOCK_VALUES", 28)
    np.testing.assert_array_equal(trees().explain(FEATURES).values, whole.values)
    assert len(trees().explain(FEATURES[:0])) == 0
    assert "0 rows" in repr(trees().explain(FEATURES[:0]))


def test_features_are_checked_as_for_scores() -> None:
    with pytest.raises(DataError, match="the ranker knows 4 features, the table has 3"):
        trees().explain(FEATURES[:, :3])
    with pytest.raises(DataError, match="is missing"):
        trees().explain(FEATURES, feature_names=("bm25", "pagerank", "length", "clicks"))


@pytest.mark.parametrize("ranker", [network(), borda()], ids=["network", "borda"])
def test_other_rankers_say_that_they_cannot(ranker: Ranker) -> None:
    with pytest.raises(UsageError, match="cannot say what each feature contributes; rankers that are linear or"):
        ranker.explain(FEATURES)


def test_importance_is_the_engine_s() -> None:
    ranker = trees()
    found = ranker.importance()
    for values, kind in ((found.gain, "total_gain"), (found.cover, "total_cover"), (found.weight, "weight")):
        theirs = ranker.booster.get_score(importance_type=kind)
        np.testing.assert_allclose(values, [theirs.get(f"f{at}", 0.0) for at in range(4)], rtol=1e-5)
    assert found.share.sum() == pytest.approx(1)
    first = found.ordered()[0]
    assert found.gain[NAMES.index(first["feature"])] == found.gain.max()
    assert set(first) == {"feature", "gain", "share", "cover", "splits"}


def test_tables_name_the_first_and_count_the_rest() -> None:
    names = tuple(f"f{at}" for at in range(30))
    many = Importance(names, np.arange(30.0), np.arange(30.0), np.arange(30))
    lines = many.table(most=3).splitlines()
    assert lines[0].split() == ["feature", "share", "of", "gain", "gain", "cover", "splits"]
    assert [line.split()[0] for line in lines[1:4]] == ["f29", "f28", "f27"]
    assert lines[4:] == ["and 27 more features"]
    assert repr(many).endswith("and 10 more features")
    rows = Contributions(names, np.eye(30), np.zeros(30))
    assert repr(rows).startswith("contributions of 30 features to the scores of 30 rows\nfeature ")


def test_charts_show_what_matters() -> None:
    drawn = trees().importance()._repr_svg_()
    assert drawn.startswith("<svg")
    assert "bm25: " in drawn
    assert "share of gain" in drawn
    nothing = Importance(("a<b>", "c"), np.array([1.0, 0.0]), np.zeros(2), np.zeros(2, dtype=int))
    assert "a&lt;b&gt;" in nothing._repr_svg_()
    assert ">c<" not in nothing._repr_svg_()  # without a gain there is nothing to draw
    assert Importance(("a",), np.zeros(1), np.zeros(1), np.zeros(1, dtype=int)).share.tolist() == [0.0]
    assert "mean |contribution|" in trees().explain(FEATURES)._repr_svg_()
