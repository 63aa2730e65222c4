"""Answers: ranked candidates in JSON and in Arrow."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson

from cldrank.service.served import Ranked

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"


def answer_in_json(ranked: Ranked) -> bytes:
    """An object with the candidates in order."""
    rows = [
        {"id": one, "score": score, "rank": rank}
        for rank, (one, score) in enumerate(zip(ranked.ids, ranked.scores.tolist(), strict=True), 1)
    ]
    return orjson.dumps({"query_id": ranked.query_id, "ranker": ranked.ranker, "ranked": rows})


def answer_in_arrow(ranked: Ranked) -> bytes:
    """A stream with the columns id, score and rank; what is not a column is in the metadata of the schema."""
    import pyarrow as pa

    texts = not ranked.ids or isinstance(ranked.ids[0], str)
    columns: dict[str, Any] = {
        "id": pa.array(ranked.ids, type=pa.string() if texts else pa.int64()),
        "score": pa.array(ranked.scores),
        "rank": pa.array(np.arange(1, len(ranked.ids) + 1)),
    }
    metadata = {f"ranker_{key}": value for key, value in ranked.ranker.items()}
    if ranked.query_id is not None:
        metadata["query_id"] = str(ranked.query_id)
    batch = pa.record_batch(columns, metadata=metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]
