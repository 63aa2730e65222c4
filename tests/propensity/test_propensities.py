"""Propensities as values and as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cldrank.errors import CldrankError, FormatError
from cldrank.propensity import Propensities
from cldrank.propensity.propensities import Goodness


@given(st.floats(0, 5), st.integers(1, 50))
def test_power_law(eta: float, k: int) -> None:
    rho = Propensities.power(eta, k)
    np.testing.assert_allclose(rho.values, [(1 / position) ** eta for position in range(1, k + 1)])
    assert rho.at([1])[0] == 1


def test_clipping_is_said_once_and_only_where_it_happened() -> None:
    rho = Propensities.power(2, 5)
    assert rho.clip(0.01) is rho
    clipped = rho.clip(0.1)
    assert clipped.values.tolist() == [1, 0.25, 1 / 9, 0.1, 0.1]
    assert clipped.clipped == (4, 5)
    assert "clipped to 0.1 at positions 4 and 5" in repr(clipped)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "rho.json"
    rho = Propensities.power(0.7, 6).clip(0.4)
    rho.save(path)
    again = Propensities.load(path)
    np.testing.assert_array_equal(again.values, rho.values)
    assert (again.origin, again.clipped) == (rho.origin, rho.clipped)
    path.write_text("[1, 0.5]")
    assert Propensities.parse(str(path), k=9).values.tolist() == [1, 0.5]
    path.write_text(json.dumps({"format": "cldrank-simulation", "propensities": [1, 0.25]}))
    assert Propensities.load(path).values.tolist() == [1, 0.25]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Propensities(np.array([1.0, 0.0])), "position 2 is 0.0; it must be above 0"),
        (lambda: Propensities(np.array([0.5, 1.0])), "position 2"),
        (lambda: Propensities.power(1, 0), "at least 1, not 0"),
        (lambda: Propensities.power(1, 3).at([4]), "position 4"),
        (lambda: Propensities.power(1, 3).at([1.5]), "whole numbers"),
        (lambda: Propensities.power(1, 3).clip(0), "`clip`"),
        (lambda: Propensities.parse("power:steep", 3), "power:steep"),
    ],
)
def test_refusals(make: Any, message: str) -> None:
    with pytest.raises(CldrankError, match=message):
        make()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("PAR1", "is a Parquet file"),
        ('{"values": "x"}', "no list of propensities"),
        ('["a"]', "not a list of finite numbers"),
        ("[1, 1e999]", "not JSON"),
        ("[1, 0.5, 1" + "0" * 400 + "]", "not a list of finite numbers"),
    ],
)
def test_damaged_files(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "rho.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(FormatError, match=message):
        Propensities.load(tmp_path / "rho.json")


def estimated(**changed: Any) -> Propensities:
    parts: dict[str, Any] = {
        "origin": "AllPairs, 90 queries",
        "method": "AllPairs",
        "low": np.array([1, 0.4, 0.2]),
        "high": np.array([1, 0.6, 1.3]),
        "confidence": 0.8,
        "covariance": np.diag([0, 0.01, 0.2]),
        "goodness": Goodness(0.9, 3, 0.4, (1, 3)),
        "notes": ("position 3 is examined more often than the first (1.1 times), within chance",),
        "replicates": np.array([[1, 0.5, 1.2], [1, 0.45, 0.3], [1, 0.5123456789, 1.1]]),
    }
    return Propensities(**({"values": np.array([1, 0.5, 1.1])} | parts | changed))


def test_estimates_may_exceed_one_and_keep_all_that_is_known(tmp_path: Path) -> None:
    rho, path = estimated(), tmp_path / "rho.json"
    rho.save(path)
    again: Any = Propensities.load(path)
    for name in ("values", "low", "high", "covariance"):
        np.testing.assert_array_equal(getattr(again, name), getattr(rho, name))
    for name in ("origin", "method", "confidence", "goodness", "notes", "clipped"):
        assert getattr(again, name) == getattr(rho, name)
    assert again.replicates.tolist() == [[1, 0.5, 1.2], [1, 0.45, 0.3], [1, 0.512346, 1.1]]  # six digits
    np.testing.assert_allclose(again.errors, [0, 0.1, np.sqrt(0.2)])
    assert again.values.max() == 1.1


class TestClipping:
    """What clipping does to all that tells how far a curve may be off."""

    def test_replicates_are_clipped_and_what_is_raised_is_certain(self) -> None:
        rho: Any = estimated(covariance=np.diag([0, 0.01, 0.2]) + 0.001, goodness=None).clip(0.55)
        np.testing.assert_allclose(rho.replicates, [[1, 0.55, 1.2], [1, 0.55, 0.55], [1, 0.55, 1.1]])
        np.testing.assert_allclose(rho.covariance, [[0.001, 0, 0.001], [0, 0, 0], [0.001, 0, 0.201]])  # type: ignore[arg-type]
        assert rho.low.tolist() == [1, 0.55, 0.55]
        assert rho.clipped == (2,)

    def test_replicates_below_the_minimum_are_clipped_where_no_value_is(self) -> None:
        rho = estimated()
        clipped: Any = rho.clip(0.4)
        assert clipped.replicates.min() == 0.4
        assert (clipped.origin, clipped.clipped) == (rho.origin, ())
        np.testing.assert_array_equal(clipped.covariance, rho.covariance)
        assert rho.clip(0.1) is rho
        assert estimated(clipped=(2,)).clip(0.4).clipped == (2,)


def test_what_a_bound_raises_has_no_replicates() -> None:
    interval = {"low": [1, 0.8, 1.0], "high": [1, 0.9, 1.0], "confidence": 0.9}
    bound = Propensities(np.array([1, 0.85, 1.0]), method="Envelope", bound=True, **interval)  # type: ignore[arg-type]
    raised = estimated().raised_to(bound)
    assert raised.raised == (2,)
    assert (raised.replicates, raised.covariance, raised.uncertain) == (None, None, False)


class TestDraws:
    """Curves that might have been estimated instead."""

    def test_replicates_are_drawn_alike(self) -> None:
        rho: Any = estimated()
        draws = rho.draws(3000, seed=1)
        found, counts = np.unique(draws, axis=0, return_counts=True)
        np.testing.assert_array_equal(found, np.unique(rho.replicates, axis=0))
        assert (np.abs(counts - 1000) < 130).all()  # five standard deviations of a multinomial

    def test_without_replicates_logs_have_the_covariance(self) -> None:
        factor = np.array([[0, 0], [0.1, 0], [0.2, 0.3]])
        rho = estimated(replicates=None, covariance=factor @ factor.T)
        logs = np.log(rho.draws(200_000, seed=0))
        np.testing.assert_allclose(np.cov(logs, rowvar=False), factor @ factor.T, atol=2e-3)
        np.testing.assert_allclose(logs.mean(axis=0), np.log(rho.values), atol=2e-3)
        assert (logs[:, 0] == 0).all()
        assert (estimated(replicates=None, covariance=np.eye(3)).draws(9, seed=0)[:, 0] == 1).all()


def test_nothing_can_be_changed() -> None:
    rho = estimated()
    with pytest.raises(ValueError, match="read-only"):
        rho.values[0] = 2
    for array in (rho.low, rho.replicates):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 2  # type: ignore[index]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"low": np.ones(2)}, "low has shape"),
        ({"low": np.ones(3), "high": np.array([1, 0.5, 2])}, "position 2 is from 1.0 to 0.5"),
        ({"low": None}, "needs low, high and confidence"),
        ({"confidence": 2.0}, "above 0 and below 1"),
        ({"high": np.array([1, 1, 1e307])}, r"high holds 1e\+307"),  # a chart would have no room for it
        ({"replicates": np.ones((5, 2))}, r"replicates of 3 propensities have shape \(5, 2\)"),
        ({"replicates": [[1, 1, 1], [1, 0, 1]]}, "replicate of position 2 is 0.0; it must be above 0"),
        ({"values": ["one", 2, 3]}, "propensities cannot be read as numbers"),
        ({"values": [1e-300, 1e300, 1]}, "position 2 is 1e.300.*ratio to that of the first"),
    ],
)
def test_parts_that_do_not_fit(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(CldrankError, match=message):
        estimated(**changed)


GOODNESS: dict[str, Any] = {"statistic": 1, "pairs": 1, "p_value": 1, "worst": [1, 2]}


@pytest.mark.parametrize(
    "changed",
    [
        {"low": [1, 2]},
        {"clipped": [0]},
        {"raised": [4]},
        {"covariance": [[0, 0, 0], [0, 1], [0, 0, 0]]},
        {"covariance": [[0, 0, 0], [0, 1, 1], [0, 0, 1]]},
        {"replicates": [[1, 1, 1], [1, 0, 1]]},
        *({"goodness": GOODNESS | part} for part in ({"statistic": "x"}, {"worst": [1, 9]})),
    ],
)
def test_files_with_damaged_parts(tmp_path: Path, changed: dict[str, Any]) -> None:
    path = tmp_path / "rho.json"
    estimated().save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(FormatError, match=r"rho\.json"):
        Propensities.load(path)


def test_told_as_a_table() -> None:
    lines = str(estimated()).splitlines()
    assert lines[2].split() == ["position", "examined", "80%", "interval"]
    assert lines[5].split() == ["2", "0.5", "0.4", "to", "0.6"]
    assert lines[-2].startswith("     fit  clicks of the same candidates")
    assert "agree with the curve: 3 pairs of positions" in lines[-2]
    assert lines[-1].startswith("    note  position 3")
