import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from cldrank import feature_blocks, scaling
from cldrank.errors import DataError
from cldrank.feature_blocks import uploaded
from cldrank.scaling import MinMax, ScalingRule, SignedLog, Standard, Unscaled

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")),
]
RULES: list[ScalingRule] = [*(Standard(), Standard(clip=None), SignedLog(), MinMax(), MinMax(clip=False), Unscaled())]
random = np.random.default_rng(0)
heavy = random.lognormal(0, 4, (500, 6)).astype(np.float32) - 1
far = (1e4 + random.normal(size=(500, 6))).astype(np.float32)  # its squares lose half their digits
ties = random.integers(0, 4, (500, 6)).astype(np.float32) * [0, 1, 1, 1, 1e-30, 1e30]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize(
    ("table", "values"), [(heavy, 1 << 25), (heavy, 100), (far, 100), (ties.astype(np.float32), 100)]
)
def test_a_device_learns_and_applies_what_the_cpu_does(
    device: str, rule: ScalingRule, table: NDArray[np.float32], values: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature_blocks, "_DEVICE_VALUES", values)
    expected = scaling.fit(rule, table)
    there = uploaded(table.copy(), device)
    found = scaling.fit(rule, there)
    assert found.parameters.keys() == expected.parameters.keys()
    assert (found.rule, found.n_features) == (expected.rule, expected.n_features)
    for name, own in found.parameters.items():
        np.testing.assert_allclose(own, expected.parameters[name], rtol=2e-12, atol=1e-300, err_msg=name)
    unseen = np.concatenate([table, table * np.float32(1.5), -table])
    np.testing.assert_allclose(
        expected.transform(uploaded(unseen, device)).cpu().numpy(), expected.transform(unseen), rtol=1e-7, atol=1e-38
    )
    assert found.transform(there, out=there) is there
    np.testing.assert_allclose(there.cpu().numpy(), expected.transform(table), rtol=2e-7, atol=1e-7)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rows", [0, 1, 3, 4, 50])
def test_a_table_arrives_whatever_its_numbers(device: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_blocks, "_STAGED_BYTES", 4 * 3 * 6)  # three rows of a buffer
    whole = heavy[:rows]
    for table in (
        whole,
        np.asfortranarray(whole),
        heavy[: 2 * rows : 2],
        whole.astype(np.float64),
        whole.astype(np.int16),
    ):
        found = uploaded(table, device)
        assert (found.dtype, found.device.type) == (torch.float32, device)
        np.testing.assert_array_equal(found.cpu().numpy(), table.astype(np.float32))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1e39])
def test_a_value_that_is_not_finite_is_named(device: str, wrong: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_blocks, "_DEVICE_VALUES", 100)
    table = heavy.astype(np.float64)
    table[401, 2] = wrong
    with pytest.raises(DataError, match="column 2 of row 401"):
        uploaded(table, device)


def test_what_cannot_be_scaled_is_refused() -> None:
    with pytest.raises(DataError, match="0 rows × 6 features"):
        scaling.fit("standard", uploaded(heavy[:0], "cpu"))
    with pytest.raises(DataError, match="from 6 features, not 5"):
        scaling.fit("standard", uploaded(heavy, "cpu")).transform(uploaded(heavy[:, :5], "cpu"))
