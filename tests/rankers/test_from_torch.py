"""From a torch network to the simplest ranker that scores alike."""

from typing import Any

import numpy as np
import pytest
import torch
from made_rankers import (
    FEATURES,
    PARTS,
    SCALING,
    Residual,
)
from torch import nn

from cldrank.models import MLP
from cldrank.rankers import LinearRanker, ModuleRanker, NetworkRanker
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
        (nn.Linear(4, 1), LinearRanker),
        (nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 1, bias=False)), LinearRanker),
        (nn.Sequential(nn.Linear(4, 3), nn.Sigmoid(), nn.Identity(), nn.Linear(3, 1)), NetworkRanker),
        (nn.Sequential(nn.Linear(4, 3), nn.ELU(alpha=0.5), nn.Linear(3, 1)), ModuleRanker),
        (nn.Sequential(nn.Linear(4, 3), nn.GELU(approximate="tanh"), nn.Linear(3, 1)), ModuleRanker),
        (nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.Linear(3, 1)), ModuleRanker),
        (type("Turned", (nn.Sequential,), {"forward": lambda self, x: -self[0](x)})(nn.Linear(4, 1)), ModuleRanker),
        (Residual(), ModuleRanker),
    ],
    ids=str,
)
def test_a_network_becomes_the_simplest_ranker_that_scores_alike(own: nn.Module, kind: type) -> None:
    ranker = ranker_of(own, **PARTS)
    assert type(ranker) is kind
    with torch.no_grad():
        expected = own.eval()(torch.from_numpy(SCALING.transform(FEATURES))).reshape(-1).numpy()
    np.testing.assert_allclose(ranker.predict(FEATURES), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("whole", [False, True])
def test_a_layer_with_hooks_is_no_plain_layer(whole: bool) -> None:
    own = nn.Sequential(nn.Linear(4, 1))
    hooked = own if whole else own[0]
    hooked.register_forward_hook(lambda *parts: -parts[2])
    ranker = ranker_of(own, **PARTS)
    assert isinstance(ranker, ModuleRanker)
    with torch.no_grad():
        expected = own(torch.from_numpy(SCALING.transform(FEATURES)))[:, 0].numpy()
    np.testing.assert_allclose(ranker.predict(FEATURES), expected, rtol=1e-5, atol=1e-5)
