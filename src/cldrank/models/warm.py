"""Warm starts: the numbers of an earlier ranker, for the features and the scaling of today."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.data.dataset import RankingDataset
from cldrank.data.query_hash import Hashes, hashes_of
from cldrank.errors import CldrankWarning, DataError, UsageError, warn
from cldrank.feature_blocks import RemoteFeatures
from cldrank.models.fit import Context
from cldrank.rankers import LinearRanker, NetworkRanker, Ranker, load_ranker
from cldrank.rankers.files import weights_digest
from cldrank.scaling import Scaling
from cldrank.wording import kind_of, some

Floats = NDArray[np.float64]

_SAMPLE = 4096  # rows from which the relation of two scalings is learned
_LARGEST = 1e30  # a number that is larger comes of no fit, and would not fit into a network
_SELECTION = ("selection_coefficients", "selection_intercept")


@dataclass(frozen=True, eq=False)
class WarmStart:
    """An earlier ranker, for features of today with the scaling of today.

    Features are matched by name: one that is new starts at zero, one that is gone is dropped. The scaling is
    that of today, since one that is kept would be that of the first day for ever. Per feature, the earlier scaled value
    is about `slope` times that of today plus `shift`: exactly so where a scaling is linear.

    ranker    the earlier one
    place     (features,) where it has each feature of today; -1 for one that is new
    """

    ranker: LinearRanker | NetworkRanker
    place: IntArray
    slope: Floats
    shift: Floats

    @classmethod
    def of(cls, context: Context, scaling: Scaling) -> WarmStart | None:
        """What a run asks to start from; None if nothing."""
        named = context.run.warm_start
        if named is None:
            return None
        earlier = load_ranker(named) if isinstance(named, str | PathLike) else named
        if not isinstance(earlier, LinearRanker | NetworkRanker):
            raise UsageError(
                f"{context.user} can start from a linear ranker or a network, not from {kind_of(earlier)}; leave "
                "`warm_start` out."
            )
        features: Any = context.data.features
        if isinstance(features, RemoteFeatures):
            raise UsageError(
                "a fit on Spark starts afresh, as it has no rows to compare scalings by; leave `warm_start` out."
            )
        place = _places(earlier, context.data)
        return cls(earlier, place, *_relation(earlier, place, context.data, scaling))

    @property
    def description(self) -> str:
        """For the record of the fit."""
        method = self.ranker.provenance.estimator or "a ranker"
        return f"{method}, weights_sha256 {weights_digest(self.ranker)[:12]}…"

    def linear(self, coefficients: Floats, intercept: float) -> tuple[Floats, float]:
        """Coefficients and intercept of earlier scaled features as those of today's."""
        own = np.where(self.place < 0, 0.0, coefficients[self.place])
        return own * self.slope, float(intercept + own @ self.shift)

    def linear_start(self, user: str) -> tuple[tuple[Floats, float], tuple[Floats, float] | None]:
        """Coefficients and intercept of the score and, where it is known, of selection; refused for a network."""
        if not isinstance(self.ranker, LinearRanker):
            raise UsageError(f"{user} fits a linear model, and cannot start from a network; leave `warm_start` out.")
        return self.linear(self.ranker.coefficients, self.ranker.intercept), self.selection()

    def layer(self, weight: NDArray[np.float32]) -> tuple[Floats, Floats]:
        """The weights of a layer that sees the features, and what is to be added to its bias."""
        own = np.where(self.place < 0, 0.0, weight[:, self.place].astype(np.float64))
        return own * self.slope, own @ self.shift

    def selection(self) -> tuple[Floats, float] | None:
        """The model of selection; None where the ranker has none, or all candidates were shown."""
        start = self.ranker.start
        if not all(name in start for name in _SELECTION):
            return None
        coefficients, intercept = (np.asarray(start[name], dtype=np.float64) for name in _SELECTION)
        if coefficients.shape != (len(self.ranker.feature_names),) or intercept.shape != (1,):
            raise _damaged("model of selection")
        if not (np.isfinite(coefficients).all() and np.isfinite(intercept).all()):
            return None
        selection = self.linear(coefficients, float(intercept[0]))
        if max(np.abs(selection[0]).max(), abs(selection[1])) > _LARGEST:
            raise _damaged("model of selection")
        return selection

    def number(self, name: str) -> float | None:
        """A single number beside the scores; None where the ranker has none."""
        if name not in self.ranker.start:
            return None
        value = np.asarray(self.ranker.start[name], dtype=np.float64)
        if value.shape != (1,) or not abs(value[0]) <= _LARGEST:
            raise _damaged(name)
        return float(value[0])

    def held_first(self, query_ids: NDArray[Any]) -> IntArray:
        """How suitable queries are to be held out: 0 were so before, 1 are new, 2 were learned from.

        What was learned from before cannot tell when to stop: the network knows its clicks.
        """
        hashes = hashes_of(query_ids)
        before = self.ranker.start.get("held_out", np.zeros(0, dtype=np.uint64))
        if before.dtype != np.uint64 or before.ndim != 1:
            raise _damaged("list of queries held out")
        held = np.isin(hashes, before)
        known = np.zeros(0, dtype=np.uint64) if self.ranker.trained_on is None else self.ranker.trained_on
        return np.where(held, 0, np.where(np.isin(hashes, known), 2, 1))


