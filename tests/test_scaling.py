import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray

from cldrank import feature_blocks, scaling
from cldrank.errors import DataError, UsageError
from cldrank.scaling import MinMax, Scaling, ScalingRule, SignedLog, Standard, Unscaled

preprocessing = pytest.importorskip("sklearn.preprocessing")

UNCLIPPED: list[ScalingRule] = [Standard(clip=None), SignedLog(clip=None), MinMax(clip=False)]
RULES: list[ScalingRule] = [*(Standard(clip=5), Standard(clip=0.5), MinMax(), SignedLog(clip=5)), *UNCLIPPED]
rules = st.sampled_from(RULES)
numbers = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 1.0, 3.4e38, -3.4e38, 1e-45, 1e8, 1e-6]),  # ties and extremes
)
tables = arrays(np.float32, array_shapes(min_dims=2, max_dims=2, max_side=12), elements=numbers)
heavy = np.random.default_rng(0).lognormal(0, 4, (500, 6)).astype(np.float32) - 1


@settings(max_examples=30)
@given(rules, tables, st.data())
def test_any_finite_value_gives_a_finite_one(
    rule: ScalingRule, train: NDArray[np.float32], data: st.DataObject
) -> None:
    unseen = data.draw(arrays(np.float32, (5, train.shape[1]), elements=numbers))
    fitted = scaling.fit(rule, train)
    for table in (train, unseen):
        scaled = fitted.transform(table)
        assert scaled.dtype == np.float32
        assert scaled.shape == table.shape
        assert np.isfinite(scaled).all()


@settings(max_examples=30)
@given(rules, tables, st.data())
def test_order_is_kept(rule: ScalingRule, train: NDArray[np.float32], data: st.DataObject) -> None:
    unseen = data.draw(arrays(np.float32, (20, train.shape[1]), elements=numbers))
    values = np.sort(np.concatenate([unseen, train]), axis=0)
    assert (np.diff(scaling.fit(rule, train).transform(values), axis=0) >= 0).all()


