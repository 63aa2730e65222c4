"""Networks and boosted trees small enough to fit many of in a test."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scenes import Scene, scene

from cldrank.methods import CLDPair, Method
from cldrank.methods.registry import configured
from cldrank.models import MLP, Epoch, Trees

SMALL = MLP(hidden=(8,), dropout=0.25, epochs=4, batch_queries=16)
GIVEN = scene(0, queries=60)
SMALL_TREES = Trees(rounds=12, leaves=4, min_weight=0.5, validation=0.4, patience=None, column_share=0.6)
GIVEN_TREES = scene(0, queries=80)


def small_pair(**settings: Any) -> CLDPair:
    """A small CLDPair; parameters of the model and of the run by their own names."""
    method = configured(CLDPair, {"model": SMALL, **settings})
    assert isinstance(method, CLDPair)
    return method


small_boosted = partial(small_pair, model=SMALL_TREES)


def scores(fitted: Method, given: Scene = GIVEN) -> NDArray[np.float64]:
    """What a fitted method says of the candidates of a scene."""
    found: NDArray[np.float64] = fitted.predict(given.data)
    return found


def stop_after(number: int) -> Any:
    """A listener that presses Ctrl-C after an epoch."""

    def stop(epoch: Epoch) -> None:
        if epoch.number == number:
            raise KeyboardInterrupt

    return stop
