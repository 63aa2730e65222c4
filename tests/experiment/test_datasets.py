from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cldrank.errors import DataError, UsageError
from cldrank.experiment.datasets import find_folds
from cldrank.experiment.experiment_file import Data


def test_files_and_folders(folder: Path) -> None:
    (found,) = find_folds(Data(name="."))
    assert found.data == folder.name
    train, test = found.load()
    assert (train.n_queries, test.n_queries, train.n_features) == (40, 20, 3)


def test_synthetic_kinds() -> None:
    (found,) = find_folds(Data(name="web10k-like", queries=30, test_queries=10, seed=3))
    train, test = found.load()
    assert (train.n_queries, test.n_queries, train.synthetic) == (30, 10, True)
    assert not set(train.query_ids) & set(test.query_ids)
    (again,) = find_folds(Data(name="web10k-like", queries=30, test_queries=10, seed=3))
    np.testing.assert_array_equal(again.load()[1].features, test.features)
    assert again.fingerprint == found.fingerprint
    assert find_folds(Data(name="web10k-like", queries=31, test_queries=10, seed=3))[0].fingerprint != found.fingerprint


def test_rows_may_leave_out_the_last_features(folder: Path) -> None:
    (folder / "test.txt").write_text("1 qid:1 1:0.5\n0 qid:1 2:0.5\n")
    train, test = find_folds(Data(name="."))[0].load()
    assert train.n_features == test.n_features == 3


def test_mistakes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLDRANK_DATA", str(folder))
    with pytest.raises(UsageError, match="Did you mean msrd"):
        find_folds(Data(name="msdr"))
    with pytest.raises(DataError, match="msrd:train .* --data web10k-like"):
        find_folds(Data(name="msrd"))
    with pytest.raises(UsageError, match="ranklens"):
        find_folds(Data(name="ranklens"))
    (folder / "half").mkdir()
    (folder / "half" / "train.txt").write_text("1 qid:1 1:0.5\n")
    with pytest.raises(DataError, match="half: .*test.txt"):
        find_folds(Data(name="half"))


def test_folds_as_is_the_custom(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLDRANK_DATA", str(folder))
    for name in ("mq2008", "web10k"):
        for number in range(1, 6):
            place = folder / name / f"Fold{number}"
            place.mkdir(parents=True)
            for part in ("train", "vali", "test"):
                (place / f"{part}.txt").write_text(f"1 qid:{number} 1:0.5\n")
    assert [fold.fold for fold in find_folds(Data(name="mq2008"))] == [f"fold{number}" for number in range(1, 6)]
    assert [fold.fold for fold in find_folds(Data(name="web10k"))] == ["fold1"]  # as the paper
    assert [fold.fold for fold in find_folds(Data(name="web10k:fold3"))] == ["fold3"]
