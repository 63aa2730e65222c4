"""`ServedRanker`: a ranker that has been tried, and can answer requests."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank.errors import DataError, UsageError
from cldrank.rankers import GroupRanker, ModuleRanker, Ranker, TreeRanker, load_ranker
from cldrank.reading import read_json
from cldrank.service.layout import FeatureLayout, RankRequest
from cldrank.service.request_error import RequestError


@dataclass(frozen=True, eq=False)
class Ranked:
    """Candidates in order, best first; `ranker` says by whom."""

    query_id: str | int | None
    ranker: dict[str, str]
    ids: list[str | int]
    scores: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ServedRanker:
    """A ranker, the layout of its features, and what it is known by."""

    ranker: Ranker
    layout: FeatureLayout = field(init=False)
    identity: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        names = self.ranker.feature_names
        object.__setattr__(self, "layout", FeatureLayout(names, self.ranker.takes_missing))
        object.__setattr__(self, "identity", {"kind": self.ranker.kind, "fingerprint": ranker_fingerprint(self.ranker)})

    def rank(self, request: RankRequest) -> Ranked:
        """The candidates in order, ties broken as everywhere in cldrank, cut to the top."""
        rows = len(request.table)
        try:
            scores = self.ranker.score_rows(request.table) if rows else np.empty(0)
        except DataError as error:
            raise RequestError(str(error)) from None
        order = _descending(scores)[: request.top]
        ids = request.ids
        return Ranked(request.query_id, self.identity, [ids[row] for row in order.tolist()], scores[order])

    @cached_property
    def description(self) -> dict[str, Any]:
        """What `GET /ranker` tells anybody who asks: not the command, which names files of whoever trained it."""
        ranker = self.ranker
        return {
            **self.identity,
            "features": list(ranker.feature_names),
            "takes_missing": ranker.takes_missing,
            "provenance": {key: value for key, value in asdict(ranker.provenance).items() if key != "command"},
            "summary": repr(ranker),
        }


def load_served(folder: str | PathLike[str]) -> ServedRanker:
    """The ranker of a folder, after it has scored a probe; refused where it cannot be served."""
    path = Path(folder)
    if (path / "ranker.json").is_file():
        description = read_json(path / "ranker.json", "JSON")
        if isinstance(description, dict) and description.get("kind") == ModuleRanker.kind:
            raise UsageError(
                f"{path} scores with a torch module, whose code is not saved, so it cannot be served; linear rankers, "
                "networks and trees can."
            )
    served = ServedRanker(load_ranker(path))
    _use_one_thread(served.ranker)
    width = len(served.layout.names)
    probe = np.stack([np.zeros(width, dtype=np.float32), np.ones(width, dtype=np.float32)])
    try:
        served.rank(RankRequest([0, 1], probe))
    except DataError as error:
        raise DataError(f"{path} cannot score a row of zeros and a row of ones: {error}") from None
    return served


def _descending(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """The order of `segments.descending_order`, in a tenth of its time for a short list without ties."""
    order = np.argsort(-scores)
    ordered = scores[order]
    if (ordered[1:] == ordered[:-1]).any():
        order = segments.descending_order(scores, np.array([0, len(scores)]))
    return order


def _use_one_thread(ranker: Ranker) -> None:
    """Score in the thread of the request: a list is too short to share out, and other workers need the cores."""
    if isinstance(ranker, TreeRanker):
        ranker.booster.set_param({"nthread": 1})
    for member in ranker.members if isinstance(ranker, GroupRanker) else ():
        _use_one_thread(member)


def ranker_fingerprint(ranker: Ranker) -> str:
    """Sixteen hexadecimal digits that change with anything that a score depends on.

    >>> from cldrank import scaling
    >>> from cldrank.rankers import LinearRanker
    >>> one = LinearRanker(feature_names="ab", scaling=scaling.fit(None, [[1, 1]]), coefficients=[1, 2])
    >>> ranker_fingerprint(one)
    '...'
    """
    config, weights = ranker.to_state()
    digest = hashlib.sha256(json.dumps([ranker.kind, ranker.feature_names, config], sort_keys=True).encode())
    for name, values in sorted(weights.items()):
        digest.update(f"\0{name}\0{values.dtype}\0{values.shape}\0".encode())
        digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()[:16]
