"""What every loss promises, checked over all of them, and each against its equation written out."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, log_expit
from torch import Tensor

from cldrank import likelihood, losses

C, GAMMA = 0.3, 0.4
CLD_PAIR: Any = losses.cld_pair
CLD: Any = losses.cld
Numbers = dict[str, Tensor]
SCORES = ("scores", "selection", "unshown_scores", "unshown_selection")


def numbers(seed: int, lists: int = 3, shown: int = 4, unshown: int = 3, size: float = 2.0) -> Numbers:
    """Scores, targets and weights of some lists, float64; the last shown candidate of the first list is padding."""
    random = np.random.default_rng(seed)
    weight = random.integers(1, 9, (lists, shown)).astype(float)
    weight[0, -1] = 0
    drawn = np.ones((lists, unshown))
    drawn[0, -1:] = 0
    parts = {
        "scores": random.normal(0, size, (lists, shown)),
        "selection": random.normal(0, size, (lists, shown)),
        "unshown_scores": random.normal(0, size, (lists, unshown)),
        "unshown_selection": random.normal(0, size, (lists, unshown)),
        "target": random.integers(0, 4, (lists, shown)) / 4,
        "weight": weight,
        "absent": random.integers(1, 9, (lists, unshown)) * drawn,
    }
    return {name: torch.from_numpy(values) for name, values in parts.items()}


def mixed(given: Numbers) -> Tensor:
    """The weight of a shown and an unshown candidate as a pair."""
    return given["weight"][:, :, None].minimum(given["absent"][:, None, :])


def pairwise(given: Numbers) -> Tensor:
    return losses.pairwise(given["scores"], losses.preferences(given["target"], given["weight"]))


def cld_pair(given: Numbers) -> Tensor:
    preference = losses.preferences(given["target"], given["weight"])
    found: Tensor = CLD_PAIR(*(given[name] for name in SCORES), preference, mixed(given), C)
    return found


def cld(given: Numbers) -> Tensor:
    names = ("scores", "selection", "unshown_selection", "target", "weight", "absent")
    found: Tensor = CLD(*(given[name] for name in names), GAMMA)
    return found


def pairwise_by_hand(given: dict[str, Any], at: int) -> float:
    f, t, w = (given[name][at] for name in ("scores", "target", "weight"))
    total = 0.0
    for i in range(len(f)):
        for j in range(len(f)):
            if t[i] > t[j]:
                total -= (t[i] - t[j]) * min(w[i], w[j]) * math.log(expit(f[i] - f[j]))
    return total


def cld_pair_by_hand(given: dict[str, Any], at: int) -> float:
    """The equation of the paper for each pair of all candidates, with s = 1 for those shown."""
    f = [*given["scores"][at], *given["unshown_scores"][at]]
    omega = [*given["selection"][at], *given["unshown_selection"][at]]
    count = len(given["scores"][at])
    s = [1] * count + [0] * len(given["unshown_scores"][at])
    t, w, absent = given["target"][at], given["weight"][at], given["absent"][at]
    total = 0.0
    for i in range(len(f)):
        for j in range(len(f)):
            weight = 0.0  # of a pair with one shown, i is that one; pairs with none shown are not drawn
            if s[i] and s[j] and t[i] > t[j]:
                weight = (t[i] - t[j]) * min(w[i], w[j])
            elif s[i] and not s[j]:
                weight = min(w[i], absent[j - count])
            difference = f[i] - f[j]
            order = s[i] * s[j] * log_expit(difference)
            chosen = s[i] * log_expit(omega[i] + difference) + (1 - s[i]) * log_expit(-omega[i])
            other = s[j] * log_expit(omega[j] + difference) + (1 - s[j]) * log_expit(-omega[j])
            total -= weight * (order + C * (chosen + other))
    return total


def cld_by_hand(given: dict[str, Any], at: int) -> float:
    seen = likelihood.shown(given["scores"][at], given["selection"][at], given["target"][at], GAMMA).value
    away = likelihood.log_cdf(-given["unshown_selection"][at]).value
    return -float(given["weight"][at] @ seen + given["absent"][at] @ away)


@dataclass(frozen=True)
class Loss:
    """A loss of lists as a function of the numbers they have."""

    value: Callable[[Numbers], Tensor]
    by_hand: Callable[[dict[str, Any], int], float]
    inputs: tuple[str, ...]

    def slopes(self, given: Numbers) -> Numbers:
        """The gradient of the sum of all lists by each input."""
        leaves = {name: given[name].clone().requires_grad_() for name in self.inputs}
        self.value(given | leaves).sum().backward()
        found = {name: leaf.grad for name, leaf in leaves.items()}
        return {name: slope for name, slope in found.items() if slope is not None}


LOSSES = {
    "pairwise": Loss(pairwise, pairwise_by_hand, ("scores",)),
    "cld_pair": Loss(cld_pair, cld_pair_by_hand, SCORES),
    "cld": Loss(cld, cld_by_hand, ("scores", "selection", "unshown_selection")),
}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


@every_loss
def test_the_value_is_that_of_the_equation_written_out(loss: Loss) -> None:
    given = numbers(0)
    arrays = {name: values.numpy() for name, values in given.items()}
    expected = [loss.by_hand(arrays, at) for at in range(3)]
    np.testing.assert_allclose(loss.value(given).numpy(), expected, rtol=1e-12)


@every_loss
def test_the_gradient_is_that_of_finite_differences(loss: Loss) -> None:
    given = numbers(2)

    def value(*leaves: Tensor) -> Tensor:
        return loss.value(given | dict(zip(loss.inputs, leaves, strict=True)))

    leaves = [given[name].clone().requires_grad_() for name in loss.inputs]
    assert torch.autograd.gradcheck(value, leaves)


@every_loss
def test_padding_has_no_slope_and_its_numbers_do_not_matter(loss: Loss) -> None:
    given = numbers(5)
    changed = {name: values.clone() for name, values in given.items()}
    for name in loss.inputs:
        changed[name][0, -1] = 77.0
    changed["target"][0, -1] = 1e3
    np.testing.assert_array_equal(loss.value(changed).numpy(), loss.value(given).numpy())
    assert all(slope[0, -1] == 0 for slope in loss.slopes(given).values())


finite = st.floats(-1e6, 1e6, width=32)


@every_loss
@settings(max_examples=25)
@given(data=st.data())
def test_no_slope_is_ever_nan(loss: Loss, data: st.DataObject) -> None:
    given = {name: values.float() for name, values in numbers(12, lists=2, shown=3, unshown=2).items()}
    for name in loss.inputs:
        shape = given[name].shape
        values = data.draw(st.lists(finite, min_size=shape.numel(), max_size=shape.numel()))
        given[name] = torch.tensor(values, dtype=torch.float32).reshape(shape)
    assert loss.value(given).isfinite().all()
    assert all(slope.isfinite().all() for slope in loss.slopes(given).values())
