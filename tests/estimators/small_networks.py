"""Networks small enough to train many of in a test."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scenes import Scene, scene

from cldrank.estimators import CLDPair
from cldrank.models.network import Training
from cldrank.models.network.networks import MLP
from cldrank.models.network.settings import Epoch

SMALL = MLP(hidden=(8,), dropout=0.25)
GIVEN = scene(0, queries=60)


def small_pair(**changes: Any) -> CLDPair:
    """A small CLDPair; parameters of `Training` go there."""
    own = {name: changes.pop(name) for name in list(changes) if name in Training.__dataclass_fields__}
    parts: dict[str, Any] = {"model": SMALL, "epochs": 4, "training": Training(**{"batch_queries": 16} | own)}
    return CLDPair(**parts | changes)


def scores(fitted: Any, given: Scene = GIVEN) -> NDArray[np.float64]:
    """What a fitted estimator says of the candidates of a scene."""
    found: NDArray[np.float64] = fitted.predict(given.data)
    return found


def stop_after(number: int) -> Any:
    """A listener that presses Ctrl-C after an epoch."""

    def stop(epoch: Epoch) -> None:
        if epoch.number == number:
            raise KeyboardInterrupt

    return stop
