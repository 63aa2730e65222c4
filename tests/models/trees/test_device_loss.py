"""Losses on a device are those of the compiled loops."""

from __future__ import annotations

import numpy as np
import pytest
from scenes import scene

from cldrank.methods.observing import observe
from cldrank.models.model import LossForm
from cldrank.models.pairs import PairLoss, PairTable
from cldrank.models.targets import Unshown
from cldrank.models.trees import device_loss
from cldrank.models.trees.device_loss import DeviceLoss

OBSERVED = observe(*scene(3, queries=25))


@pytest.mark.parametrize(
    ("unshown", "form"),
    [(Unshown(0.3), "pairs"), (Unshown(0.3), "top"), (Unshown(0.3), "softmax"), (Unshown(None, 0.2, 1.5), "pairs")],
)
def test_derivatives_and_losses_are_those_of_the_compiled_loops(
    unshown: Unshown, form: LossForm, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = PairTable.of_observations(OBSERVED, unshown)
    queries = np.arange(1, len(table), 2)
    scores = np.random.default_rng(1).normal(size=len(table.rows)).astype(np.float32)
    scores[::5] = 0.5
    held = np.arange(0, len(table), 2)
    compiled, device = PairLoss(table, queries, 1, form, held), DeviceLoss(table, queries, "cpu", form, held)
    expected, slopes = compiled.at(scores), device.at(scores)
    assert slopes.loss == pytest.approx(expected.loss, rel=1e-5)
    np.testing.assert_allclose(slopes.gradient, expected.gradient, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(slopes.hessian, expected.hessian, rtol=1e-4, atol=1e-5)
    assert (slopes.held_loss, slopes.agreed) == pytest.approx((expected.held_loss, expected.agreed), rel=1e-5)
    monkeypatch.setattr(device_loss, "_KEPT_PAIRS", 0)
    monkeypatch.setattr(device_loss, "_MOST_PAIRS", 400)  # in parts, and preferences made anew
    again = DeviceLoss(table, queries, "cpu", form).at(scores)
    np.testing.assert_allclose(again.gradient, slopes.gradient, rtol=1e-5, atol=1e-6)
    assert (again.held_loss, again.agreed) == (None, None)
