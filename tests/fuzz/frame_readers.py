"""DataFrames of pandas, Polars and Arrow with odd types: as features, as clicks, and to be scored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars
import pyarrow as pa
import pyarrow.feather as feather
from click_readers import log_table
from mutation import Random, mutate_table
from polars.exceptions import PanicException
from reader import Reader, WrongError, emptied, same, small_data

import cldrank as cr
from cldrank.errors import CldrankError

_LIBRARIES = ("pandas", "polars", "arrow")
_USES = ("load", "predict", "clicks")


def _seed_nothing(folder: Path) -> None:
    del folder


def _case_frame(seeds: Path, place: Path, random: Random) -> Path:
    del seeds
    use, library = _USES[int(random.integers(3))], _LIBRARIES[int(random.integers(3))]
    table = log_table() if use == "clicks" else _features()
    target = emptied(place / use) / f"{library}.feather"
    while True:
        try:
            feather.write_feather(mutate_table(table, random), target, compression="uncompressed")
        except (pa.ArrowException, OSError, ValueError):  # Feather has no such type
            continue
        return target


def _features() -> pa.Table:
    data = small_data()
    columns: dict[str, Any] = {"query_id": np.repeat(data.query_ids, np.diff(data.offsets)), "doc_id": data.doc_ids}
    columns |= {name: data.features[:, at] for at, name in enumerate(data.feature_names)}
    return pa.table(columns | {"label": data.labels})


def _read_frame(path: Path) -> None:
    table = feather.read_table(path, memory_map=False)
    try:
        frame = _as_frame(table, path.stem)
    except (Exception, PanicException) as error:  # such a table cannot be a frame of this library
        raise CldrankError(f"no frame of {path.stem}: {error}") from None
    match path.parent.name:
        case "load":
            _check_loaded(cr.load(frame), table)
        case "predict":
            scores = np.asarray(_ranker().predict(frame))
            same(len(scores), len(table), "scores")
            if len(scores) and not np.isfinite(scores).all():
                raise WrongError(f"scores {scores}")
        case _:
            clicks = cr.ClickTable.read(frame, max_rejected=1.0, memory_limit="500MB", threads=1)
            if int(clicks.impressions.sum()) > len(table):
                raise WrongError(f"{clicks} of {len(table)} rows")


def _as_frame(table: pa.Table, library: str) -> Any:
    if library == "pandas":
        return table.to_pandas()
    if library == "polars":
        return polars.from_arrow(table)
    return table


def _check_loaded(data: cr.RankingDataset, table: pa.Table) -> None:
    same(data.n_rows, len(table), "rows")
    if data.source_rows is not None:
        raise WrongError("rows in another order")
    for at, name in enumerate(data.feature_names):
        found = data.features[:, at].tolist()
        for one, two in zip(found, table[name].to_pylist(), strict=True):
            if two is not None and not np.float32(float(two)) == np.float32(one):
                raise WrongError(f"{name}: {one!r} where the frame says {two!r}")


def _ranker() -> Any:
    from cldrank import scaling
    from cldrank.rankers import LinearRanker

    data = small_data()
    fitted = scaling.fit(None, data.features)
    return LinearRanker(feature_names=data.feature_names, scaling=fitted, coefficients=np.array([1.0, -2.0, 0.5]))


FRAME_READERS = {"frames": Reader(_seed_nothing, _case_frame, _read_frame, 3)}