@settings(max_examples=30)
@given(rules, tables, st.integers(1, 13))
def test_size_of_blocks_changes_nothing(rule: ScalingRule, train: NDArray[np.float32], block_rows: int) -> None:
    whole = scaling.fit(rule, train)
    expected = whole.transform(train)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(feature_blocks, "_BLOCK_VALUES", block_rows * train.shape[1])
        np.testing.assert_allclose(scaling.fit(rule, train).transform(train), expected, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(whole.transform(train), expected)


@settings(max_examples=30)
@given(rules, tables)
def test_state_makes_the_same_scaling_again(rule: ScalingRule, train: NDArray[np.float32]) -> None:
    fitted = scaling.fit(rule, train)
    config, parameters = fitted.to_state()
    again = Scaling.from_state(json.loads(json.dumps(config)), train.shape[1], parameters)
    assert again.rule == rule
    assert repr(again) == repr(fitted)
    for name, values in fitted.parameters.items():
        np.testing.assert_array_equal(again.parameters[name], values)
    np.testing.assert_array_equal(again.transform(train), fitted.transform(train))


@settings(max_examples=30)
@given(rules, st.integers(1, 9), numbers, numbers)
def test_a_constant_feature_gives_zero(rule: ScalingRule, rows: int, constant: float, unseen: float) -> None:
    fitted = scaling.fit(rule, np.full((rows, 1), constant, dtype=np.float32))
    np.testing.assert_array_equal(fitted.transform([[constant], [unseen]]), 0)


def test_standard_equals_scikit_learn_within_the_clip() -> None:
    reference = preprocessing.StandardScaler().fit_transform(heavy.astype(np.float64))
    np.testing.assert_allclose(scaling.fit(Standard(clip=5), heavy).transform(heavy), reference.clip(-5, 5), rtol=1e-6)
    np.testing.assert_allclose(scaling.fit(Standard(clip=None), heavy).transform(heavy), reference, rtol=1e-6)
    assert np.abs(reference).max() > 10


def test_minmax_equals_scikit_learn_within_the_range() -> None:
    reference = preprocessing.MinMaxScaler().fit(heavy.astype(np.float64))
    fitted = scaling.fit("minmax", heavy)
    np.testing.assert_allclose(fitted.transform(heavy), reference.transform(heavy.astype(np.float64)), rtol=1e-6)
    beyond = np.vstack([heavy.min(axis=0) - 1, heavy.max(axis=0) * 2])
    np.testing.assert_array_equal(fitted.transform(beyond), [[0] * 6, [1] * 6])
    unclipped = scaling.fit(MinMax(clip=False), heavy).transform(beyond)
    np.testing.assert_allclose(unclipped, reference.transform(beyond.astype(np.float64)), rtol=1e-6)


def test_signed_log_equals_standard_of_the_logarithms() -> None:
    logs = np.sign(heavy) * np.log1p(np.abs(heavy.astype(np.float64)))
    reference = preprocessing.StandardScaler().fit_transform(logs)
    for clip, expected in ((2, reference.clip(-2, 2)), (None, reference)):
        found = scaling.fit(SignedLog(clip=clip), heavy).transform(heavy)
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("rule", [Standard(clip=None), MinMax(clip=False)])
def test_what_is_too_far_out_for_float32_becomes_its_largest_number(rule: ScalingRule) -> None:
    largest = np.finfo(np.float32).max
    scaled = scaling.fit(rule, [[0.0], [1e-30]]).transform([[-3e38], [0.0], [3e38]])
    np.testing.assert_array_equal(scaled[[0, 2], 0], [-largest, largest])
    assert abs(scaled[1, 0]) <= 1


def test_a_large_mean_costs_no_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    train = (np.random.default_rng(3).integers(0, 5, (3000, 1)) * 8 + 1e8).astype(np.float32)
    monkeypatch.setattr(feature_blocks, "_BLOCK_VALUES", 7)
    scaled = scaling.fit("standard", train).transform(train)
    assert abs(scaled.mean()) < 1e-6
    assert scaled.std() == pytest.approx(1, abs=1e-6)


def test_no_scaling_leaves_features_alone() -> None:
    np.testing.assert_array_equal(scaling.fit(None, heavy).transform(heavy), heavy)
    assert scaling.rule_of("none") == scaling.rule_of(None)


@pytest.mark.parametrize("wrong", ["standart:clip=3", 5, Standard])
def test_an_unknown_name_is_answered_with_the_known_ones(wrong: Any) -> None:
    with pytest.raises(UsageError, match="'standard', 'minmax', 'log', 'none'"):
        scaling.fit(wrong, heavy)


numbers_of_options = st.floats(1e-6, 1e6) | st.integers(1, 9)
every_rule = st.one_of(
    st.builds(Standard, clip=st.none() | numbers_of_options),
    st.builds(SignedLog, clip=st.none() | numbers_of_options),
    st.builds(MinMax, clip=st.booleans()),
    st.builds(Unscaled),
)


@given(every_rule)
def test_the_text_of_a_rule_stands_for_it(rule: ScalingRule) -> None:
    assert scaling.rule_of(rule.text) == rule
    assert type(scaling.rule_of(rule.text)) is type(rule)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("standard:clip=0", "clip must be a number above 0 and up to 3.40282e+38, or None, not 0."),
        ("minmax:clip=none", "clip must be True or False, not none"),
        ("minmax:knots=1", "write minmax or minmax:clip=true."),
        ("standard:", "`scaling='standard:'`: standard has no such option"),
        ("none:clip=1", "write none."),
        ("standard:clip=1,clip=2", "`scaling='standard:clip=1,clip=2'`: clip must be"),
    ],
)
def test_a_wrong_option_is_refused_with_the_known_ones(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        scaling.rule_of(text)
    assert words in str(caught.value)


@pytest.mark.parametrize(("rule", "value"), [*((rule, np.nan) for rule in RULES), (None, np.inf), (None, 1e39)])
def test_what_is_not_finite_is_refused_with_its_place(
    rule: ScalingRule | None, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature_blocks, "_BLOCK_VALUES", 6)  # two rows
    bad = np.zeros((7, 3))
    bad[5, 2] = value
    with pytest.raises(DataError, match="column 2 of row 5"):
        scaling.fit(rule, bad)
    with pytest.raises(DataError, match="column 2 of row 5"):
        scaling.fit(rule, np.eye(3)).transform(bad)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.zeros((0, 3)), "0 rows × 3 features"),
        (np.zeros(3), r"table of numbers \(rows × features\), not float64 \(3,\)"),
        (np.array([["a"]]), "must be a table of numbers"),
    ],
)
def test_what_is_no_table_of_numbers_is_refused(features: NDArray[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        scaling.fit("standard", features)


def test_other_widths_and_empty_blocks_are_refused() -> None:
    fitted = scaling.fit("standard", heavy)
    with pytest.raises(DataError, match="learned from 6 features, not 5"):
        fitted.transform(heavy[:, :5])
    with pytest.raises(UsageError, match="`block_rows` must be a whole number of at least 1"):
        next(fitted.blocks(heavy, block_rows=0))
    assert fitted.transform(heavy[:0]).shape == (0, 6)


@pytest.mark.parametrize(
    ("rule", "n_features", "message"),
    [
        ({"method": "os.system"}, 6, "'os.system'"),
        ({"method": "standard", "clip": -1}, 6, "not -1"),
        ({"method": "standard", "clap": 1}, 6, "'clap'"),
        ({"method": "standard"}, 7, "center of the scaling must be 7 finite"),
        ({"method": "none"}, 6, "it needs"),
    ],
)
def test_a_wrong_state_is_refused(rule: Any, n_features: int, message: str) -> None:
    _, parameters = scaling.fit("standard", heavy).to_state()
    with pytest.raises(DataError, match=message):
        Scaling.from_state(rule, n_features, parameters)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"center": np.full(6, np.nan)}, "finite float64"),
        ({"factor": -np.ones(6)}, "negative"),
        ({"more": np.zeros(6)}, "it needs"),
    ],
)
def test_wrong_parameters_are_refused(change: dict[str, Any], message: str) -> None:
    rule, parameters = scaling.fit("standard", heavy).to_state()
    with pytest.raises(DataError, match=message):
        Scaling.from_state(rule, 6, parameters | change)
