"""Provenance: plain, checked, and equal to itself after a round trip."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_rankers import ORIGIN, linear, nested

from cldrank.errors import DataError
from cldrank.rankers import Provenance


def test_it_comes_back_from_json() -> None:
    again = Provenance.from_json(json.loads(json.dumps(ORIGIN.as_dict(), allow_nan=False)))
    assert again == ORIGIN
    assert again.as_dict() == ORIGIN.as_dict()
    assert Provenance.from_json({}) == Provenance()


@pytest.mark.parametrize("wrong", [{"status": None}, {"steps": True}, {"loss": 1e999}, {"constant": "abc"}])
def test_a_record_of_other_values_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=next(iter(wrong))):
        Provenance.from_json({"diagnostics": {"status": "converged", "steps": 1, **wrong}})


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows": "3"},
        {"rows": True},
        {"data": "\ud800"},
        *({"parameters": {"l2": value}} for value in (np.nan, nested(5000))),
    ],
)
def test_one_that_could_not_be_loaded_is_not_saved(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be"):
        linear(provenance=Provenance(**wrong)).save(tmp_path / "ranker")
    assert not (tmp_path / "ranker").exists()
