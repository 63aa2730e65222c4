"""`collect_features`: queries in, candidates with features out, part by part.

A part is the rows of some queries, in a file of its own beside the target. Parts appear whole; a run that begins again
skips those that are there, and the file that they become in the end is the same, however often it was interrupted.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from os import PathLike
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cldrank.collect.engines import ENGINES, read_featureset
from cldrank.collect.engines.engine import Candidates, Engine
from cldrank.collect.featureset import FeatureSet
from cldrank.collect.queries import open_log, read_queries, shown_of
from cldrank.data.table_rows import METADATA
from cldrank.errors import UsageError
from cldrank.files import holding, make_folder, replacing, save_json
from cldrank.fingerprints import content_hash, file_fingerprint
from cldrank.reading import read_json, reading
from cldrank.tables import connect
from cldrank.tables.sources import text_files
from cldrank.web import Client
from cldrank.wording import count

_PART = 100  # queries
_ROUNDING = 1e-6  # relative: what float32 does to a value on its way
Logged = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Counts:
    """What was collected.

    queries     asked; `empty` are those without a candidate
    rows        candidates; `missing` are values that the engine does not have
    shown       documents that the log shows for these queries
    not_found   those of them that the search does not find among the first candidates now; they are asked for by id
    gone        those of them that the engine does not have any more; they are left out
    logged      those whose features the log has, which go first
    changed     those of them whose features the engine computes otherwise now
    """

    queries: int = 0
    empty: int = 0
    rows: int = 0
    missing: int = 0
    shown: int = 0
    not_found: int = 0
    gone: int = 0
    logged: int = 0
    changed: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, entry.name) + getattr(other, entry.name) for entry in fields(Counts)))


@dataclass(frozen=True)
class Collected(Counts):
    """What was collected, where, and by which feature set; `resumed` queries were there already.

    >>> print(Collected(queries=2, rows=9, shown=6, not_found=2, gone=1, featureset="solr:shop@sha256:0"))
    9 candidates of 2 queries
    2 of 6 shown documents are not among the candidates now: asked for by id, 1 is gone and left out
    """

    out: str = ""
    featureset: str = ""
    resumed: int = 0

    def __str__(self) -> str:
        lines = [f"{count(self.rows, 'candidate')} of {count(self.queries, 'query', 'queries')}"]
        if self.resumed:
            lines[0] += f", {self.resumed:,} of them there already"
        if self.empty:
            lines.append(f"{count(self.empty, 'query', 'queries')} without a candidate")
        if self.missing:
            lines.append(f"{count(self.missing, 'value')} missing, and left so")
        if self.not_found:
            gone = f"{self.gone:,} {'is' if self.gone == 1 else 'are'} gone and left out"
            lines.append(
                f"{self.not_found:,} of {self.shown:,} shown documents are not among the candidates now: asked for by "
                f"id, {gone}"
            )
        if self.logged:
            lines.append(
                f"{self.logged:,} of {self.shown:,} shown documents have logged features, which are taken; of "
                f"{self.changed:,} the engine computes others now"
            )
        if self.shown and self.logged < self.shown - self.gone:
            lines.append("note: features are those of now, not of the time of the click, where the log has none.")
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
    log_columns: Mapping[str, str] | None = None,
    size: int = 200,
    id_field: str | None = None,
    normalise: bool = True,
    per_second: float | None = None,
    retries: int = 5,
    threads: int = 4,
    progress: Callable[[int, int], None] | None = None,
) -> Collected:
    """Write the candidates of queries, with their features, as a search engine finds and computes them now.

    engine, url      "opensearch", "elasticsearch", "solr" or "vespa", and the address of its index or collection; of
                     Vespa, of the container. Credentials come from the environment: see `cldrank.web.Client`
    queries          files with query_id and query, with query_id alone if it is the text, or queries of UBI
    featureset      the file that defines the features, as it was uploaded
    search           what finds candidates: a query in JSON with {{query}} or another name for the text (OpenSearch,
                     Elasticsearch), a query with $qq (Solr), YQL with userQuery() (Vespa)
    out              a Parquet file; parts are kept in a folder beside it until all are there
    log              a plain log: what it shows is asked for as well, and features that it has (`features`) go first
    size             how many candidates of each query
    id_field         the field of a document that has its id, as logs have it
    per_second, retries, threads   requests a second at most; how often a failed one is repeated; how many at once
    progress         is called with the queries done and all

    The same call goes on where a killed one ended.
    """
    features, tell = read_featureset(featureset, engine), progress or (lambda done, total: None)
    target, folder = Path(out), Path(f"{out}.parts")
    with Client(url, per_second=per_second, retries=retries) as client, connect() as database:
        asked = ENGINES[engine](client, features, search, id_field)
        texts = read_queries(queries, database, normalise=normalise)
        shown = None if log is None else open_log(log, database, log_columns)
        run = {
            "engine": engine,
            "url": client.url,
            "search": search,
            "size": size,
            "id_field": asked.ids,
            "featureset": str(features),
            "queries": content_hash(texts),
            "log": [] if log is None else [file_fingerprint(path) for path in text_files(log)],
        }
        with _own_folder(folder, run, target), ThreadPoolExecutor(threads) as pool:
            starts = range(0, len(texts), _PART)
            parts = [folder / f"part-{start // _PART:05}.parquet" for start in starts]
            every, resumed = list(texts), 0
            for part, start in zip(parts, starts, strict=True):
                chosen = every[start : start + _PART]
                if part.exists():
                    resumed += len(chosen)
                else:
                    known = {} if shown is None else shown_of(shown, chosen)
                    with _stopping(client):
                        ask = partial(_rows, asked, size)
                        answers = pool.map(ask, chosen, map(texts.get, chosen), (known.get(one, {}) for one in chosen))
                        _write_part(part, features, _told(answers, start, partial(tell, total=len(texts))))
                tell(start + len(chosen), len(texts))
            counts = _joined(parts, target, features)
            shutil.rmtree(folder)
    return Collected(**asdict(counts), out=str(out), featureset=str(features), resumed=resumed)


@contextmanager
def _own_folder(folder: Path, run: dict[str, Any], target: Path) -> Iterator[None]:
    """The folder of parts, which one process at a time fills, and always for the same run."""
    make_folder(folder)
    with holding(folder, wait=False) as is_ours:
        if not is_ours:
            raise UsageError(f"another process is collecting for {target}.")
        record = folder / "run.json"
        if not record.exists():
            save_json(record, run)
        before = read_json(record, "the record of a run")
        if changed := [name for name in run if before.get(name) != run[name]]:
            raise UsageError(
                f"{folder} holds parts of a run with other {' and '.join(changed)}; delete it to begin anew, or name "
                "another `out`."
            )
        yield


def _told(answers: Iterable[Any], start: int, tell: Callable[[int], None]) -> Iterator[Any]:
    """The answers, which are counted as they come."""
    for number, answer in enumerate(answers, start + 1):
        yield answer
        tell(number)


@contextmanager
def _stopping(client: Client) -> Iterator[None]:
    """Whatever ends the block ends the waiting of other threads, so that they end as well."""
    try:
        yield
    except BaseException:
        client.stop()
        raise


# -- a query -------------------------------------------------------------------------------------------------------


def _rows(engine: Engine, size: int, query: str, words: str, shown: Logged) -> tuple[str, Candidates, Counts]:
    """The candidates of a query, and what the log shows for it; logged features go first."""
    names = engine.features.features
    rows = engine.found(words, size)
    absent = [document for document in shown if document not in rows]
    to_ask = [document for document in absent if not set(names) <= set(shown[document])]
    rows |= dict(sorted(engine.known(words, to_ask).items())) if to_ask else {}
    logged = changed = gone = 0
    for document, own in shown.items():
        today = rows.get(document)
        if today is None and not any(name in own for name in names):
            gone += 1
            continue
        values = [own.get(name, None if today is None else today[place]) for place, name in enumerate(names)]
        logged += any(name in own for name in names)
        changed += today is not None and not _same(values, today)
        rows[document] = values
    missing = sum(value is None for values in rows.values() for value in values)
    counts = Counts(1, not rows, len(rows), missing, len(shown), len(absent), gone, logged, changed)
    return query, rows, counts


def _same(first: Sequence[float | None], second: Sequence[float | None]) -> bool:
    """Whether values are the same but for rounding, and missing where the others are."""
    pair = (np.array(values, dtype=float) for values in (first, second))
    return bool(np.allclose(*pair, rtol=_ROUNDING, atol=0, equal_nan=True))


# -- files ---------------------------------------------------------------------------------------------------------


def _write_part(path: Path, features: FeatureSet, answers: Iterable[tuple[str, Candidates, Counts]]) -> None:
    """The rows of some queries, as a file with its counts."""
    queries: list[str] = []
    documents: list[str] = []
    values: list[list[float | None]] = []
    counts = Counts()
    for query, rows, own in answers:
        queries += [query] * len(rows)
        documents += rows
        values += rows.values()
        counts += own
    matrix = np.array(values, dtype=np.float32).reshape(len(values), len(features.features))
    columns = {"query_id": pa.array(queries, pa.string()), "doc_id": pa.array(documents, pa.string())}
    columns |= {
        name: pa.array(np.ascontiguousarray(matrix[:, place]), from_pandas=True)  # NaN is null
        for place, name in enumerate(features.features)
    }
    table = pa.table(columns).replace_schema_metadata({METADATA: json.dumps(asdict(counts))})
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def _joined(parts: Sequence[Path], target: Path, features: FeatureSet) -> Counts:
    """All parts as a single file that names its feature set; their counts."""
    counts = Counts()
    for part in parts:
        with reading(part, "a part that was collected"):
            counts += Counts(**json.loads(pq.read_schema(part).metadata[METADATA]))
    note = {"featureset": str(features), "has_missing": counts.missing > 0}
    schema = pq.read_schema(parts[0]).with_metadata({METADATA: json.dumps(note)})
    with replacing(target) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        for part in parts:
            writer.write_table(pq.ParquetFile(part).read().replace_schema_metadata(schema.metadata))
    return counts
