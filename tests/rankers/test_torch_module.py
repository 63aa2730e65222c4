"""Networks of torch as rankers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from made_rankers import (
    FEATURES,
    PARTS,
    SCALING,
)
from torch import nn

from cldrank.errors import UsageError
from cldrank.models import MLP
from cldrank.rankers import LinearRanker, NetworkRanker
from cldrank.rankers.torch_module import ranker_of


@pytest.mark.parametrize("activation", ["elu", "relu", "gelu", "silu", "tanh"])
def test_numpy_scores_as_torch_does(activation: Any) -> None:
    own = MLP(hidden=(16, 8), activation=activation).build(4, seed=1).eval()
    ranker = ranker_of(own, **PARTS)
    with torch.no_grad():
        expected = own(torch.from_numpy(SCALING.transform(FEATURES)))[:, 0].numpy()
    np.testing.assert_allclose(ranker.predict(FEATURES), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("own", "kind"),
    [
        (nn.Sequential(nn.Linear(4, 1)), LinearRanker),
        (nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 1, bias=False)), LinearRanker),
        (nn.Sequential(nn.Linear(4, 3), nn.Sigmoid(), nn.Identity(), nn.Linear(3, 1)), NetworkRanker),
    ],
    ids=str,
)
def test_a_network_becomes_the_simplest_ranker_that_scores_alike(own: nn.Module, kind: type) -> None:
    ranker = ranker_of(own, **PARTS)
    assert type(ranker) is kind
    with torch.no_grad():
        expected = own.eval()(torch.from_numpy(SCALING.transform(FEATURES))).reshape(-1).numpy()
    np.testing.assert_allclose(ranker.predict(FEATURES), expected, rtol=1e-5, atol=1e-5)


def test_other_layers_are_refused() -> None:
    with pytest.raises(UsageError, match="not LayerNorm"):
        ranker_of(nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.Linear(3, 1)), **PARTS)
