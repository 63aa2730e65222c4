"""`collect_features`: queries in, candidates with features out, part by part.

A part is the rows of some queries, in a file of its own beside the target. Parts appear whole; a run that begins again
skips those that are there, and the file that they become in the end is the same, however often it was interrupted.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cldrank.arguments import check_choice, check_whole
from cldrank.collect.engines import ENGINES, Candidates, SearchEngine
from cldrank.collect.featureset import FeatureSet
from cldrank.collect.queries import Shown, read_queries, shown_log, shown_of
from cldrank.data.table_rows import METADATA
from cldrank.errors import UsageError
from cldrank.files import holding, make_folder, replacing, save_json
from cldrank.fingerprints import content_hash, file_fingerprint
from cldrank.reading import read_json, reading
from cldrank.tables import connect
from cldrank.tables.sources import text_files
from cldrank.web import Client
from cldrank.wording import count

_PART = 50  # queries
_ROUNDING = 1e-6  # relative: what float32 does to a value on its way


@dataclass(frozen=True)
class Collected:
    """What was collected, and by which feature set.

    queries     asked; `empty` are those without a candidate, `resumed` those that were there already
    rows        candidates; `missing` are values that the engine does not have
    shown       documents that the log shows for these queries
    not_found   those of them that the search does not find first any more; they are asked for by id
    gone        those of them that the engine does not have any more; they are left out
    logged      those of them whose features the log has, which go first
    changed     those of them for which the engine computes other features now

    >>> print(Collected("out.parquet", "solr:shop@sha256:0", queries=2, rows=9, shown=6, not_found=2, gone=1, logged=5))
    9 candidates of 2 queries; 0 queries without any, 0 values missing
    2 of 6 shown documents are not among the first now: asked for by id, and 1 that are gone left out
    5 have logged features, which are taken; 0 of these differ now
    """

    out: str
    featureset: str
    queries: int = 0
    empty: int = 0
    resumed: int = 0
    rows: int = 0
    missing: int = 0
    shown: int = 0
    not_found: int = 0
    gone: int = 0
    logged: int = 0
    changed: int = 0

    def __str__(self) -> str:
        rows, queries = count(self.rows, "candidate"), count(self.queries, "query", "queries")
        lines = [f"{rows} of {queries}; {self.empty:,} queries without any, {self.missing:,} values missing"]
        if self.shown:
            lines.append(
                f"{self.not_found:,} of {self.shown:,} shown documents are not among the first now: asked for by id, "
                f"and {self.gone:,} that are gone left out"
            )
        if self.logged:
            lines.append(f"{self.logged:,} have logged features, which are taken; {self.changed:,} of these differ now")
        if self.logged + self.gone < self.shown:
            lines.append("note: where the log has no features, they are those of now, not of the time of the click.")
        return "\n".join(lines)


def collect_features(
    engine: str,
    url: str,
    *,
    queries: Any,
    featureset: str | PathLike[str],
    search: str,
    out: str | PathLike[str],
    log: Any = None,
    size: int = 200,
    id_field: str | None = None,
    per_second: float | None = None,
    retries: int = 5,
    threads: int = 4,
    progress: Callable[[int, int], None] | None = None,
) -> Collected:
    """Write the candidates of queries, with their features, as a search engine finds and computes them now.

    engine, url   "opensearch", "elasticsearch", "solr" or "vespa", and the address of its index or collection; of
                  Vespa, of the container. Credentials come from the environment: see `cldrank.web.Client`
    queries       files with query_id and query, with query_id alone if it is the text, or queries of UBI
    featureset    the file that defines the features, as it was uploaded
    search        what finds candidates: a query in JSON with {{query}} or another name for the text (OpenSearch,
                  Elasticsearch), a query with $qq (Solr), YQL with userQuery() (Vespa)
    out           a Parquet file; parts are kept in a folder beside it until all are there
    log           a plain log: what it shows is asked for as well, and features that it has (`features`) go first
    size          how many candidates of each query
    id_field      the field of a document with its id, as logs have it
    per_second, retries, threads   requests a second at most; how often a failed one is repeated; how many at once
    progress      is called with the number of queries done, and of all

    The same call goes on where a killed one ended.
    """
    check_choice("engine", engine, tuple(ENGINES))
    check_whole("size", size, least=1)
    check_whole("threads", threads, least=1)
    features, folder = FeatureSet.read(featureset, engine), Path(f"{out}.parts")
    client, pool = Client(url, per_second=per_second, retries=retries), ThreadPoolExecutor(threads)
    with pool, client, connect() as database:  # the client ends first, and with it what threads wait for
        asked = ENGINES[engine](client, features, search, id_field)
        texts = read_queries(queries, database)
        shown = None if log is None else shown_log(log, database)
        run = {"engine": engine, "url": client.url, "search": search, "size": size, "id_field": asked.id_field}
        run |= {"featureset": str(features), "queries": content_hash(texts)}
        run["log"] = None if log is None else [file_fingerprint(path) for path in text_files(log)]
        with _own_folder(folder, run):
            every, starts = list(texts), range(0, len(texts), _PART)
            parts = {folder / f"part-{start:09}.parquet": every[start : start + _PART] for start in starts}
            resumed = done = sum(len(chosen) for part, chosen in parts.items() if part.exists())
            for part in [part for part in parts if not part.exists()]:
                known = {} if shown is None else shown_of(shown, parts[part])
                _write_part(part, features, pool.map(partial(_rows, asked, size, texts, known), parts[part]))
                done += len(parts[part])
                if progress is not None:
                    progress(done, len(texts))
            counts = _joined(list(parts), Path(out), features)
            shutil.rmtree(folder)
    return Collected(str(out), str(features), resumed=resumed, **counts)


@contextmanager
def _own_folder(folder: Path, run: dict[str, Any]) -> Iterator[None]:
    """The folder of parts, which one process at a time fills, and always for the same run."""
    make_folder(folder)
    record = folder / "run.json"
    with holding(folder, wait=False) as is_ours:
        if not is_ours:
            raise UsageError(f"another process is filling {folder}.")
        if not any(folder.glob("part-*")):
            save_json(record, run)
        before = read_json(record, "the record of a run")
        if changed := [name for name in run if before.get(name) != run[name]]:
            raise UsageError(
                f"{folder} holds parts of a run with another `{changed[0]}`; delete it, or name another `out`."
            )
        yield


def _rows(
    engine: SearchEngine, size: int, texts: Mapping[str, str], known: Shown, query: str
) -> tuple[str, Candidates, dict[str, int]]:
    """The candidates of a query, and what the log shows for it; logged features go first."""
    names, words, shown = list(engine.features.definitions), texts[query], known.get(query, {})
    rows = engine.candidates(words, size)
    absent = [document for document in shown if document not in rows]
    to_ask = [document for document in absent if not set(names) <= set(shown[document])]
    if to_ask:
        rows |= dict(sorted(engine.candidates(words, len(to_ask), to_ask).items()))
    counts = Counter(queries=1, shown=len(shown), not_found=len(absent))
    for document, own in shown.items():
        now, logged = rows.get(document), {name: own[name] for name in names if name in own}
        if now is None and not logged:
            counts["gone"] += 1
        elif logged:
            rows[document] = [logged.get(name, now and now[place]) for place, name in enumerate(names)]
            counts["logged"] += 1
            counts["changed"] += now is not None and not _same(rows[document], now)
    counts.update(rows=len(rows), empty=not rows)
    return query, rows, counts


def _same(first: Sequence[float | None], second: Sequence[float | None]) -> bool:
    """Whether values are the same but for rounding, and missing where the others are."""
    now, then = (np.array(values, dtype=float) for values in (first, second))
    return bool(np.allclose(now, then, rtol=_ROUNDING, atol=0, equal_nan=True))


def _write_part(path: Path, features: FeatureSet, answers: Iterable[tuple[str, Candidates, dict[str, int]]]) -> None:
    """The rows of some queries, as a file with its counts."""
    queries: list[str] = []
    documents: list[str] = []
    values: list[list[float | None]] = []
    counts: Counter[str] = Counter()
    for query, rows, own in answers:
        queries += [query] * len(rows)
        documents += rows
        values += rows.values()
        counts.update(own)
    matrix = np.array(values, dtype=np.float32).reshape(len(values), len(features.definitions)).T
    counts["missing"] += int(np.isnan(matrix).sum())
    columns = {"query_id": pa.array(queries, pa.string()), "doc_id": pa.array(documents, pa.string())}
    for name, column in zip(features.definitions, matrix, strict=True):
        columns[name] = pa.array(np.ascontiguousarray(column), from_pandas=True)  # NaN is null
    with replacing(path) as temporary:
        pq.write_table(pa.table(columns).replace_schema_metadata({METADATA: json.dumps(counts)}), temporary)


def _joined(parts: Sequence[Path], target: Path, features: FeatureSet) -> dict[str, int]:
    """All parts as a single file that names its feature set; their counts."""
    counts: Counter[str] = Counter()
    for part in parts:
        with reading(part, "a part that was collected"):
            counts.update(json.loads(pq.read_schema(part).metadata[METADATA]))
    note = {"featureset": str(features), "has_missing": counts["missing"] > 0}
    schema = pq.read_schema(parts[0]).with_metadata({METADATA: json.dumps(note)})
    with replacing(target) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        for part in parts:
            writer.write_table(pq.ParquetFile(part).read().replace_schema_metadata(schema.metadata))
    return dict(counts)
