from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import made_rankers
import pytest
from fastapi import FastAPI

from cldrank.rankers import Ranker
from cldrank.service.app import make_app
from cldrank.service.metrics import ServiceMetrics
from cldrank.service.serving import ServiceSettings

TOKEN = "0123456789abcdef"  # noqa: S105


class AppClient:
    """Calls an app without a server; what the app raises is answered as a server would."""

    def __init__(self, app: FastAPI, metrics: ServiceMetrics) -> None:
        self.metrics = metrics
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._runner = asyncio.Runner()
        self._client = httpx.AsyncClient(transport=transport, base_url="http://service")

    def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self._runner.run(self._client.request(method, path, **options))

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.call("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.call("POST", path, **options)

    def close(self) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Callable[..., AppClient]]:
    """A maker of clients; the rankers lie in the folders `ranker` and `against` of the test."""
    opened: list[AppClient] = []

    def make(ranker: Ranker | None = None, against: Ranker | None = None, **settings: Any) -> AppClient:
        (ranker or made_rankers.linear()).save(tmp_path / "ranker")
        other = None if against is None else tmp_path / "against"
        if against is not None:
            against.save(tmp_path / "against")
        app = make_app(tmp_path / "ranker", ServiceSettings(**{"token": TOKEN, **settings}), against=other)
        opened.append(AppClient(app, app.state.metrics))
        return opened[-1]

    yield make
    for one in opened:
        one.close()
