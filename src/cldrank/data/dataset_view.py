"""What a line, and a notebook, shows of a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cldrank.drawing.notebook import ViewTable, left_out, notebook_view
from cldrank.wording import count

if TYPE_CHECKING:
    from cldrank.data.dataset import RankingDataset

_ROWS, _FEATURES = 6, 7


def dataset_line(data: RankingDataset) -> str:
    """Its name and size, and what there is besides features."""
    parts = [
        count(data.n_queries, "query", "queries"),
        count(data.n_rows, "row"),
        count(data.n_features, "feature"),
    ]
    if data.labels is None:
        parts.append("no labels")
    elif data.n_rows:
        parts.append(f"labels {data.labels.min():g}…{data.labels.max():g}")
    if data.doc_ids is not None:
        parts.append("document ids")
    if data.has_missing:
        parts.append("missing values")
    if data.on_disk:
        parts.append("features on disk")
    title = f"{data.name}: " if data.name else ""
    if data.synthetic:
        title = f"{data.name} (synthetic): " if data.name else "synthetic: "
    return f"RankingDataset({title}{', '.join(parts)})"


def dataset_view(data: RankingDataset) -> str:
    """Its size, and the first rows."""
    parts = [
        count(data.n_queries, "query", "queries"),
        count(data.n_rows, "candidate"),
        count(data.n_features, "feature"),
    ]
    if data.labels is not None and data.n_rows:
        parts.append(f"labels {data.labels.min():g} to {data.labels.max():g}")
    if data.has_missing:
        parts.append("with missing values")
    if data.synthetic:
        parts.append("synthetic")
    rows, width = min(_ROWS, data.n_rows), min(_FEATURES, data.n_features)
    ids = {"query": [str(data.query_ids[query]) for query in data.row_queries[:rows]]}
    if data.doc_ids is not None:
        ids["document"] = [str(document) for document in data.doc_ids[:rows]]
    columns: dict[str, list[str]] = dict(ids)
    if data.labels is not None:
        columns["label"] = [f"{label:g}" for label in data.labels[:rows]]
    head = [*columns, *data.feature_names[:width]]
    numbers = [[f"{value:.4g}" for value in data.features[:rows, at]] for at in range(width)]
    table = ViewTable(head, list(zip(*columns.values(), *numbers, strict=True)), dict.fromkeys(ids, False))
    notes = [*left_out(rows, data.n_rows, "candidates"), *left_out(width, data.n_features, "features")]
    title = f"RankingDataset {data.name}".strip()
    return notebook_view(title, about=", ".join(parts), tables=[table], notes=[" ".join(notes)] if notes else ())
