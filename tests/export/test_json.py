from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import made_rankers as made
import numpy as np
import pytest
import tricky

from cldrank.export import Parity
from cldrank.export.format import ExportRequest, InexpressibleError
from cldrank.export.formats.json import PlainJson
from cldrank.export.replay import NamedTable
from cldrank.rankers import Ranker

FORMAT = PlainJson()
SCALINGS = ("standard", "minmax", "log", None)
ACTIVATIONS = ("elu", "relu", "gelu", "silu", "tanh")
EXACT: dict[str, Callable[[], Ranker]] = {
    **{f"linear {rule}": partial(made.linear, rule, coefficients=[0.1, -2 / 3, 1e-17, 3]) for rule in SCALINGS},
    **{name: partial(made.network, name) for name in ACTIVATIONS},
    "trees": made.trees,
}


def compared(ranker: Ranker, rows: Any) -> Parity:
    request = ExportRequest()
    files = FORMAT.export(ranker, request).files
    data = tricky.queries_of(rows, ranker.feature_names)
    engine = FORMAT.replay(files, NamedTable(ranker.feature_names, data.features), request)
    return Parity.of(ranker.predict(data), engine, data.offsets)


@pytest.mark.parametrize("name", EXACT)
def test_it_says_all_that_the_ranker_says(name: str) -> None:
    found = compared(EXACT[name](), tricky.tricky(made.FEATURES))
    assert found.largest <= 2e-7 * found.scale
    assert found.swapped == 0


def test_trees_split_alike_at_thresholds_and_where_values_are_missing() -> None:
    ranker = made.trees(rounds=20)
    rows = tricky.with_gaps(tricky.at_thresholds(ranker, made.FEATURES))
    assert compared(ranker, rows).largest <= 1e-6
    lost = np.where(np.isnan(rows), np.float32(0), rows)
    assert np.abs(ranker.predict(rows) - ranker.predict(lost)).max() > 0.1  # missing values matter here


def test_the_document_reads_without_us() -> None:
    content = json.loads(FORMAT.export(made.linear(), ExportRequest(name="mine", renamed={"bm25": "x"})).files["model"])
    assert content["name"] == "mine"
    assert content["features"] == ["x", "pagerank", "länge", "clicks"]
    assert content["scaling"]["high"] == -content["scaling"]["low"]
    assert content["coefficients"] == made.linear().coefficients.tolist()


@pytest.mark.parametrize(
    ("ranker", "words"),
    [
        (made.borda, "BordaRanker"),
        (made.module, "ModuleRanker"),
        (lambda: made.linear("quantile"), "its scaling is Quantile"),
    ],
)
def test_what_it_cannot_say_is_refused_with_a_way_out(ranker: Any, words: str) -> None:
    with pytest.raises(InexpressibleError, match=words) as caught:
        FORMAT.export(ranker(), ExportRequest())
    assert "train" in str(caught.value)
