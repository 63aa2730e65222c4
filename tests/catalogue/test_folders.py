from __future__ import annotations

from pathlib import Path

import pytest

from cldrank.catalogue.folders import cache_folder, data_folders


def test_the_default_cache_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLDRANK_CACHE", raising=False)
    assert cache_folder().name == "cldrank"


def test_the_environment_moves_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLDRANK_CACHE", "~/cache")
    monkeypatch.delenv("CLDRANK_DATA", raising=False)
    assert data_folders() == [Path.home() / "cache" / "data"]
    monkeypatch.setenv("CLDRANK_DATA", "/sets")
    assert data_folders() == [Path("/sets"), Path.home() / "cache" / "data"]
