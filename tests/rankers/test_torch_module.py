"""Networks of torch as rankers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_rankers import (
    FEATURES,
    PARTS,
    SCALING,
    Residual,
    module,
)
from torch import nn

from cldrank.errors import DataError, FormatError, UsageError
from cldrank.models import MLP
from cldrank.rankers import LinearRanker, ModuleRanker, NetworkRanker, load_ranker
from cldrank.rankers.torch_module import ranker_of


class Insistent(Residual):
    """Its code casts to float32, so that its numbers cannot be of another kind."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return super().forward(rows.float())


def test_a_module_that_insists_on_float32_scores_in_float32(tmp_path: Path) -> None:
    own = Insistent()
    ranker = ModuleRanker.of(own, **PARTS)
    with torch.no_grad():
        expected = own.eval()(torch.from_numpy(SCALING.transform(FEATURES))).numpy()
    np.testing.assert_array_equal(ranker.predict(FEATURES), expected)
    ranker.save(tmp_path)
    np.testing.assert_array_equal(load_ranker(tmp_path, module=Insistent()).predict(FEATURES), expected)


def test_a_module_with_numbers_that_are_none_is_refused() -> None:
    own = Residual()
    with torch.no_grad():
        own.last.bias.fill_(float("nan"))
    with pytest.raises(DataError, match="'last.bias' of the module hold NaN"):
        ModuleRanker.of(own, **PARTS)


def test_a_module_s_code_is_not_saved_and_must_be_given(tmp_path: Path) -> None:
    module().save(tmp_path)
    with pytest.raises(
        UsageError, match=r"module of the class Residual, whose code is not saved; pass one: load_ranker"
    ):
        load_ranker(tmp_path)
    with pytest.raises(FormatError, match="does not fit the ranker's numbers: .*size mismatch"):
        load_ranker(tmp_path, module=Residual(hidden=9))
    with pytest.raises(FormatError, match="does not fit the ranker's numbers: .*Missing key"):
        load_ranker(tmp_path, module=nn.Linear(4, 1))
    for wrong in (Residual, "Residual", 3):
        with pytest.raises(UsageError, match=r"`module` must be a torch module such as Residual\(…\), not "):
            load_ranker(tmp_path, module=wrong)


def test_the_module_given_is_not_changed(tmp_path: Path) -> None:
    module().save(tmp_path)
    own = Residual()
    before = {name: value.clone() for name, value in own.state_dict().items()}
    load_ranker(tmp_path, module=own)
    assert own.training
    assert all(torch.equal(before[name], value) for name, value in own.state_dict().items())


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
