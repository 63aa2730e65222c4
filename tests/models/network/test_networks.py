import re

import pytest
import torch
from small_networks import GIVEN, small_pair

from cldrank.errors import CldrankError, UsageError
from cldrank.models import MLP
from cldrank.models.network import model as models
from cldrank.models.network.fitting import enough_memory


@pytest.mark.parametrize("hidden", [(1_000_000, 1_000_000), (10**30,), (1 << 40, 2)])
def test_a_network_that_no_machine_can_train_is_refused_before_anything_is_allocated(hidden: tuple[int, ...]) -> None:
    layers = re.escape(repr(hidden))
    with pytest.raises(UsageError, match=rf"`hidden={layers}` makes a network of .* weights .* GiB .* smaller layers"):
        small_pair(model=MLP(hidden=hidden)).fit(*GIVEN)


def test_the_weights_are_counted_as_torch_counts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    network = MLP(hidden=(5, 3)).build(4, seed=0)
    held = 16 * sum(parameter.numel() for parameter in network.parameters())
    monkeypatch.setattr(models, "machine_memory", lambda **_: held + 16)  # the last layer has no bias
    MLP(hidden=(5, 3)).build(4, seed=0)
    monkeypatch.setattr(models, "machine_memory", lambda **_: held - 1)
    with pytest.raises(UsageError, match=f"of {held // 16 + 1} weights for 4 features"):
        MLP(hidden=(5, 3)).build(4, seed=0)


@pytest.mark.parametrize("hidden", [(0,), (-3,), (2.5,), ("8",), (True,), 8, None])
def test_layers_that_are_none_are_refused(hidden: object) -> None:
    with pytest.raises(UsageError, match="`hidden` must be a list of whole numbers of at least 1, not "):
        MLP(hidden=hidden)  # type: ignore[arg-type]


def test_memory_that_runs_out_while_training_is_told() -> None:
    def too_much() -> None:
        with enough_memory():
            torch.empty(1 << 50, dtype=torch.float64)

    with pytest.raises(CldrankError, match=r"not enough memory to train this network.*smaller layers"):
        too_much()
    with pytest.raises(RuntimeError, match="mine"), enough_memory():
        raise RuntimeError("mine")
