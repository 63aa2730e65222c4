import pytest
import torch
from torch import nn

from cldrank.models.network import networks
from cldrank.models.network.networks import FlatParameters


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.ELU(), nn.Linear(7, 3, bias=False), nn.LayerNorm(3), nn.Linear(3, 1))


INPUT = torch.linspace(-1, 1, 20).reshape(4, 5)


@pytest.mark.parametrize("piece", [16, 1 << 14])
def test_steps_are_those_of_single_parameters(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "_PIECE", piece)
    one, other = network(), network()
    together = FlatParameters(one.parameters())
    split = [[each for each in other.parameters() if (each.ndim > 1) == matrix] for matrix in (True, False)]
    optimisers = [
        torch.optim.AdamW(
            [{"params": some, "weight_decay": rate} for some, rate in zip(parts, (0.5, 0.0), strict=True)]
        )
        for parts in ([together.decayed, together.others], split)
    ]
    for _ in range(3):
        together.gradient.zero_()
        optimisers[1].zero_grad()
        for each in (one, other):
            (10 * each(INPUT)).square().sum().backward()
        together.clip(0.3)
        torch.nn.utils.clip_grad_norm_(other.parameters(), 0.3)
        for optimiser in optimisers:
            optimiser.step()
    together.release()
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b)
        assert a.untyped_storage().nbytes() == 4 * a.numel()  # each has its own memory again


def test_a_number_that_is_lost_is_found() -> None:
    one = network()
    together = FlatParameters(one.parameters())
    assert together.finite
    with torch.no_grad():
        next(reversed(list(one.parameters()))).fill_(float("nan"))
    assert not together.finite
