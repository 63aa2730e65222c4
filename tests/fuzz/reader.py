"""What readers under test have in common: good data, and how good files are broken.

A reader may accept a mutated file or refuse it with a `CldrankError`. An accepted one is read a second time by simpler
means, and both must agree: `WrongError` says that they do not.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from mutation import Random, as_json, mutate_bytes, mutate_table, mutate_text, mutate_tree

import cldrank as cr

Case = Callable[[Path, Path, Random], Path]


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


def same(found: Any, expected: Any, what: str) -> None:
    """Raise `WrongError` unless both are equal."""
    if not np.array_equal(np.asarray(found), np.asarray(expected)):
        raise WrongError(f"{what}: {str(found)[:200]} where the file says {str(expected)[:200]}")


def small_data() -> cr.RankingDataset:
    """24 candidates of four queries."""
    random = np.random.default_rng(0)
    features = random.normal(size=(24, 3)).astype(np.float32)
    documents = [f"d{row}" for row in range(24)]
    return cr.RankingDataset.from_arrays(features, np.arange(24) // 6, np.arange(24) % 3, doc_ids=documents)


def small_clicks(data: cr.RankingDataset) -> cr.ClickTable:
    """Clicks on the first three candidates of each query."""
    position = np.tile([1, 2, 3, 0, 0, 0], 4)
    shown = position > 0
    return cr.ClickTable.from_arrays(data, position=position, impressions=20 * shown, clicks=(7 - position) * shown)


def bytes_of(name: str) -> Case:
    """Cases that break the bytes of a file."""

    def case(seeds: Path, place: Path, random: Random) -> Path:
        target = place / name
        target.write_bytes(mutate_bytes((seeds / name).read_bytes(), random))
        return target

    return case


def parquet_of(name: str) -> Case:
    """Half of the cases break the table, half the bytes."""

    def case(seeds: Path, place: Path, random: Random) -> Path:
        if random.random() < 0.4:
            return bytes_of(name)(seeds, place, random)
        table = pq.read_table(seeds / name)
        while True:
            try:
                pq.write_table(mutate_table(table, random), place / name)
            except (pa.ArrowException, OSError):  # Parquet has no such type
                continue
            return place / name

    return case


def lines_of(name: str) -> Case:
    """Cases that break a file of JSON lines or of other lines: one record, words, or bytes."""

    def case(seeds: Path, place: Path, random: Random) -> Path:
        content = (seeds / name).read_text()
        kind = random.random()
        if kind < 0.15:
            return bytes_of(name)(seeds, place, random)
        lines = content.splitlines()
        at = int(random.integers(len(lines)))
        if kind < 0.4 or not lines[at].startswith("{"):
            separators = ' \n:,[]{}"' if lines[at].startswith("{") else " \t\n"
            changed = mutate_text(content, random, separators)
        else:
            lines[at] = as_json(mutate_tree(json.loads(lines[at]), random), random)
            changed = "\n".join(lines) + "\n"
        (place / name).write_text(changed, errors="surrogatepass")
        return place / name

    return case


def emptied(folder: Path) -> Path:
    """A folder that is there and empty."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def json_of(name: str) -> Case:
    """Cases that break a JSON file: mostly its tree, at times its words or bytes."""

    def case(seeds: Path, place: Path, random: Random) -> Path:
        content = (seeds / name).read_text()
        if random.random() < 0.25:
            (place / name).write_text(mutate_text(content, random, ' \n:,[]{}"'), errors="surrogatepass")
        elif random.random() < 0.1:
            return bytes_of(name)(seeds, place, random)
        else:
            (place / name).write_text(as_json(mutate_tree(json.loads(content), random), random), errors="surrogatepass")
        return place / name

    return case
