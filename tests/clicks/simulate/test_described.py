from __future__ import annotations

import numpy as np
import pytest

from cldrank.clicks.simulate import DependentClicks, FirstSwaps, PositionBased, TrustBiased
from cldrank.clicks.simulate.described import spread
from cldrank.clicks.simulate.models import MODELS
from cldrank.clicks.simulate.policies import POLICIES
from cldrank.errors import UsageError
from cldrank.parameters import parameters


def test_numbers_are_kept_as_python_has_them() -> None:
    assert PositionBased(eta=np.float64(2)).describe() == {"name": "pbm", "eta": 2.0, "noise": 0.1}
    assert isinstance(PositionBased(eta=2).eta, float)
    assert DependentClicks(continuation=np.array([1, 0.5])).continuation == (1.0, 0.5)  # type: ignore[arg-type]
    assert FirstSwaps(positions=[3, 2]).positions == (3, 2)  # type: ignore[arg-type]


def test_values_are_equal_if_their_parameters_are() -> None:
    assert PositionBased(eta=1) == PositionBased()
    assert PositionBased(eta=2) != PositionBased()
    assert len({TrustBiased(), TrustBiased(eta=1.0), TrustBiased(epsilon_plus=0.9)}) == 2
    assert repr(TrustBiased(eta=2, epsilon_minus=[0.5])) == "TrustBiased(eta=2.0, epsilon_minus=(0.5,))"  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [*MODELS, *POLICIES])
def test_every_ingredient_describes_itself(kind: type) -> None:
    assert kind.about  # type: ignore[attr-defined]
    assert all(one.about and not one.about.endswith(".") for one in parameters(kind).values())
    assert len({one.name for one in (*MODELS, *POLICIES)}) == len(MODELS) + len(POLICIES)


def test_a_number_per_position() -> None:
    assert spread((0.5, 0.25, 0.1), "continuation", 2).tolist() == [0.5, 0.25]
    with pytest.raises(UsageError, match="continuation has 1 entries for pages of 2 results") as error:
        spread((0.5,), "continuation", 2)
    assert error.value.said("shell").startswith("--continuation has 1 entries")
