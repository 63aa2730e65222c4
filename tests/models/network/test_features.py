from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cldrank import scaling
from cldrank.feature_blocks import uploaded
from cldrank.models.network import features
from cldrank.models.network.features import FeatureTable, raw_on_device

FEATURES = np.random.default_rng(0).lognormal(size=(50, 4)).astype(np.float32)
ROWS = np.array([1, 2, 3, 7, 11, 12, 40, 49])


@pytest.mark.parametrize("method", ["standard", "log", None])
def test_rows_held_and_rows_read_are_the_same(method: str | None) -> None:
    scaled = scaling.fit(method, FEATURES)
    held, read = (FeatureTable(FEATURES, scaled, ROWS, "cpu", resident) for resident in (True, False))
    assert held.resident is not None
    assert read.resident is None
    assert len(held) == len(read) == len(ROWS)
    places = np.array([5, 0, 0, 7, 2, 5])
    expected = scaled.transform(FEATURES)[ROWS][places]
    np.testing.assert_array_equal(held.gather(places).numpy(), expected)
    np.testing.assert_array_equal(read.gather(places).numpy(), expected)


@given(st.lists(st.lists(st.integers(0, 7), min_size=1, max_size=9), max_size=9))
def test_streamed_batches_come_whole_and_in_order(batches: list[list[int]]) -> None:
    table = FeatureTable(FEATURES, scaling.fit("standard", FEATURES), ROWS, "cpu", resident=False)
    arrays = [np.array(batch) for batch in batches]
    found = list(table.stream(arrays))
    assert len(found) == len(arrays)
    for batch, streamed in zip(arrays, found, strict=True):
        np.testing.assert_array_equal(streamed.numpy(), table.gather(batch).numpy())


def test_rows_are_held_where_memory_suffices(monkeypatch: pytest.MonkeyPatch) -> None:
    scaled = scaling.fit(None, FEATURES)
    size = len(ROWS) * 4 * 4
    for spare, held in ((size, True), (size - 1, False)):
        monkeypatch.setattr(features, "spare_memory", lambda spare=spare: spare)
        assert (FeatureTable(FEATURES, scaled, ROWS, "cpu").resident is not None) == held


@pytest.mark.parametrize("rows", [ROWS, np.arange(len(FEATURES))], ids=["some", "all"])
def test_features_that_are_on_the_device_are_scaled_there(rows: Any) -> None:
    scaled = scaling.fit("standard", FEATURES)
    table = FeatureTable(uploaded(FEATURES.copy(), "cpu"), scaled, rows, "cpu")
    assert table.resident is not None
    np.testing.assert_array_equal(table.resident.numpy(), scaled.transform(FEATURES)[rows])


def test_the_cpu_scales_for_itself_and_for_a_gpu_without_room(monkeypatch: pytest.MonkeyPatch) -> None:
    assert raw_on_device(FEATURES, torch.device("cpu"), None) is None
    monkeypatch.setattr(features, "uploaded", lambda *_: torch.zeros(1))
    for spare, resident, there in ((1, None, True), (1, False, False), (0.95, None, False)):
        monkeypatch.setattr(features, "_spare_memory", lambda _, spare=spare: spare * FEATURES.nbytes)
        assert (raw_on_device(FEATURES, torch.device("meta"), resident) is not None) == there
