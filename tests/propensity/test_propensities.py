from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cldrank.errors import CldrankError
from cldrank.propensity import Propensities


@given(st.floats(0, 5), st.integers(1, 50))
def test_power_law(eta: float, k: int) -> None:
    rho = Propensities.power(eta, k)
    np.testing.assert_allclose(rho.values, [(1 / position) ** eta for position in range(1, k + 1)])
    assert rho.at([1])[0] == 1


def test_normalised_to_the_first_position() -> None:
    assert Propensities([0.5, 0.25]).values.tolist() == [1, 0.5]  # type: ignore[arg-type]


def test_clipping_is_said_once_and_only_where_it_happened() -> None:
    rho = Propensities.power(2, 5)
    assert rho.clip(0.01) is rho
    clipped = rho.clip(0.1)
    assert clipped.values.tolist() == [1, 0.25, 1 / 9, 0.1, 0.1]
    assert clipped.clipped == (4, 5)
    assert "clipped to 0.1 at positions 4, 5" in repr(clipped)


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
        (lambda: Propensities(np.array([])), "flat array"),
        (lambda: Propensities(np.array([1.0, 0.0])), "position 2 is 0.0; it must be above 0"),
        (lambda: Propensities(np.array([1.0, np.nan])), "position 2 is nan"),
        (lambda: Propensities(np.array([0.5, 1.0])), "position 2 would be examined more often than the first"),
        (lambda: Propensities.power(-1, 5), "eta must be"),
        (lambda: Propensities.power(1, 0), "at least 1, not 0"),
        (lambda: Propensities.power(1, 3).at([4]), "no propensity for position 4; these go from 1 to 3"),
        (lambda: Propensities.power(1, 3).at([0]), "no propensity for position 0"),
        (lambda: Propensities.power(1, 3).at([1.5]), "whole numbers"),
        (lambda: Propensities.power(1, 3).clip(0), "above 0 and at most 1"),
        (lambda: Propensities.parse("power:steep", 3), "no power law"),
        (lambda: Propensities.parse("absent.json", 3), "no such file of propensities"),
    ],
)
def test_refusals(make: Any, message: str) -> None:
    with pytest.raises(CldrankError, match=message):
        make()


@pytest.mark.parametrize("content", ["not json", '{"values": "x"}', '["a"]', "3"])
def test_damaged_files(tmp_path: Path, content: str) -> None:
    (tmp_path / "rho.json").write_text(content)
    with pytest.raises(CldrankError, match="not JSON|no list of propensities"):
        Propensities.load(tmp_path / "rho.json")
