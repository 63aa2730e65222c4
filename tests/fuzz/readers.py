"""Every reader of the package: what it reads, how that is mutated, and what must be true of whatever it accepts.

A reader may accept a mutated file or refuse it with a `CldrankError`. An accepted one is read a second time by simpler
means, and both must agree: `WrongError` says that they do not.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import letor_reference
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from mutation import Random, as_json, as_toml, mutate_bytes, mutate_table, mutate_text, mutate_tree

import cldrank as cr

Case = Callable[[Path, Path, Random], Path]
LETOR_MOST = 1 << 22  # numbers in a table that the reference reader would make; beyond it the package must refuse


class WrongError(Exception):
    """A file was accepted, and what came of it is not what it says."""


@dataclass(frozen=True)
class Reader:
    """A reader under test.

    seed    writes good files to a folder
    case    writes one mutated file (or folder), made from the good ones, and returns its path
    read    reads it, and raises `WrongError` where the result is not what the file says
    share   of all cases, in proportion
    """

    seed: Callable[[Path], None]
    case: Case
    read: Callable[[Path], Any]
    share: int


def _same(found: Any, expected: Any, what: str) -> None:
    if not np.array_equal(np.asarray(found), np.asarray(expected)):
        raise WrongError(f"{what}: {str(found)[:200]} where the file says {str(expected)[:200]}")


def _dataset() -> cr.RankingDataset:
    random = np.random.default_rng(0)
    features = random.normal(size=(24, 3)).astype(np.float32)
    documents = [f"d{row}" for row in range(24)]
    return cr.RankingDataset.from_arrays(features, np.arange(24) // 6, np.arange(24) % 3, doc_ids=documents)


def _clicks(data: cr.RankingDataset) -> cr.ClickTable:
    position = np.tile([1, 2, 3, 0, 0, 0], 4)
    shown = position > 0
    return cr.ClickTable.from_arrays(data, position=position, impressions=20 * shown, clicks=(7 - position) * shown)


def _bytes_of(name: str) -> Case:
    def case(seeds: Path, place: Path, random: Random) -> Path:
        target = place / name
        target.write_bytes(mutate_bytes((seeds / name).read_bytes(), random))
        return target

    return case


def _parquet_of(name: str) -> Case:
    """Half of the cases break the table, half the bytes."""

    def case(seeds: Path, place: Path, random: Random) -> Path:
        if random.random() < 0.4:
            return _bytes_of(name)(seeds, place, random)
        table = pq.read_table(seeds / name)
        while True:
            try:
                pq.write_table(mutate_table(table, random), place / name)
            except (pa.ArrowException, OSError):  # Parquet has no such type
                continue
            return place / name

    return case


def _json_of(name: str) -> Case:
    def case(seeds: Path, place: Path, random: Random) -> Path:
        content = (seeds / name).read_text()
        if random.random() < 0.25:
            (place / name).write_text(mutate_text(content, random, ' \n:,[]{}"'), errors="surrogatepass")
        elif random.random() < 0.1:
            return _bytes_of(name)(seeds, place, random)
        else:
            (place / name).write_text(as_json(mutate_tree(json.loads(content), random), random), errors="surrogatepass")
        return place / name

    return case


# -- feature files -----------------------------------------------------------------------------------------------------


def _seed_letor(folder: Path) -> None:
    rows = [f"{row % 3} qid:{row // 4} 1:{row}.5 2:-0.25 {3 + row % 2}:1e-3" for row in range(16)]
    rows[5] += " # a comment"
    (folder / "train.txt").write_text("\n".join(rows) + "\n")


def _case_letor(seeds: Path, place: Path, random: Random) -> Path:
    target = place / "train.txt"
    content = (seeds / "train.txt").read_bytes()
    if random.random() < 0.5:
        target.write_text(mutate_text(content.decode(), random, " \n:"), errors="surrogatepass")
    else:
        target.write_bytes(mutate_bytes(content, random))
    return target


def _read_letor(path: Path) -> None:
    data = cr.load(path, cache=False)
    try:
        table, labels, queries = letor_reference.read(path.read_bytes())
    except letor_reference.UnreadableError as error:
        raise WrongError(f"accepted, but for an independent reader it is not LETOR: {error}") from None
    order = np.arange(data.n_rows) if data.source_rows is None else data.source_rows
    _same(data.features, table[order].reshape(data.features.shape), "features")
    _same(data.labels, np.asarray(labels, dtype=np.float32)[order], "labels")
    names = np.repeat(data.query_ids, np.diff(data.offsets)).astype(str)
    for found, expected in zip(names.tolist(), (queries[row] for row in order), strict=True):
        if _query(found) != _query(expected):
            raise WrongError(f"query id {found!r} where the file says {expected!r}")


def _query(name: str) -> str | int:
    return int(name) if name.lstrip("+-").isascii() and name.lstrip("+-").isdigit() else name


def _seed_features(folder: Path) -> None:
    _dataset().save(folder / "train.parquet")


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


# -- logs and cells ----------------------------------------------------------------------------------------------------


def _log_table() -> pa.Table:
    random = np.random.default_rng(1)
    rows = [(page, page % 4, place) for page in range(12) for place in range(3)]
    return pa.table(
        {
            "session_id": [page for page, _, _ in rows],
            "query_id": [query for _, query, _ in rows],
            "doc_id": [f"d{query * 6 + place}" for _, query, place in rows],
            "position": [place + 1 for _, _, place in rows],
            "clicked": [bool(random.random() < 0.3) for _ in rows],
        }
    )


def _seed_log(folder: Path) -> None:
    table = _log_table()
    pq.write_table(table, folder / "log.parquet")
    lines = [",".join(table.column_names), *(",".join(map(str, row.values())) for row in table.to_pylist())]
    (folder / "log.csv").write_text("\n".join(lines) + "\n")
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


def _case_log(seeds: Path, place: Path, random: Random) -> Path:
    kind = random.random()
    if kind < 0.5:
        return _parquet_of("log.parquet")(seeds, place, random)
    name = "log.csv" if kind < 0.75 else "log.jsonl"
    if random.random() < 0.3:
        return _bytes_of(name)(seeds, place, random)
    content = mutate_text((seeds / name).read_text(), random, '\n,:{}"')
    (place / name).write_text(content, errors="surrogatepass")
    return place / name


def _read_log(path: Path) -> None:
    from cldrank.clicks.aggregate import aggregate

    done = aggregate(path, max_rejected=1.0, memory_limit="500MB", threads=1)
    clicks, account = done.clicks, done.account
    if path.suffix == ".parquet":
        _same(account.rows, pq.read_metadata(path).num_rows, "rows of the log")
    _same(int(clicks.impressions.sum()) + account.n_rejected, account.rows, "rows counted and set aside")
    if clicks.n_cells and not (1 <= clicks.position.min() <= clicks.position.max() <= 10_000):
        raise WrongError(f"positions {clicks.position.min()} … {clicks.position.max()}")
    if (clicks.clicks > clicks.impressions).any() or (clicks.clicks < 0).any():
        raise WrongError("more clicks than impressions")


def _seed_cells(folder: Path) -> None:
    _clicks(_dataset()).save(folder / "cells.parquet")


def _load_cells(path: Path) -> None:
    from cldrank.clicks.cell_file import is_cells, load_cells

    if not is_cells(path):
        return
    table = load_cells(path)
    content = pq.read_table(path)
    for name in ("impressions", "clicks"):
        _same(int(getattr(table, name).sum()), sum(int(value) for value in content[name].to_pylist()), name)
    counted = [
        int(n) > 0 or int(c) > 0
        for n, c in zip(content["impressions"].to_pylist(), content["clicks"].to_pylist(), strict=True)
    ]
    positions = {int(value) for value, kept in zip(content["position"].to_pylist(), counted, strict=True) if kept}
    _same(sorted(set(table.position.tolist())), sorted(positions), "positions")


# -- propensities ------------------------------------------------------------------------------------------------------


def _seed_propensities(folder: Path) -> None:
    rho = cr.Propensities(
        np.array([1.0, 0.6, 0.4]),
        "a test",
        method="AllPairs",
        low=np.array([1.0, 0.5, 0.3]),
        high=np.array([1.0, 0.7, 0.5]),
        confidence=0.9,
        covariance=np.diag([0.0, 0.01, 0.02]),
        replicates=np.array([[1.0, 0.55, 0.45], [1.0, 0.65, 0.35], [1.0, 0.6, 0.4]]),
        notes=("a note",),
    )
    rho.save(folder / "rho.json")
    from cldrank.propensity import AffineClicks

    AffineClicks(np.array([0.9, 0.5]), np.array([0.01, 0.02])).save(folder / "affine.json")


def _read_propensities(path: Path) -> None:
    rho = cr.Propensities.load(path)
    content = json.loads(path.read_text())
    values = content.get("values", content.get("propensities")) if isinstance(content, dict) else content
    told = np.asarray(values, dtype=np.float64)
    _same(rho.values, told / told[0], "propensities, relative to the first")
    if not np.isfinite(rho.values).all() or (rho.values <= 0).any():
        raise WrongError(f"propensities {rho.values}")
    for array in (rho.low, rho.high, rho.comparisons):
        if array is not None and array.shape != rho.values.shape:
            raise WrongError("arrays of other lengths")
    draws = rho.draws(5, seed=0)
    if draws.shape != (5, len(rho)) or not (rho.replicates is None or (np.isfinite(draws) & (draws > 0)).all()):
        raise WrongError(f"draws {draws}")
    str(rho), repr(rho), rho._repr_svg_()


def _read_affine(path: Path) -> None:
    from cldrank.propensity import AffineClicks

    found = AffineClicks.load(path)
    content = json.loads(path.read_text())
    _same(found.slope, np.asarray(content["slope"], dtype=np.float64), "slopes")
    if not (np.isfinite(found.slope).all() and np.isfinite(found.base).all()):
        raise WrongError("slopes or bases that are not finite")
    str(found), repr(found)


# -- rankers, checkpoints, scores --------------------------------------------------------------------------------------


def _seed_rankers(folder: Path) -> None:
    data = _dataset()
    clicks, rho = _clicks(data), cr.Propensities.power(1.0, 3)
    cr.CLD().fit(data, clicks, rho).ranker_.save(folder / "linear")
    cr.CLDPair(model=cr.MLP(hidden=(3,), epochs=1)).fit(data, clicks, rho).ranker_.save(folder / "network")
    cr.RankAgg(model=cr.Linear()).fit(data, clicks, rho).ranker_.save(folder / "borda")
    ranker = cr.IPS(model=cr.Linear()).fit(data, clicks, rho).ranker_
    ranker.with_evaluation(cr.evaluate(ranker, data, "AP")).save(folder / "evaluated")
    trees = cr.Trees(rounds=2, leaves=3, min_weight=0.0)
    cr.CLDPair(model=trees).fit(data, clicks, rho).ranker_.save(folder / "trees")
    cr.RankAgg(model=trees).fit(data, clicks, rho).ranker_.save(folder / "borda of trees")


def _case_ranker(seeds: Path, place: Path, random: Random) -> Path:
    source = seeds / ("linear", "network", "borda", "trees", "borda of trees", "evaluated")[int(random.integers(6))]
    target = place / "ranker"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    weights, description = target / "weights.safetensors", target / "ranker.json"
    models = sorted(path.name for path in target.glob("*model.json"))
    if models and random.random() < 0.7:
        name = models[int(random.integers(len(models)))]
        _json_of(name)(source, target, random)
        tree = json.loads(description.read_text())
        tree["files_sha256"][name] = hashlib.sha256((target / name).read_bytes()).hexdigest()
        description.write_text(json.dumps(tree))
    elif random.random() < 0.2:
        queries = target / "queries.safetensors"
        queries.write_bytes(mutate_bytes(queries.read_bytes(), random))
        tree = json.loads(description.read_text())
        tree["files_sha256"][queries.name] = hashlib.sha256(queries.read_bytes()).hexdigest()
        description.write_text(json.dumps(tree))
    elif random.random() < 0.3:
        weights.write_bytes(mutate_bytes(weights.read_bytes(), random))
        if random.random() < 0.7:  # as somebody would who means it: the digest fits
            tree = json.loads(description.read_text())
            tree["weights_sha256"] = hashlib.sha256(weights.read_bytes()).hexdigest()
            description.write_text(json.dumps(tree))
    else:
        _json_of("ranker.json")(source, target, random)
    return target


def _read_ranker(path: Path) -> None:
    ranker = cr.load_ranker(path)
    features = np.vstack([np.zeros(len(ranker.feature_names)), np.ones(len(ranker.feature_names))])
    scores = np.asarray(ranker.predict(features))
    if scores.shape != (2,) or not np.isfinite(scores).all():
        raise WrongError(f"scores {scores}")
    repr(ranker)
    seen = ranker.trained_on
    if seen is not None and (seen.dtype != np.uint64 or (np.diff(seen.astype(object)) <= 0).any()):
        raise WrongError(f"hashes of queries {seen}")
    with tempfile.TemporaryDirectory() as folder:
        ranker.save(folder)
        again = cr.load_ranker(folder).provenance
    if again != ranker.provenance:
        raise WrongError(f"{again} where the ranker comes from {ranker.provenance}")


def _seed_checkpoint(folder: Path) -> None:
    _pair(folder / "state.safetensors", epochs=1, resume=False)


def _pair(path: Path, epochs: int, resume: bool) -> Any:
    data = _dataset()
    model = cr.CLDPair(model=cr.MLP(hidden=(3,), epochs=epochs), run=cr.Run(checkpoint=path, resume=resume))
    return model.fit(data, _clicks(data), cr.Propensities.power(1.0, 3))


def _case_checkpoint(seeds: Path, place: Path, random: Random) -> Path:
    """Half of the cases break the bytes, half what they say of themselves, where the tensors are whole."""
    name = "state.safetensors"
    if random.random() < 0.5:
        return _bytes_of(name)(seeds, place, random)
    from safetensors import safe_open
    from safetensors.numpy import load_file, save_file

    with safe_open(str(seeds / name), framework="np") as file:
        metadata = dict(file.metadata())
    metadata["about"] = as_json(mutate_tree(json.loads(metadata["about"]), random), random)
    save_file(load_file(seeds / name), place / name, metadata=metadata)
    return place / name


def _read_checkpoint(path: Path) -> None:
    """A digest protects all of it, so that one that is accepted can differ only where nothing is read."""
    from safetensors.numpy import load

    content, original = path.read_bytes(), (path.parent.parent / "seeds" / path.name).read_bytes()
    scores = _pair(path, epochs=1, resume=True).predict(_dataset())
    expected = _pair(path.parent.parent / "seeds" / path.name, epochs=1, resume=True).predict(_dataset())
    _same(scores, expected, "scores")
    for name, values in load(original).items():
        _same(load(content).get(name), values, f"tensor {name}")


def _seed_scores(folder: Path) -> None:
    scores = np.linspace(-1, 1, 24)
    (folder / "scores.txt").write_text("\n".join(map(repr, scores.tolist())) + "\n")
    np.save(folder / "scores.npy", scores)
    data = _dataset()
    queries = np.repeat(data.query_ids, np.diff(data.offsets))
    pq.write_table(pa.table({"query_id": queries, "doc_id": data.doc_ids, "score": scores}), folder / "scores.parquet")


def _case_scores(seeds: Path, place: Path, random: Random) -> Path:
    kind = int(random.integers(3))
    if kind == 0:
        content = mutate_text((seeds / "scores.txt").read_text(), random, "\n")
        (place / "scores.txt").write_text(content, errors="surrogatepass")
        return place / "scores.txt"
    return (_bytes_of("scores.npy") if kind == 1 else _parquet_of("scores.parquet"))(seeds, place, random)


def _read_scores(path: Path) -> None:
    from cldrank.data.scores import load_scores

    data = _dataset()
    scores = load_scores(path, data)
    if scores.shape != (24,) or not np.isfinite(scores).all():
        raise WrongError(f"scores {scores}")
    if path.suffix == ".txt":
        lines = [line for line in path.read_text().splitlines() if line.strip()]
        _same(scores, [float(line) for line in lines], "scores")
    if path.suffix == ".npy":
        _same(scores, np.load(path, allow_pickle=False).astype(np.float64).ravel(), "scores")


# -- experiments -------------------------------------------------------------------------------------------------------

_EXPERIMENT: dict[str, Any] = {
    "title": "Small",
    "data": {"train": "train.txt", "test": "test.txt", "name": "small"},
    "seeds": [0, 1],
    "measures": ["nDCG@3", "AP"],
    "production": {"fraction": 0.2},
    "simulation": {"sessions": 2000, "depth": 3, "eta": 1.0, "noise": 0.1},
    "varies": {"simulation.eta": [0.5, 1.0]},
    "methods": {"Naive": {"use": "cldrank:Naive"}, "CLD": {"gamma": 0.1, "l2": 1e-3}},
}
_SPACE: dict[str, Any] = {"l2": {"low": 1e-3, "high": 1e-2, "log": True}, "gamma": [0.1, 0.2]}


def _seed_toml(folder: Path) -> None:
    (folder / "small.toml").write_text(as_toml(_EXPERIMENT))
    (folder / "space.toml").write_text(as_toml(_SPACE))


def _case_toml(seeds: Path, place: Path, random: Random) -> Path:
    name, tree = ("small.toml", _EXPERIMENT) if random.random() < 0.8 else ("space.toml", _SPACE)
    kind = random.random()
    if kind < 0.1:
        return _bytes_of(name)(seeds, place, random)
    if kind < 0.3:
        content = mutate_text((seeds / name).read_text(), random, ' \n=,[]{}"')
    else:
        content = as_toml(mutate_tree(tree, random))
    if random.random() < 0.02:
        content += "odd = " + "[" * 5000
    (place / name).write_text(content, errors="surrogatepass")
    return place / name


def _read_toml(path: Path) -> None:
    if path.name == "space.toml":
        from cldrank.tuning.space import read_space

        for values in read_space(path).values():
            repr(values)
        return
    from cldrank.experiment.definition import read

    experiment = read(path)
    for setting in experiment.settings():
        repr(setting)
    if not all(math.isfinite(seed) and seed >= 0 for seed in experiment.seeds[:1000]):
        raise WrongError(f"seeds {experiment.seeds[:5]}")


def _seed_results(folder: Path) -> None:
    from cldrank.experiment.records import SCHEMA

    plain: dict[str, Any] = dict.fromkeys(SCHEMA.names, "")
    rows = [
        plain
        | {
            "experiment": "small", "unit": f"u{method}{seed}", "data": "small", "fold": "", "setting": "{}",
            "method": method, "seed": seed, "measure": "nDCG@3", "value": 0.5 + 0.01 * seed, "status": "ok",
            "error": None, "warnings": "[]", "seconds": 1.0, "peak_mib": 100.0, "synthetic": False,
            "configuration": "{}", "versions": "{}", "finished": None,
        }
        for method in ("Naive", "CLD")
        for seed in range(3)
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), folder / "results.parquet")


def _read_results(path: Path) -> None:
    from cldrank.experiment import records, results
    from cldrank.report import save_report

    table = records.load_results(path)
    for entry in results.summary(table):
        if entry.interval is not None and not math.isfinite(entry.interval.low):
            raise WrongError(f"an interval of {entry}")
    save_report(path, path.parent / "report.html")


READERS = {
    "letor": Reader(_seed_letor, _case_letor, _read_letor, 20),
    "features": Reader(_seed_features, _parquet_of("train.parquet"), _read_features, 14),
    "log": Reader(_seed_log, _case_log, _read_log, 4),
    "cells": Reader(_seed_cells, _parquet_of("cells.parquet"), _load_cells, 12),
    "propensities": Reader(_seed_propensities, _json_of("rho.json"), _read_propensities, 12),
    "affine": Reader(_seed_propensities, _json_of("affine.json"), _read_affine, 8),
    "ranker": Reader(_seed_rankers, _case_ranker, _read_ranker, 10),
    "checkpoint": Reader(_seed_checkpoint, _case_checkpoint, _read_checkpoint, 2),
    "scores": Reader(_seed_scores, _case_scores, _read_scores, 8),
    "toml": Reader(_seed_toml, _case_toml, _read_toml, 6),
    "results": Reader(_seed_results, _parquet_of("results.parquet"), _read_results, 4),
}
