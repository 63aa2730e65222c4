from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import made_rankers
import pytest
from starlette.testclient import TestClient

from cldrank.rankers import Ranker
from cldrank.service.app import make_app
from cldrank.service.metrics import ServiceMetrics
from cldrank.service.served import ServedRanker
from cldrank.service.settings import ServiceSettings
from cldrank.service.swapping import RankerInUse, ReloaderHere

TOKEN = "0123456789abcdef"  # noqa: S105
Client = Callable[..., TestClient]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """A client of the app, without a server; what the app raises is answered as a server would."""
    opened = []

    def make(ranker: Ranker | None = None, **settings: Any) -> TestClient:
        served = ServedRanker(ranker or made_rankers.linear())
        in_use = RankerInUse(served, ServiceMetrics())
        served.ranker.save(tmp_path / "ranker")
        reloader = ReloaderHere(tmp_path / "ranker", in_use)
        chosen = ServiceSettings(**{"token": TOKEN, **settings})
        opened.append(TestClient(make_app(in_use, chosen, reloader), raise_server_exceptions=False))
        opened[-1].__enter__()
        return opened[-1]

    yield make
    for one in opened:
        one.__exit__(None, None, None)
