from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cldrank as cr
from cldrank.errors import CldrankError, DataError, UsageError


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "train.txt"
    path.write_text("1 qid:1 1:1\n0 qid:2 1:2\n")
    return path


def test_folders_patterns_and_lists_of_parts(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for part in range(3):
        (folder / f"part-{part}.txt").write_text(f"1 qid:{part} 1:{part}\n")
    (folder / "_SUCCESS").write_text("")
    (folder / "notes.md").write_text("not data")
    for source in (folder, folder / "part-*.txt", [folder / f"part-{part}.txt" for part in range(3)]):
        assert cr.load(source).features[:, 0].tolist() == [0, 1, 2]


def test_names(tmp_path: Path, text: Path) -> None:
    assert cr.load(text).name == "train"
    assert cr.load(text, name="mine").name == "mine"
    synthetic = cr.RankingDataset.from_arrays([[1.0]], [1], name="web10k-like", synthetic=True)
    synthetic.save(tmp_path / "x.parquet")
    loaded = cr.load(tmp_path / "x.parquet")
    assert (loaded.name, loaded.synthetic) == ("web10k-like", True)


def test_what_cannot_be_loaded(tmp_path: Path, text: Path) -> None:
    parquet = tmp_path / "a.parquet"
    cr.load(text).save(parquet)
    (tmp_path / "empty").mkdir()
    cases: list[tuple[type[CldrankError], str, dict[str, object]]] = [
        (DataError, "the folder holds no", {"source": tmp_path / "empty"}),
        (UsageError, "no feature file", {"source": []}),
        (UsageError, "different formats", {"source": [text, parquet]}),
        (UsageError, "for LETOR files", {"source": parquet, "n_features": 3}),
        (UsageError, "for tables with named columns", {"source": text, "columns": {"label": "x"}}),
    ]
    for kind, message, arguments in cases:
        with pytest.raises(kind, match=message):
            cr.load(**arguments)  # type: ignore[arg-type]


@pytest.mark.data
def test_known_data_sets(real_data: Path) -> None:
    tests = [cr.load(f"mq2008:fold{fold}/test") for fold in range(1, 6)]
    assert sum(part.n_rows for part in tests) == 15_211
    assert len(np.unique(np.concatenate([part.query_ids for part in tests]))) == 784  # every query is tested once
    assert sum(cr.load(f"mq2008:fold1/{split}").n_queries for split in ("train", "vali", "test")) == 784
    assert cr.load("msrd:vali").n_queries == 3_256
    assert cr.load("web10k-sample:test").n_queries == 43
