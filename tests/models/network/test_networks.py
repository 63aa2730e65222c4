import pytest
import torch

from cldrank.errors import CldrankError, UsageError
from cldrank.models import MLP
from cldrank.models.network.network_fit import enough_memory


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
