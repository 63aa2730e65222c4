"""What is computed of odd files and written again: scores, and judgements in the formats of other tools."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from mutation import TEXTS, Random, mutate_text
from reader import Reader, WrongError, bytes_of, emptied, parquet_of, same, small_clicks, small_data

import cldrank as cr
from cldrank.errors import CldrankError


def _seed_score(folder: Path) -> None:
    data = small_data()
    data.save(folder / "test.parquet")
    lines = [
        f"{row % 3} qid:{row // 6} " + " ".join(f"{at}:{one}" for at, one in enumerate(data.features[row], start=1))
        for row in range(data.n_rows)
    ]
    (folder / "test.txt").write_text("\n".join(lines) + "\n")


def _case_score(seeds: Path, place: Path, random: Random) -> Path:
    if random.random() < 0.6:
        return parquet_of("test.parquet")(seeds, place, random)
    if random.random() < 0.3:
        return bytes_of("test.txt")(seeds, place, random)
    content = mutate_text((seeds / "test.txt").read_text(), random, " \n:")
    (place / "test.txt").write_text(content, errors="surrogatepass")
    return place / "test.txt"


def _read_score(path: Path) -> None:
    """The file is scored in one pass; loaded as a whole and predicted, the scores are the same."""
    from cldrank import scaling
    from cldrank.rankers import LinearRanker
    from cldrank.scoring import score

    out = path.parent / "scores.parquet"
    out.unlink(missing_ok=True)
    names = small_data().feature_names
    fitted = scaling.fit(None, small_data().features)
    ranker = LinearRanker(feature_names=names, scaling=fitted, coefficients=np.array([1.0, -2.0, 0.5]))
    try:
        done = score(ranker, path, out)
    except CldrankError:
        if out.exists():
            raise WrongError("it was refused, and yet there are scores") from None
        raise
    rows = pq.read_table(out)
    same(len(rows), done.rows, "rows")
    if not np.isfinite(rows["score"].to_numpy()).all():
        raise WrongError("scores that are not finite")
    data = cr.load(path, cache=False)
    order = np.arange(data.n_rows) if data.source_rows is None else data.source_rows
    same(rows["score"].to_numpy()[order], ranker.predict(data), "scores")
    same(sorted(rows["query_id"].to_pylist(), key=str), sorted(_row_queries(data), key=str), "query ids")


def _row_queries(data: cr.RankingDataset) -> list[Any]:
    found: list[Any] = np.repeat(data.query_ids, np.diff(data.offsets)).tolist()
    return found


# -- judgements --------------------------------------------------------------------------------------------------------


def _seed_judgements(folder: Path) -> None:
    small_clicks(small_data()).save(folder / "cells.parquet")
    texts = [(query, f'red shoes, "size" {query}') for query in range(4)]
    with (folder / "texts.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("query_id", "query_text"), *texts])
    table = pa.table({"query_id": [one for one, _ in texts], "query_text": [text for _, text in texts]})
    pq.write_table(table, folder / "texts.parquet")


def _case_judgements(seeds: Path, place: Path, random: Random) -> Path:
    """Cells whose ids are odd texts, or a mutated file of query texts."""
    kind = random.random()
    if kind < 0.4:
        table = pq.read_table(seeds / "cells.parquet")
        name = ("query_id", "doc_id")[int(random.integers(2))]
        strange = [*TEXTS, "a b", "a\tb", "a\nb", "a\r", "ä,ö", '"', "\u2028", "\x85"]
        chosen = strange[int(random.integers(len(strange)))]
        odd = [chosen if value == table[name][0].as_py() else str(value) for value in table[name].to_pylist()]
        pq.write_table(table.set_column(table.column_names.index(name), name, pa.array(odd)), place / "cells.parquet")
        return place / "cells.parquet"
    if kind < 0.7:
        return parquet_of("texts.parquet")(seeds, place, random)
    if kind < 0.8:
        return bytes_of("texts.csv")(seeds, place, random)
    content = mutate_text((seeds / "texts.csv").read_text(), random, ' \n,"')
    (place / "texts.csv").write_text(content, errors="surrogatepass")
    return place / "texts.csv"


def _read_judgements(path: Path) -> None:
    from cldrank.judgements import judge_documents, read_query_texts, write_judgements

    cells = path if path.name == "cells.parquet" else path.parent.parent / "seeds" / "cells.parquet"
    clicks = cr.ClickTable.read(cells)
    found = judge_documents(clicks, cr.Propensities.power(1.0, 3))
    pairs = [
        (str(query), str(document), int(grade))
        for query, document, grade in zip(found.query_id, found.doc_id, found.grade, strict=True)
        if grade >= 0
    ]
    texts = None if cells == path else read_query_texts(path)
    named = pairs if texts is None else [(texts.get(one, ""), *rest) for one, *rest in pairs]
    folder = emptied(path.parent / "written")
    refused: list[CldrankError] = []
    for to in ("quepid", "workbench", "trec"):
        if to == "trec" and texts is not None:
            continue
        with _noted(refused):
            file = folder / to
            write_judgements(found, file, to, query_texts=texts)
            told = [(query, document, 0) for query, document, _ in named] if to == "workbench" else named
            same(sorted(_told(file, to)), sorted(told), to)
    if refused:
        raise refused[0]


@contextmanager
def _noted(refused: list[CldrankError]) -> Iterator[None]:
    try:
        yield
    except CldrankError as error:
        refused.append(error)


def _told(path: Path, to: str) -> list[tuple[str, str, int]]:
    """Query, document and rating of a file, as the tool that it is for reads it."""
    content = path.read_bytes().decode()
    if to == "workbench":
        return [
            (entry["query"], one["docId"], 0)  # its rating is the relevance
            for entry in json.loads(content)["judgmentRatings"]
            for one in entry["ratings"]
        ]
    if to == "quepid":
        rows = list(csv.reader(content.split("\n")))
        return [(query, document, int(rating)) for query, document, rating in rows[1:-1]]
    parts = [line.split() for line in content.split("\n") if line]
    return [(query, document, int(grade)) for query, _, document, grade in parts]


OUTPUT_READERS = {
    "score": Reader(_seed_score, _case_score, _read_score, 4),
    "judgements": Reader(_seed_judgements, _case_judgements, _read_judgements, 4),
}
