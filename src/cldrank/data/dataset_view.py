"""What a line, and a notebook, shows of a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cldrank.documents import Document, Table, left_out, render_notebook
from cldrank.wording import count

if TYPE_CHECKING:
    from cldrank.data.dataset import RankingDataset

_ROWS, _FEATURES = 6, 7


def dataset_line(data: RankingDataset) -> str:
    """Its size, and what there is besides features."""
    parts = [count(data.n_queries, "query", "queries"), count(data.n_rows, "row"), count(data.n_features, "feature")]
    if data.labels is None:
        parts.append("no labels")
    elif data.n_rows:
        parts.append(f"labels {data.labels.min():g}…{data.labels.max():g}")
    if data.doc_ids is not None:
        parts.append("document ids")
    if data.has_missing:
        parts.append("missing values")
    return ", ".join(parts)


def dataset_view(data: RankingDataset) -> str:
    """Its size, and the first rows."""
    rows, width = min(_ROWS, data.n_rows), min(_FEATURES, data.n_features)
    columns: dict[str, list[str]] = {"query": [str(data.query_ids[query]) for query in data.row_queries[:rows]]}
    if data.doc_ids is not None:
        columns["document"] = [str(document) for document in data.doc_ids[:rows]]
    ids = list(columns)
    if data.labels is not None:
        columns["label"] = [f"{label:g}" for label in data.labels[:rows]]
    for place, name in enumerate(data.feature_names[:width]):
        columns[name] = [f"{value:.4g}" for value in data.features[:rows, place]]
    table = Table(list(columns), list(zip(*columns.values(), strict=True)), text=ids)
    notes = left_out(rows, data.n_rows, "candidates") + left_out(width, data.n_features, "features")
    about = dataset_line(data) + (", synthetic" if data.synthetic else "")
    return render_notebook(Document(f"RankingDataset {data.name}".strip(), [table, *notes], about=[about]))
