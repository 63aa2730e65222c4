"""What is computed of odd files and written again: scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from mutation import Random, mutate_text
from reader import Reader, WrongError, bytes_of, parquet_of, same, small_data

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


OUTPUT_READERS = {"score": Reader(_seed_score, _case_score, _read_score, 4)}