def selection_start(coefficients: Floats, intercept: float) -> dict[str, Floats]:
    """A model of selection, as a ranker keeps it for a later fit."""
    return dict(zip(_SELECTION, (np.asarray(coefficients), np.array([intercept])), strict=True))


def held_start(query_ids: NDArray[Any]) -> dict[str, Hashes]:
    """The queries that were held out, as a ranker keeps them for a later fit."""
    return {"held_out": np.unique(hashes_of(query_ids))}


def _damaged(what: str) -> DataError:
    return DataError(f"the {what} of the ranker to start from is damaged; train without it.")


def _places(earlier: Ranker, data: RankingDataset) -> IntArray:
    """Where the earlier ranker has each feature."""
    known = {name: place for place, name in enumerate(earlier.feature_names)}
    place = np.array([known.get(name, -1) for name in data.feature_names], dtype=np.int64)
    if (place < 0).all():
        raise DataError(f"the ranker to start from knows none of the features of {data!r}; leave `warm_start` out.")
    new = [name for name, at in zip(data.feature_names, place, strict=True) if at < 0]
    gone = [name for name in known if name not in set(data.feature_names)]
    if new or gone:
        parts = [f"new features start at zero: {some(new)}"] if new else []
        parts += [f"dropped: {some(gone)}"] if gone else []
        warn(CldrankWarning(f"the ranker to start from has other features; {'; '.join(parts)}."))
    return place


def _relation(
    earlier: LinearRanker | NetworkRanker, place: IntArray, data: RankingDataset, scaling: Scaling
) -> tuple[Floats, Floats]:
    """Slope and shift of the earlier scaled features on those of today, by least squares over some rows."""
    rows = np.arange(0, data.n_rows, max(1, data.n_rows // _SAMPLE))
    sample = data.features[rows]
    as_before = np.zeros((len(rows), len(earlier.feature_names)), dtype=np.float32)
    as_before[:, place[place >= 0]] = sample[:, place >= 0]
    before = earlier.scaling.transform(as_before).astype(np.float64)[:, place]  # of new features anything
    today = scaling.transform(sample).astype(np.float64)
    mean, mean_before = today.mean(axis=0), before.mean(axis=0)
    spread = ((today - mean) ** 2).sum(axis=0)
    slope = ((today - mean) * (before - mean_before)).sum(axis=0) / np.where(spread > 0, spread, 1.0)
    return slope, np.where(place < 0, 0.0, mean_before - slope * mean)
