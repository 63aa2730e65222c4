from __future__ import annotations

from typing import Any

import numpy as np
import torch

from cldrank.models.network.lists import ListBatch
from cldrank.models.network.training_tasks import DualLists


def batch(rows: list[list[int]], target: list[list[float]], weight: list[list[float]]) -> ListBatch:
    count = len(rows)
    none = torch.zeros((count, 0))
    return ListBatch(
        torch.tensor(rows), torch.tensor(target), torch.tensor(weight), none, torch.zeros(count), torch.ones(count)
    )


def linear(weight: float) -> torch.nn.Module:
    layer = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.constant_(layer.weight, weight)
    return layer


def test_padding_loses_nothing() -> None:
    features = torch.tensor([[0.3], [2.0], [0.3]])
    task = DualLists(linear(1.0), np.array([0, 1]), 2)
    short = task.losses(features[:2], batch([[0, 1]], [[0.3, 0.6]], [[10.0, 5.0]]))
    padded = task.losses(features, batch([[0, 1, 0]], [[0.3, 0.6, 0.0]], [[10.0, 5.0, 0.0]]))
    torch.testing.assert_close(short, padded)


def test_dual_losses_by_hand() -> None:
    task = DualLists(linear(1.0), np.array([0, 1]), 2)
    lost = task.losses(torch.tensor([[1.0], [0.0]]), batch([[0, 1]], [[0.5, 0.2]], [[10.0, 10.0]]))
    ranking = -(5 * np.log(np.e / (np.e + 1)) + 2 * np.log(1 / (np.e + 1)))  # positions all alike as yet
    examination = -(5 + 2 * np.e) * np.log(0.5)
    np.testing.assert_allclose(lost.detach().numpy(), [ranking + examination], rtol=1e-5)


def test_neither_loss_teaches_through_the_weights_of_the_other() -> None:
    task = DualLists(linear(1.0), np.array([0, 1]), 2)
    given = batch([[0, 1]], [[0.5, 0.2]], [[10.0, 10.0]])
    task.losses(torch.tensor([[1.0], [0.0]]), given).sum().backward()
    examination: Any = task.networks["examination"]
    softmax = 0.5
    expected = 10 * np.array([softmax * (5 + 2 * np.e) - 5, softmax * (5 + 2 * np.e) - 2 * np.e])
    np.testing.assert_allclose(examination.curve.grad.numpy(), expected, rtol=1e-5)
