"""`ServedRanker`: a ranker that has been tried, and answers requests."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cldrank import segments
from cldrank.errors import DataError, UsageError
from cldrank.rankers import GroupRanker, ModuleRanker, Ranker, TreeRanker, load_ranker
from cldrank.reading import read_json
from cldrank.service.requests import RankRequest, RequestError, RequestReader


class ServedRanker:
    """A ranker, the reader of its requests, and what it is known by."""

    def __init__(self, ranker: Ranker, max_candidates: int = 10_000) -> None:
        self.ranker = ranker
        self.reader = RequestReader(ranker.feature_names, ranker.takes_missing, max_candidates)
        self.identity = {"kind": ranker.kind, "fingerprint": ranker_fingerprint(ranker)}

    def rank(self, request: RankRequest) -> tuple[list[str | int], NDArray[np.float64]]:
        """Ids and scores, best first, cut to the top; ties are broken as everywhere in cldrank."""
        try:
            scores = self.ranker.score_rows(request.table) if len(request.table) else np.empty(0)
        except DataError as error:
            raise RequestError(str(error)) from None
        order = _descending(scores)[: request.top]
        return [request.ids[row] for row in order.tolist()], scores[order]

    def answer_in_json(self, request: RankRequest) -> bytes:
        """An object with the candidates in order."""
        ids, scores = self.rank(request)
        ranked = [
            {"id": identity, "score": score, "rank": rank}
            for rank, (identity, score) in enumerate(zip(ids, scores.tolist(), strict=True), 1)
        ]
        return msgspec.json.encode({"query_id": request.query_id, "ranker": self.identity, "ranked": ranked})

    def answer_in_arrow(self, request: RankRequest) -> bytes:
        """A stream with the columns id, score and rank; the metadata of its schema name query and ranker."""
        ids, scores = self.rank(request)
        kind = pa.string() if not ids or isinstance(ids[0], str) else pa.int64()
        metadata = {f"ranker_{key}": value for key, value in self.identity.items()}
        if request.query_id is not None:
            metadata["query_id"] = str(request.query_id)
        columns = {"id": pa.array(ids, type=kind), "score": scores, "rank": np.arange(1, len(ids) + 1)}
        table, sink = pa.table(columns, metadata=metadata), pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return bytes(sink.getvalue())

    @cached_property
    def description(self) -> dict[str, Any]:
        """What `GET /ranker` tells anybody who asks: not the command, which names files of whoever trained it."""
        ranker = self.ranker
        return {
            **self.identity,
            "features": list(ranker.feature_names),
            "takes_missing": ranker.takes_missing,
            "provenance": {key: value for key, value in ranker.provenance.as_dict().items() if key != "command"},
            "summary": repr(ranker),
        }


def load_served(folder: str | PathLike[str], max_candidates: int = 10_000) -> ServedRanker:
    """The ranker of a folder, after it has scored a probe; refused where it cannot be served."""
    path = Path(folder)
    if (path / "ranker.json").is_file():
        description = read_json(path / "ranker.json", "JSON")
        if isinstance(description, dict) and description.get("kind") == ModuleRanker.kind:
            raise UsageError(
                f"{path} scores with a torch module, whose code is not saved, so it cannot be served; linear rankers, "
                "networks and trees can."
            )
    served = ServedRanker(load_ranker(path), max_candidates)
    _use_one_thread(served.ranker)
    width = len(served.ranker.feature_names)
    probe = np.stack([np.zeros(width, dtype=np.float32), np.ones(width, dtype=np.float32)])
    try:
        served.ranker.score_rows(probe)
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
