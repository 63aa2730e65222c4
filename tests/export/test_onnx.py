from __future__ import annotations

import json
from typing import Any

import made_rankers as made
import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from tricky import at_thresholds, queries_of, tricky, with_gaps

import cldrank as cr
from cldrank import scaling
from cldrank.export import ExportRequest, Parity, export_formats
from cldrank.export.replay import NamedTable
from cldrank.rankers import BlendRanker, Layer, LinearRanker, NetworkRanker, Ranker, blended
from cldrank.rankers.network_ranker import ACTIVATIONS

FORMAT = export_formats()["onnx"]
REQUEST = ExportRequest()
ULP = 1.2e-7  # a step of float32, relative
SCALINGS = ["standard", scaling.Standard(clip=1e30), "minmax", "log", None]


def model_of(ranker: Ranker, **request: Any) -> bytes:
    return FORMAT.export(ranker, ExportRequest(**request)).files["model"]


def run(content: bytes, rows: NDArray[Any], threads: int = 1) -> NDArray[np.float64]:
    """The engine, without the replay."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    (found,) = session.run(["score"], {"features": rows.astype(np.float32)})
    assert found.dtype == np.float32
    assert found.shape == (len(rows), 1)
    scores: NDArray[np.float64] = found[:, 0].astype(np.float64)
    return scores


def parity(ranker: Ranker, rows: NDArray[np.float32]) -> Parity:
    data = queries_of(rows, ranker.feature_names)
    engine = FORMAT.replay({"model": model_of(ranker)}, NamedTable(ranker.feature_names, rows), REQUEST)
    return Parity.of(ranker.predict(data), engine, data.offsets)


def layered(kinds: tuple[str, ...], rule: Any = "standard", bias: bool = True, seed: int = 0) -> NetworkRanker:
    """A network with an activation after each layer, its last one included."""
    random, width, layers = np.random.default_rng(seed), 4, []
    for number, kind in enumerate(kinds):
        out = 1 if number == len(kinds) - 1 else 6
        weight = random.normal(size=(out, width)).astype(np.float32)
        layers.append(Layer("linear", weight, random.normal(size=out).astype(np.float32) if bias else None))
        layers.append(Layer(kind))
        width = out
    return NetworkRanker(feature_names=made.NAMES, scaling=scaling.fit(rule, made.FEATURES), layers=layers)


# -- parity ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", SCALINGS, ids=str)
def test_scaled_features_are_those_of_the_ranker_bit_for_bit(rule: Any) -> None:
    rows = np.concatenate([tricky(made.FEATURES), made.FEATURES])
    expected = scaling.fit(rule, made.FEATURES).transform(rows)
    for column in range(4):
        found = run(model_of(made.linear(rule, coefficients=np.eye(4)[column], intercept=0.0)), rows)
        if rule == "log":  # ONNX has no log1p: two roundings of float64 more
            np.testing.assert_allclose(found, expected[:, column], rtol=ULP)
            assert np.mean(found == expected[:, column]) > 0.99
        else:
            np.testing.assert_array_equal(found, expected[:, column])


@pytest.mark.parametrize("kind", ACTIVATIONS)
@pytest.mark.parametrize("bias", [True, False])
def test_networks_with_each_activation(kind: str, bias: bool) -> None:
    ranker = layered((kind, kind, kind), bias=bias)
    found = parity(ranker, tricky(made.FEATURES))
    assert found.largest <= ULP * found.scale
    assert found.swapped == 0


def test_trees_are_xgboosts_own_to_the_bit() -> None:
    ranker = made.trees(rounds=60)
    rows = with_gaps(at_thresholds(ranker, made.FEATURES))
    expected = ranker.booster.inplace_predict(rows, predict_type="margin")
    np.testing.assert_array_equal(run(model_of(ranker), rows), expected)
    found = parity(ranker, rows)
    assert (found.largest, found.same_order) == (0, True)


# -- numbers that are hard ---------------------------------------------------------------------------------------------


def test_small_steps_far_from_zero() -> None:
    """Timestamps: in float32 alone, the centre would be off by half a step, and so would every score."""
    features = (1.7e9 + 128 * np.random.default_rng(0).integers(0, 9, (200, 1))).astype(np.float32)
    ranker = LinearRanker(feature_names=("t",), scaling=scaling.fit("standard", features), coefficients=np.ones(1))
    np.testing.assert_allclose(run(model_of(ranker), features), ranker.predict(features), rtol=ULP, atol=1e-12)


def test_a_missing_value_is_not_scored_as_a_number() -> None:
    for ranker in (made.linear(), made.linear("minmax"), made.linear("log"), made.linear(None), made.network()):
        row = made.FEATURES[:1].copy()
        row[0, 1] = np.nan
        assert np.isnan(run(model_of(ranker), row)).all()


# -- the file ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranker", [made.linear(), made.network("relu"), made.trees()], ids=repr)
def test_the_model_is_sound_and_says_what_it_is(ranker: Any) -> None:
    content = model_of(ranker, name="shop", renamed={"länge": "length"})
    model = onnx.load_from_string(content)
    onnx.checker.check_model(model, full_check=True)
    assert model.ir_version == 8
    assert {one.domain: one.version for one in model.opset_import} == {"": 17, "ai.onnx.ml": 3}
    said = {one.key: one.value for one in model.metadata_props}
    assert json.loads(said["features"]) == ["bm25", "pagerank", "length", "clicks"]
    assert json.loads(said["kind"]) == ranker.kind
    assert json.loads(said["provenance"])["estimator"] == "Oracle"
    assert (said["cldrank"], model.graph.name, model.producer_name) == (cr.__version__, "shop", "cldrank")
    assert content == model_of(ranker, name="shop", renamed={"länge": "length"})


@pytest.mark.parametrize("ranker", [made.linear("minmax"), made.trees()], ids=repr)
def test_any_number_of_rows(ranker: Any) -> None:
    content, expected = model_of(ranker), ranker.predict(made.FEATURES)
    whole = run(content, made.FEATURES)
    np.testing.assert_allclose(whole, expected, rtol=ULP, atol=1e-7)
    np.testing.assert_array_equal(np.concatenate([run(content, row[None]) for row in made.FEATURES]), whole)
    for rows in (0, 5000):
        assert len(FORMAT.replay({"model": content}, NamedTable(made.NAMES, np.ones((rows, 4), "f4")), REQUEST)) == rows


def test_blends_are_sums_of_their_members() -> None:
    ranker = blended(
        (made.linear(coefficients=np.array([0.1, -2 / 3, 1e-17, 3.0])), made.network(), made.trees()), (0.5, 1, 2)
    )
    assert isinstance(ranker, BlendRanker)
    found = parity(ranker, tricky(made.FEATURES))
    assert found.largest <= ULP * found.scale
    assert found.swapped == 0
