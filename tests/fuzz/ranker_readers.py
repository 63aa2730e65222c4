"""Readers of rankers, of what a later fit begins with, of checkpoints and of scores."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from mutation import Random, as_json, mutate_bytes, mutate_text, mutate_tree
from reader import Reader, WrongError, bytes_of, json_of, parquet_of, same, small_clicks, small_data
from safetensors.numpy import load, save

import cldrank as cr


def _seed_rankers(folder: Path) -> None:
    data = small_data()
    clicks, rho = small_clicks(data), cr.Propensities.power(1.0, 3)
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
    weights = target / "weights.safetensors"
    arrays = load(weights.read_bytes())
    engines = sorted(name for name in arrays if name.endswith("model.json"))
    if engines and random.random() < 0.7:
        name = engines[int(random.integers(len(engines)))]
        text = as_json(mutate_tree(json.loads(arrays[name].tobytes()), random), random)
        arrays[name] = np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8)
        _put(target, save(arrays))
    elif random.random() < 0.3:
        weights.write_bytes(mutate_bytes(weights.read_bytes(), random))
        if random.random() < 0.7:
            _put(target, weights.read_bytes())
    else:
        json_of("ranker.json")(source, target, random)
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


def _seed_training(folder: Path) -> None:
    data = small_data()
    cr.CLD().fit(data, small_clicks(data), cr.Propensities.power(1.0, 3)).ranker_.save(folder / "CLD")


def _case_training(seeds: Path, place: Path, random: Random) -> Path:
    """A ranker whose record of its training is odd or damaged, where the digest fits."""
    target = place / "CLD"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(seeds / "CLD", target)
    arrays = load((target / "weights.safetensors").read_bytes())
    chosen = ("training.trained_on", "training.ranges")[int(random.integers(2))]
    arrays[chosen] = _odd_array(arrays[chosen], random)
    _put(target, save({key: value for key, value in arrays.items() if value is not None}))
    return target


def _put(folder: Path, content: bytes) -> None:
    """Exchange the arrays as somebody would who means it: the digest fits."""
    (folder / "weights.safetensors").write_bytes(content)
    description = json.loads((folder / "ranker.json").read_text())
    description["weights_sha256"] = hashlib.sha256(content).hexdigest()
    (folder / "ranker.json").write_text(json.dumps(description))


def _odd_array(array: Any, random: Random) -> Any:
    """The array with another shape, type or numbers; or none at all."""
    odd = [
        None, array[:0], array[None], np.repeat(array, 2), array.astype(np.float32), array.astype(np.uint8),
        array.astype(np.float64) * np.nan, array.astype(np.float64) + np.inf, array.astype(np.float64) - 1e300,
        np.zeros(0, np.int64), np.array(1.0),
    ]  # fmt: skip
    return odd[int(random.integers(len(odd)))]


def _seed_checkpoint(folder: Path) -> None:
    _pair(folder / "state.safetensors", epochs=1, resume=False)


def _pair(path: Path, epochs: int, resume: bool) -> Any:
    data = small_data()
    model = cr.CLDPair(model=cr.MLP(hidden=(3,), epochs=epochs), run=cr.Run(checkpoint=path, resume=resume))
    return model.fit(data, small_clicks(data), cr.Propensities.power(1.0, 3))


def _case_checkpoint(seeds: Path, place: Path, random: Random) -> Path:
    """Half of the cases break the bytes, half what they say of themselves, where the tensors are whole."""
    name = "state.safetensors"
    if random.random() < 0.5:
        return bytes_of(name)(seeds, place, random)
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
    scores = _pair(path, epochs=1, resume=True).predict(small_data())
    expected = _pair(path.parent.parent / "seeds" / path.name, epochs=1, resume=True).predict(small_data())
    same(scores, expected, "scores")
    for name, values in load(original).items():
        same(load(content).get(name), values, f"tensor {name}")


def _seed_scores(folder: Path) -> None:
    scores = np.linspace(-1, 1, 24)
    (folder / "scores.txt").write_text("\n".join(map(repr, scores.tolist())) + "\n")
    data = small_data()
    queries = np.repeat(data.query_ids, np.diff(data.offsets))
    pq.write_table(pa.table({"query_id": queries, "doc_id": data.doc_ids, "score": scores}), folder / "scores.parquet")


def _case_scores(seeds: Path, place: Path, random: Random) -> Path:
    if random.integers(2) == 0:
        content = mutate_text((seeds / "scores.txt").read_text(), random, "\n")
        (place / "scores.txt").write_text(content, errors="surrogatepass")
        return place / "scores.txt"
    return parquet_of("scores.parquet")(seeds, place, random)


def _read_scores(path: Path) -> None:
    from cldrank.data.scores import load_scores

    data = small_data()
    scores = load_scores(path, data)
    if scores.shape != (24,) or not np.isfinite(scores).all():
        raise WrongError(f"scores {scores}")
    if path.suffix == ".txt":
        lines = [line for line in path.read_text().splitlines() if line.strip()]
        same(scores, [float(line) for line in lines], "scores")


RANKER_READERS = {
    "ranker": Reader(_seed_rankers, _case_ranker, _read_ranker, 10),
    "training": Reader(_seed_training, _case_training, _read_ranker, 5),
    "checkpoint": Reader(_seed_checkpoint, _case_checkpoint, _read_checkpoint, 2),
    "scores": Reader(_seed_scores, _case_scores, _read_scores, 8),
}
