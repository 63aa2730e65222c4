"""Fingerprints: equal for equal content, different for any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank import fingerprints
from cldrank.fingerprints import fingerprint_of

FEATURES = np.arange(24, dtype=np.float32).reshape(8, 3)
PARTS: dict[str, Any] = {
    "features": FEATURES,
    "qid": ["a", "a", "a", "b", "b", "c", "c", "c"],
    "labels": np.arange(8) % 3,
    "doc_ids": [f"d{number}" for number in range(8)],
    "feature_names": ("x", "y", "z"),
}


def made(**changes: Any) -> cr.RankingDataset:
    return cr.RankingDataset.from_arrays(**{**PARTS, **changes})


def test_equal_content_is_found_equal(tmp_path: Path) -> None:
    expected = made().fingerprint
    assert len(expected) == 64
    assert made(name="other", synthetic=True).fingerprint == expected
    assert made(features=FEATURES.astype(np.float64)).fingerprint == expected
    assert made(features=np.asfortranarray(FEATURES)).fingerprint == expected
    assert made(qid=np.array(PARTS["qid"], dtype="U40")).fingerprint == expected
    made().save(tmp_path / "data.parquet")
    assert cr.load(tmp_path / "data.parquet").fingerprint == expected
    whole = made(qid=["long name", "a", "a", "b", "b", "c", "c", "c"])
    assert whole[1:].fingerprint == whole[[1, 2, 3]].fingerprint


@pytest.mark.parametrize(
    "changes",
    [
        {"features": np.where(FEATURES == 5, 6, FEATURES)},
        {"qid": ["a", "a", "b", "b", "b", "c", "c", "c"]},
        {"labels": np.arange(8) % 2},
        {"doc_ids": [f"e{number}" for number in range(8)]},
        {"doc_ids": None},
        {"feature_names": ("x", "z", "y")},
        {"feature_names": ("x", "yz", "w")},
    ],
)
def test_any_change_is_seen(changes: dict[str, Any]) -> None:
    assert made(**changes).fingerprint != made().fingerprint


def test_missing_values_and_zeros_have_one_form() -> None:
    strange = np.array([0x7FC00001, 0x80000000], dtype=np.uint32).view(np.float32)  # NaN with a message, and -0
    assert np.isnan(strange[0])
    usual = np.array([np.nan, 0], dtype=np.float32)
    assert fingerprint_of({"x": strange}) == fingerprint_of({"x": usual})
    assert strange.view(np.uint32).tolist() == [0x7FC00001, 0x80000000]  # which is left as it was


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_make_no_difference(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprints, "_BLOCK", 4)
    monkeypatch.setattr(fingerprints, "fair_threads", lambda _: threads)
    parts: dict[str, Any] = {"x": FEATURES, "n": np.arange(10), "ids": [f"{number}" for number in range(10)]}
    assert fingerprint_of(parts) == "ee41512affecf393bf4182aac757429cf300045d272d7cb8d86307fd3b0f1f25"
