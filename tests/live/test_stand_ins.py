"""What the live tests do to engines, done to stand-ins: `examples/compose/check.py` sends what an engine takes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import check as compose
import made_rankers
import pytest
from engine_stand_in import StandIn
from shop import PRODUCTS

import cldrank as cr
from cldrank.scaling import Standard


@pytest.fixture
def stand_in(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of an engine that ranks by the replay of what was uploaded to it."""
    before = dict(PRODUCTS)
    with StandIn(request.param) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setattr(compose, "CONFIG_PORT", server.server_port)
        yield server.address + ("/solr/candidates" if request.param == "solr" else "")
        server.shutdown()
        thread.join()
    PRODUCTS.clear()
    PRODUCTS.update(before)


def candidates() -> cr.RankingDataset:
    features = abs(made_rankers.FEATURES[:30])
    return cr.RankingDataset.from_arrays(
        features, [1] * 10 + [2] * 20, [0, 1, 2] * 10, feature_names=made_rankers.NAMES
    )


SLOW = pytest.param("elasticsearch", marks=pytest.mark.slow)  # eland's imports; a page uploads by it, too


@pytest.mark.parametrize("stand_in", ["opensearch", SLOW, "solr", "vespa"], indirect=True)
def test_an_engine_that_ranks_as_documented_passes(
    stand_in: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    name = request.node.callspec.params["stand_in"]
    ranker = made_rankers.trees()
    for run in "12":  # what an earlier run left in the engine is replaced
        assert compose.check(name, stand_in, ranker, candidates(), tmp_path / run) < compose.TOLERANCE


@pytest.mark.parametrize("stand_in", ["opensearch"], indirect=True)
def test_an_engine_that_ranks_otherwise_does_not(
    stand_in: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model = cr.Linear(scaling=Standard(clip=None))
    given = ("opensearch", stand_in, cr.Oracle(model=model).fit(candidates()).ranker_, candidates())
    assert compose.check(*given, tmp_path / "1") < compose.TOLERANCE
    scores = compose.OpenSearch.scores
    monkeypatch.setattr(compose.OpenSearch, "scores", lambda *asked: {**scores(*asked), "1_2": 0.0})
    assert compose.check(*given, tmp_path / "2") > compose.TOLERANCE
    monkeypatch.setattr(compose.OpenSearch, "scores", lambda *_: {"1_2": 0.0})
    with pytest.raises(SystemExit, match="no score for 29 of 30 candidates"):
        compose.check(*given, tmp_path / "3")
