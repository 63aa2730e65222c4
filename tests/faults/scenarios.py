"""Commands to disturb, and what their outputs say when they are read back."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from harness import Commands

State = str | None  # what an output says, or None if it is not there

EXPERIMENT = """
title = "Small"
data = { train = "train.parquet", test = "train.parquet", name = "small" }
seeds = 2
measures = ["nDCG@3"]
simulation = { sessions = 500, depth = 3, eta = 1.0 }
[methods]
CLD = { gamma = 0.2 }
Naive = { use = "cldrank:Naive" }
"""


@dataclass(frozen=True)
class Scenario:
    """A command that writes over what an earlier call of it wrote.

    command   with {v}, which is 0 for the earlier call and 1 for the one that is disturbed
    outputs   each with the function that reads it
    grows     the output may also lie between the two: the command adds to it step by step
    """

    command: str
    outputs: Mapping[str, Callable[[Path], State]]
    grows: bool = False

    def arguments(self, version: int) -> list[str]:
        """The words of the command."""
        return self.command.format(v=version).split()

    def states(self, folder: Path) -> dict[str, State]:
        """What every output says; reading one that is damaged raises."""
        return {name: read(folder / name) for name, read in self.outputs.items()}


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def parquet(path: Path) -> State:
    """The rows of a Parquet file."""
    return _digest(repr(pq.read_table(path).to_pydict()).encode()) if path.exists() else None


def rows(path: Path) -> State:
    """The rows of a Parquet file in which they have no order."""
    return _digest(repr(sorted(map(repr, pq.read_table(path).to_pylist()))).encode()) if path.exists() else None


def text(path: Path) -> State:
    """A text file; HTML must be whole."""
    if not path.exists():
        return None
    content = path.read_text(encoding="utf-8")
    assert path.suffix != ".html" or content.rstrip().endswith("</html>")
    assert path.suffix != ".json" or json.loads(content)
    return _digest(content.encode())


def ranker(path: Path) -> State:
    """The scores of a saved ranker, which must load."""
    from cldrank import load_ranker
    from cldrank.files import recover_folder

    recover_folder(path)
    if not path.exists():
        return None
    loaded = load_ranker(path)
    features = np.linspace(-1, 1, 5 * len(loaded.feature_names)).reshape(5, -1)
    return _digest(np.asarray(loaded.predict(features)).tobytes())


def ranker_card(path: Path) -> State:
    """The evaluations of a saved ranker, which are those of its card."""
    from cldrank import load_ranker

    found = load_ranker(path).provenance.evaluations
    card = (path / "README.md").read_text(encoding="utf-8")
    assert all(one.data in card for one in found)
    return repr([one.fingerprint for one in found])


def whole_folder(path: Path) -> State:
    """All files of a folder."""
    from cldrank.files import recover_folder

    recover_folder(path)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return _digest(*(file.name.encode() + file.read_bytes() for file in files)) if files else None


def days(path: Path) -> State:
    """The cells of a folder of days, day by day, and the log files that they come from."""
    from cldrank.clicks.days import DayFolder

    folder = DayFolder(path)
    found = {str(day): rows(file) for day, file in folder.files().items()}
    return _digest(repr(found).encode(), repr(folder.sources()).encode()) if found else None


def checkpoint(path: Path) -> State:
    """The tensors of a checkpoint."""
    if not path.exists():
        return None
    from safetensors.numpy import load_file

    return _digest(*(name.encode() + value.tobytes() for name, value in sorted(load_file(path).items())))


def results(path: Path) -> State:
    """The values of an experiment's units."""
    from cldrank.experiment.results import load_results

    if not [*path.glob("results/*.parquet"), *path.glob("results.parquet")]:
        return None
    rows = load_results(path).select(["unit", "measure", "status", "value"]).to_pylist()
    return json.dumps(sorted((row["unit"], row["measure"], row["status"], row["value"]) for row in rows))


