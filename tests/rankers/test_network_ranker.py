"""Rankers that are networks, and what modules and voters share with them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from made_rankers import FEATURES, NAMES, PARTS, SCALING, borda, in_blocks, network, weights

from cldrank import scaling
from cldrank.errors import DataError
from cldrank.models import MLP
from cldrank.rankers import BordaRanker, Layer, LinearRanker, NetworkRanker
from cldrank.rankers.network_ranker import ranker_of


def test_equal_rows_get_equal_scores_wherever_they_lie() -> None:
    ranker = network()
    copies = np.repeat(FEATURES[:3], 203, axis=0)
    scores = [in_blocks(ranker, copies, size).reshape(3, 203) for size in (1, 2, 7, 100, 1000)]
    for row in range(3):
        assert len(np.unique([found[row] for found in scores])) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Layer("softmax"), "not 'softmax'"),
        (lambda: Layer("linear"), "needs a matrix"),
        (lambda: Layer("linear", weights(3, 4), weights(4)), "does not fit"),
        (lambda: Layer("linear", weights(3, 4) * np.nan), "finite and float32"),
        (lambda: Layer("relu", weights(1, 4)), "without numbers"),
        (lambda: NetworkRanker(layers=[Layer("linear", weights(1, 5))], **PARTS), "takes 5 numbers where 4 come in"),
        (lambda: NetworkRanker(layers=[Layer("linear", weights(2, 4))], **PARTS), "ends 2 wide"),
        (lambda: borda(network(), weights=(1.0, 2.0)), "2 weights for 1 members"),
        (lambda: borda(weights=(0.0, 0.0)), "not all 0"),
        (lambda: borda(weights=(1.0, np.nan)), "from 0 to"),
    ],
)
def test_parts_that_do_not_fit_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        make()


def test_networks_whose_scores_are_not_finite_are_refused() -> None:
    layers = [Layer("linear", np.full((1, 4), 3e38, dtype=np.float32))]
    ranker = NetworkRanker(feature_names=NAMES, scaling=scaling.fit(None, FEATURES), layers=layers)
    with pytest.raises(DataError, match=r"the score of row 0 \(counted from 0\) is inf"):
        ranker.predict(np.full((2, 4), 1e30))
    voters = BordaRanker(feature_names=NAMES, members=[ranker], weights=(1.0,))
    with pytest.raises(DataError, match="the score of row 0"):
        voters.predict(np.full((2, 4), 1e30))


def test_repr_tells_what_they_are() -> None:
    tail = "scaling Standard(clip=5.0), trained by Oracle on web (synthetic))"
    assert repr(network()) == f"NetworkRanker(4 features, 4 → 16 → 8 → 1, {tail}"
    assert repr(borda()) == "BordaRanker(4 features, 2 members, trained by Oracle on web (synthetic))"


@pytest.mark.parametrize(
    ("activation", "hidden", "kind"),
    [("elu", (), LinearRanker), *((name, (16, 8), NetworkRanker) for name in ("elu", "relu", "tanh"))],
)
def test_numpy_scores_as_torch_does(activation: Any, hidden: tuple[int, ...], kind: type) -> None:
    own = MLP(hidden=hidden, activation=activation).build(4, seed=1).eval()
    ranker = ranker_of(own, **PARTS)
    assert type(ranker) is kind
    with torch.no_grad():
        expected = own(torch.from_numpy(SCALING.transform(FEATURES)))[:, 0].numpy()
    np.testing.assert_allclose(ranker.predict(FEATURES), expected, rtol=1e-5, atol=1e-5)
