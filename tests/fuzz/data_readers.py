"""Readers of features: LETOR text, CSV and Parquet."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import letor_reference
import numpy as np
import pyarrow.parquet as pq
from mutation import Random, mutate_bytes, mutate_text
from reader import Case, Reader, WrongError, parquet_of, same, small_data

import cldrank as cr
from cldrank.tables.sources import csv_header


def _seed_letor(folder: Path) -> None:
    rows = [f"{row % 3} qid:{row // 4} 1:{row}.5 2:-0.25 {3 + row % 2}:1e-3" for row in range(16)]
    rows[5] += " # a comment"
    (folder / "train.txt").write_text("\n".join(rows) + "\n")


def _text_of(name: str, letters: str) -> Case:
    """Cases of a text file: mutated as text, where some letters matter most, or as bytes."""

    def case(seeds: Path, place: Path, random: Random) -> Path:
        target = place / name
        content = (seeds / name).read_bytes()
        if random.random() < 0.5:
            target.write_text(mutate_text(content.decode(), random, letters), errors="surrogatepass")
        else:
            target.write_bytes(mutate_bytes(content, random))
        return target

    return case


def _read_letor(path: Path) -> None:
    data = cr.load(path, cache=False)
    try:
        table, labels, queries = letor_reference.read(path.read_bytes())
    except letor_reference.UnreadableError as error:
        raise WrongError(f"accepted, but for an independent reader it is not LETOR: {error}") from None
    order = np.arange(data.n_rows) if data.source_rows is None else data.source_rows
    same(data.features, table[order].reshape(data.features.shape), "features")
    same(data.labels, np.asarray(labels, dtype=np.float32)[order], "labels")
    names = np.repeat(data.query_ids, np.diff(data.offsets)).astype(str)
    for found, expected in zip(names.tolist(), (queries[row] for row in order), strict=True):
        if _query(found) != _query(expected):
            raise WrongError(f"query id {found!r} where the file says {expected!r}")


def _query(name: str) -> str | int:
    return int(name) if name.lstrip("+-").isascii() and name.lstrip("+-").isdigit() else name


def _seed_csv(folder: Path) -> None:
    rows = [f'{row // 4},d{row},{row % 3},{row}.5,"{row}"' for row in range(16)]
    (folder / "train.csv").write_text("\n".join(["query_id,doc_id,label,bm25,price", *rows]) + "\n")


def _read_csv(path: Path) -> None:
    data = cr.load(path, cache=False)
    names, delimiter = csv_header(path)
    text = path.read_text(encoding="utf-8-sig")
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row][1:]
    order = np.arange(data.n_rows) if data.source_rows is None else data.source_rows
    if len(rows) != data.n_rows:
        raise WrongError(f"{data.n_rows} rows where the file has {len(rows)}")
    queries = np.repeat(data.query_ids, np.diff(data.offsets)).astype(str).tolist()
    same(queries, [rows[row][names.index("query_id")] for row in order], "query ids")
    for place, name in enumerate(data.feature_names):
        column = [rows[row][names.index(name)].strip() for row in order]
        same(data.features[:, place], [_number(one) for one in column], name)


def _number(text: str) -> np.float32:
    words = {"true": 1, "false": 0}
    return np.float32(int(text, 16) if text.startswith("0x") else words.get(text.lower(), text))


def _seed_features(folder: Path) -> None:
    small_data().save(folder / "train.parquet")


def _read_features(path: Path) -> None:
    data = cr.load(path, cache=False)
    table = pq.read_table(path)
    if len(table) != data.n_rows:
        raise WrongError(f"{data.n_rows} rows where the file has {len(table)}")
    if not np.isfinite(data.features).all() or not np.isfinite(data.labels if data.labels is not None else 0).all():
        raise WrongError("numbers that are not finite")
    order = np.arange(data.n_rows) if data.source_rows is None else data.source_rows
    for name, found in (("query_id", np.repeat(data.query_ids, np.diff(data.offsets))), ("doc_id", data.doc_ids)):
        if name in table.column_names and found is not None:
            expected = [table[name][int(row)].as_py() for row in order]
            for one, two in zip(found.tolist(), expected, strict=True):
                if _plain(one) != _plain(two):
                    raise WrongError(f"{name} {one!r} where the file says {two!r}")


def _plain(value: Any) -> Any:
    """An id as text; 7 and 7.0 are the same id, 7.5 and "7" are others."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


DATA_READERS = {
    "letor": Reader(_seed_letor, _text_of("train.txt", " \n:"), _read_letor, 20),
    "csv-features": Reader(_seed_csv, _text_of("train.csv", ",\n"), _read_csv, 10),
    "features": Reader(_seed_features, parquet_of("train.parquet"), _read_features, 14),
}