_DATA = "-f train.parquet -c cells-{v}.parquet -p power:1"
SCENARIOS = {
    "data make": Scenario("data make web10k-like --n-queries 5 --seed {v} --out out.parquet", {"out.parquet": parquet}),
    "data convert": Scenario("data convert letor-{v}.txt --out out.parquet", {"out.parquet": parquet}),
    "simulate": Scenario(
        "simulate train.parquet --sessions 300 --seed {v} --log log.parquet --out out.parquet",
        {"log.parquet": parquet, "out.parquet": parquet},
    ),
    "clicks aggregate": Scenario(
        "clicks aggregate log-{v}.parquet --features train.parquet --out out.parquet", {"out.parquet": parquet}
    ),
    "days added": Scenario("clicks aggregate v{v}/day-{v}.csv --add-to cells", {"cells": days}),
    "clicks import": Scenario(
        "clicks import --from metarank metarank-{v}.jsonl --out out.parquet --rejects rejects.parquet",
        {"out.parquet": rows, "rejects.parquet": rows},
    ),
    "judgements": Scenario(
        "judgements cells-{v}.parquet -f train.parquet -p power:1 --to trec --out out.qrels", {"out.qrels": text}
    ),
    "clicks audit": Scenario("clicks audit log-{v}.parquet --html out.html", {"out.html": text}),
    "propensity estimate": Scenario("propensity estimate cells-{v}.parquet --out rho.json", {"rho.json": text}),
    "train cld": Scenario(f"train cld {_DATA} --out ranker", {"ranker": ranker}),
    "train cld-pair": Scenario(
        f"train cld-pair {_DATA} --hidden 3 --epochs 2 --checkpoint state-{{v}}.safetensors --out ranker",
        {"ranker": ranker, "state-1.safetensors": checkpoint},
        grows=True,
    ),
    "train trees": Scenario(
        f"train cld-pair {_DATA} --model trees --rounds 3 --min-weight 0.1 --checkpoint rounds-{{v}} --out ranker",
        {"ranker": ranker, "rounds-1": checkpoint},
        grows=True,
    ),
    "score": Scenario("score ranker-{v} -f train.parquet --out out.parquet", {"out.parquet": parquet}),
    "export": Scenario("export ranker-{v} --to opensearch --out exported", {"exported": whole_folder}),
    "evaluate": Scenario("evaluate ranker-0 -f test-{v}.parquet --record", {"ranker-0": ranker_card}),
    "tune": Scenario(f"tune cld {_DATA} --trials 3 --out tuned-{{v}}", {"tuned-1/ranker": ranker}, grows=True),
    "experiment run": Scenario("experiment run small.toml --jobs 1 --out found-{v}", {"found-1": results}, grows=True),
}


def prepare(folder: Path, commands: Commands) -> None:
    """Make the inputs of all scenarios."""
    steps = [
        "data make web10k-like --n-queries 12 --out train.parquet",
        "simulate train.parquet --sessions 3000 --policy neighbour-swaps --seed 0 --log log-0.parquet",
        "simulate train.parquet --sessions 3000 --policy neighbour-swaps --seed 1 --log log-1.parquet",
        "clicks aggregate log-0.parquet --features train.parquet --out cells-0.parquet",
        "clicks aggregate log-1.parquet --features train.parquet --out cells-1.parquet",
        "data make web10k-like --n-queries 3 --seed 1 --out test-0.parquet",
        "data make web10k-like --n-queries 3 --seed 2 --out test-1.parquet",
        "train cld -f train.parquet -c cells-0.parquet -p power:1 --out ranker-0",
        "train cld -f train.parquet -c cells-1.parquet -p power:1 --out ranker-1",
    ]
    for step in steps:
        ended = commands.run(folder, step.split())
        assert ended.code == 0, ended.output
    for version in (0, 1):
        letor = "".join(f"{row % 3} qid:{row // 4} 1:{row + version} 2:0.5\n" for row in range(40))
        (folder / f"letor-{version}.txt").write_text(letor)
        (folder / f"metarank-{version}.jsonl").write_text(_metarank(version))
        (folder / f"v{version}").mkdir()  # the name of its folder is noted with a log
        (folder / f"v{version}" / f"day-{version}.csv").write_text(
            _of_days(range(10 + version, 13 + 2 * version), version)
        )
    (folder / "small.toml").write_text(EXPERIMENT)


def _of_days(numbers: range, version: int) -> str:
    """A log of some days of a month."""
    lines = [
        f"{10 * day + page},q{page % 2},d{place},{place},{(page + place + version) % 2},2026-11-{day}T08:00:00Z"
        for day in numbers
        for page in range(4)
        for place in (1, 2, 3)
    ]
    return "\n".join(["session_id,query_id,doc_id,position,clicked,timestamp", *lines]) + "\n"


def _metarank(version: int) -> str:
    records: list[dict[str, Any]] = [{"event": "item", "id": "x"}]
    for page in range(20 + version):
        documents = [str(100 + (page + place) % 7) for place in range(5)]
        fields = [{"name": "query", "value": str(page % 3)}]
        items = [{"id": document} for document in documents]
        records.append({"event": "ranking", "id": str(page), "fields": fields, "items": items})
        click = {"event": "interaction", "id": f"c{page}", "ranking": str(page), "item": documents[1], "type": "click"}
        records.append(click)
    return "".join(json.dumps(record) + "\n" for record in records)


def copied(scene: Path, place: Path) -> Path:
    """A fresh copy of the inputs."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(scene, place, symlinks=True)
    return place
