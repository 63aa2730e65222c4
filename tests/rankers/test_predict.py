"""Where rankers score, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from letor_rankers import PARTS, borda, letor, linear, network, trees

import cldrank as cr
from cldrank.errors import UsageError
from cldrank.rankers import Layer, NetworkRanker, Ranker
from cldrank.rankers.network_ranker import ACTIVATIONS


class TestDevices:
    """Where there is no GPU, and on any device that torch has."""

    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
    @pytest.mark.parametrize("make", [network, trees])
    def test_no_gpu(self, tmp_path: Path, make: Callable[[], Ranker]) -> None:
        (tmp_path / "a.txt").write_text(letor(5))
        with pytest.raises(UsageError, match="`device='cuda'`"):
            cr.score(make(), tmp_path / "a.txt", tmp_path / "out.csv", device="cuda")
        with pytest.raises(UsageError, match="`device='cuda'`"):
            make().predict(np.zeros((2, 3)), device="cuda")

    @pytest.mark.parametrize("make", [linear, borda])
    def test_linear_rankers_stay_on_the_cpu(self, make: Callable[[], Ranker]) -> None:
        np.testing.assert_array_equal(make().predict(np.eye(3), device="cuda"), make().predict(np.eye(3)))

    @pytest.mark.parametrize("activation", ACTIVATIONS)
    def test_torch_scores_as_numpy_does(self, activation: str) -> None:
        layers = network(16, 8).layers
        layers = [layer if layer.kind == "linear" else Layer(activation) for layer in layers]
        made = NetworkRanker(layers=layers, **PARTS)
        rows = np.random.default_rng(0).normal(scale=3, size=(500, 3)).astype(np.float32)
        found = made._scorer_by_torch("cpu")(rows)
        np.testing.assert_allclose(found, made.predict(rows), rtol=1e-6, atol=1e-6)
        assert (found == made.predict(rows)).mean() > 0.99
        np.testing.assert_array_equal(found, found.astype(np.float32))

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
    @pytest.mark.parametrize("make", [network, trees])
    def test_a_gpu_scores_as_the_cpu_does(self, tmp_path: Path, make: Callable[[], Ranker]) -> None:
        ranker, rows = make(), np.random.default_rng(0).normal(size=(5000, 3)).astype(np.float32)
        np.testing.assert_allclose(ranker.predict(rows, device="cuda"), ranker.predict(rows), rtol=1e-5, atol=1e-6)
        (tmp_path / "a.txt").write_text(letor(200, scattered=True))
        cr.score(ranker, tmp_path / "a.txt", tmp_path / "gpu.parquet", device="cuda")
        cr.score(ranker, tmp_path / "a.txt", tmp_path / "cpu.parquet")
        found, other = (pq.read_table(tmp_path / f"{name}.parquet")["score"].to_numpy() for name in ("gpu", "cpu"))
        np.testing.assert_allclose(found, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [linear, network, trees, borda])
def test_of_a_dataset_and_back_to_its_file(tmp_path: Path, make: Callable[[], Ranker]) -> None:
    """A dataset regroups the rows of scattered queries; scores are of its rows, and source_rows leads back."""
    (tmp_path / "a.txt").write_text(letor(60, scattered=True))
    data, ranker = cr.load(tmp_path / "a.txt"), make()
    assert data.source_rows is not None
    scores = ranker.predict(data)
    if ranker.by_row:
        np.testing.assert_array_equal(scores, ranker.predict(data.features))
    back = np.empty_like(scores)
    back[data.source_rows] = scores
    cr.score(ranker, tmp_path / "a.txt", tmp_path / "out.parquet")
    np.testing.assert_array_equal(pq.read_table(tmp_path / "out.parquet")["score"].to_numpy(), back)
