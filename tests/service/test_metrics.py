from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cldrank.service.metrics import SHARED_FOLDER


class Gone:
    """Numbers whose file is gone."""

    def labels(self, *_: object, **__: object) -> Gone:
        raise FileNotFoundError(2, "No such file or directory")

    observe = labels


def test_numbers_that_cannot_be_kept_or_read_break_no_request(
    client: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service = client()
    monkeypatch.setenv(SHARED_FOLDER, str(tmp_path / "gone"))
    own = service.metrics
    own._requests = own._seconds = Gone()
    assert service.post("/rank", json={"features": []}).status_code == 200
    assert "the metrics cannot be kept: FileNotFoundError" in caplog.text
    answer = service.get("/metrics")
    assert answer.status_code == 503
    assert "the metrics cannot be read" in answer.json()["error"]
