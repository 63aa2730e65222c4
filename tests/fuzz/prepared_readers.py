"""Published data sets that are prepared: Baidu-ULTR, MSRD, RankLens."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
from mutation import Random, mutate_bytes, mutate_table
from reader import Reader, WrongError, emptied, lines_of, same

import cldrank as cr

_BAIDU = ("part.feather", "part.parquet", "pages.parquet", "annotated.feather")
_MSRD = ("movies-corpus.jsonl.gz", "movies-judgments.tsv.gz")
_RANKLENS = "ranklens.jsonl.gz"


def _part() -> pa.Table:
    random = np.random.default_rng(0)
    rows = [(page, place) for page in range(6) for place in range(3)]
    table = pa.table(
        {
            "query_no": [page for page, _ in rows],
            "query_md5": [f"q{page % 3}" for page, _ in rows],
            "url_md5": [f"u{(page + place) % 4}" for page, place in rows],
            "text_md5": [f"t{(page + place) % 4}" for page, place in rows],
            "position": [place + 1 for _, place in rows],
            "click": [int((page + place) % 3 == 0) for page, place in rows],
            "media_type": [2] * len(rows),
            "displayed_time": [1.5] * len(rows),
        }
    )
    numbers = random.normal(size=(len(rows), 4)).astype(np.float16)
    return table.append_column("query_document_embedding", pa.array(list(numbers), pa.list_(pa.float16())))


def _pages() -> pa.Table:
    """The same with one row per page."""
    rows = _part().to_pylist()
    pages = []
    for at in range(0, len(rows), 3):
        page: dict[str, Any] = {"query_id": rows[at]["query_md5"], "n": 3}
        for name in ("url_md5", "text_md5", "position", "click"):
            page[name] = [row[name] for row in rows[at : at + 3]]
        page["query_document_embedding"] = [
            [float(one) for one in row["query_document_embedding"]] for row in rows[at : at + 3]
        ]
        pages.append(page)
    return pa.Table.from_pylist(pages)


def _movies() -> list[dict[str, Any]]:
    return [
        {"id": str(at), "title": f"The film {at}", "overview": "a film of films", "tags": ["old", "dark"],
         "genres": ["drama"], "director": "A B", "actors": ["C D"], "characters": ["E"], "year": 1990 + at,
         "votes": 10 * at, "rating": 6.5, "popularity": 1.5, "budget": 1000}
        for at in range(6)
    ]  # fmt: skip


def _judgements() -> list[str]:
    rows = [f"qid:{query}\tfilm {query}\t{movie}\t{(query + movie) % 2}" for query in range(8) for movie in range(4)]
    return ["query_id\tquery\tdoc_id\tgrade", *rows]


def _ranklens() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"event": "item", "id": f"m{at}", "item": str(at), "timestamp": "1",
         "fields": [{"name": "title", "value": f"Film {at}"}, {"name": "budget", "value": 7.5},
                    {"name": "genres", "value": ["drama", "war"]}]}
        for at in range(4)
    ]  # fmt: skip
    for at in range(4):
        shown = [{"id": str((at + place) % 4)} for place in range(3)]
        ranking = {"event": "ranking", "id": f"r{at}", "user": f"u{at}", "timestamp": 1636993834000 + at}
        click = {"event": "interaction", "type": "click", "ranking": f"r{at}", "item": shown[0]["id"]}
        found += [{**ranking, "items": shown}, {**click, "id": f"c{at}", "timestamp": 1636993835000}]
    return found


def _seed_prepared(folder: Path) -> None:
    feather.write_feather(_part(), folder / "part.feather", compression="uncompressed")
    (folder / "movies-corpus.jsonl.gz.plain").write_text("".join(json.dumps(one) + "\n" for one in _movies()))
    (folder / "movies-judgments.tsv.gz.plain").write_text("\n".join(_judgements()) + "\n")
    (folder / f"{_RANKLENS}.plain").write_text("".join(json.dumps(one) + "\n" for one in _ranklens()))


def _case_prepared(seeds: Path, place: Path, random: Random) -> Path:
    kind = random.random()
    if kind < 0.5:
        return _broken_table(place, random)
    target = emptied(place / ("msrd" if kind < 0.75 else "ranklens"))
    names = _MSRD if kind < 0.75 else (_RANKLENS,)
    chosen = names[int(random.integers(len(names)))]
    for name in names:
        plain = lines_of(f"{name}.plain")(seeds, place, random) if name == chosen else seeds / f"{name}.plain"
        content = gzip.compress(plain.read_bytes())
        broken = name == chosen and random.random() < 0.1
        (target / name).write_bytes(mutate_bytes(content, random) if broken else content)
    return target


def _broken_table(place: Path, random: Random) -> Path:
    """A file of Baidu-ULTR with odd columns, or broken bytes."""
    name = _BAIDU[int(random.integers(len(_BAIDU)))]
    target = emptied(place / "baidu-ultr")
    table = _pages() if name == "pages.parquet" else _part()
    if name == "annotated.feather":
        table = table.drop_columns(["url_md5", "position", "click"]).append_column("label", pa.array([1] * len(table)))
    path = target / name
    write = feather.write_feather if path.suffix == ".feather" else pq.write_table
    whole = random.random() < 0.3
    while True:
        try:
            write(table if whole else mutate_table(table, random), path)
        except (pa.ArrowException, OSError, ValueError):
            continue
        if whole:
            path.write_bytes(mutate_bytes(path.read_bytes(), random))
        return target


def _read_prepared(path: Path) -> None:
    sys.path.append(str(Path(__file__).parents[2] / "tools"))  # the runs of this folder are processes of their own
    from prepare import prepare

    out = path.parent / "prepared"
    emptied(out)
    made = prepare(path.name, [path], out)
    {"baidu-ultr": _check_baidu, "msrd": _check_msrd, "ranklens": _check_ranklens}[path.name](path, out, made.counts)


def _check_baidu(path: Path, out: Path, counts: Any) -> None:
    (file,) = path.iterdir()
    table = feather.read_table(file) if file.suffix == ".feather" else pq.read_table(file)
    if (out / "annotations.parquet").exists():
        cr.load(out / "annotations.parquet", cache=False)
        return
    cr.load(out / "features.parquet", cache=False)
    rows = pq.read_table(out / "log.parquet").to_pylist()
    same(len(rows), counts["rows"], "rows")
    same(sum(row["clicked"] for row in rows), counts["clicks"], "clicks")
    if file.name == "pages.parquet":
        return
    aside = sum(
        number for reason, number in counts.items() if reason.startswith("rows without a") and "emb" not in reason
    )
    same(len(rows) + aside, len(table), "rows kept and set aside")
    told = {
        (str(row["url_md5"]), int(row["position"]))
        for row in table.to_pylist()
        if row["url_md5"] is not None and row["position"] is not None
    }
    if strange := {(row["doc_id"], row["position"]) for row in rows} - told:
        raise WrongError(f"rows {sorted(strange)[:2]} that are not in the file")


def _check_msrd(path: Path, out: Path, counts: Any) -> None:
    loaded = [cr.load(out / f"{split}.parquet", cache=False) for split in ("train", "vali", "test")]
    same(sum(one.n_rows for one in loaded), counts["rows"], "rows")
    lines = gzip.decompress((path / _MSRD[1]).read_bytes()).decode().split("\n")
    told = sum(bool(line.rstrip("\r")) for line in lines) - 1
    same(counts["rows"] + counts["rows without a movie"], told, "judgements")


def _check_ranklens(path: Path, out: Path, counts: Any) -> None:
    lines = gzip.decompress((path / _RANKLENS).read_bytes()).decode().split("\n")
    events = [json.loads(line) for line in lines if line.rstrip("\r")]
    shown = [int(one["id"]) for event in events if event["event"] == "ranking" for one in event["items"]]
    table = pq.read_table(out / "impressions.parquet")
    same(sorted(table["item"].to_pylist()), sorted(shown), "items")
    same(sum(table["click"].to_pylist()), counts["clicks"], "clicks")
    same(pq.read_metadata(out / "items.parquet").num_rows, counts["items"], "items")


PREPARED_READERS = {"prepared": Reader(_seed_prepared, _case_prepared, _read_prepared, 4)}
