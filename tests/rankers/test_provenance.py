"""Provenance: plain, checked, and equal to itself after a round trip."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_rankers import ORIGIN, dataset, linear, nested

import cldrank as cr
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


def test_an_evaluation_goes_with_the_ranker_that_it_is_of() -> None:
    data = cr.RankingDataset.from_arrays(
        dataset().features,
        dataset().row_queries,
        np.arange(300) % 3,
        feature_names=dataset().feature_names,
        name="test",
    )
    ranker = linear(provenance=ORIGIN.replaced(evaluations=()))
    first, second = cr.evaluate(ranker, data, "AP"), cr.evaluate(ranker, data, "RR", empty="skip")
    found = ranker.with_evaluation(first)
    assert ranker.provenance.evaluations == ()
    (one,) = found.provenance.evaluations
    assert (one.data, one.queries, one.fingerprint, one.empty) == ("test", data.n_queries, data.fingerprint, "zero")
    assert one.measures == first.as_dict()["measures"]
    zero, skip = found.with_evaluation(second).provenance.evaluations  # other queries count: no table for both
    assert (zero, list(skip.measures), skip.empty) == (one, ["RR"], "skip")
    both = found.with_evaluation(cr.evaluate(ranker, data[:20], "AP"))
    assert len(both.provenance.evaluations) == 2
    np.testing.assert_array_equal(both.predict(data), ranker.predict(data))
