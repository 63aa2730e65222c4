from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Compiled functions compile at their first call, so the first example may take seconds.
settings.register_profile("cldrank", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("cldrank")


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep tests out of the user's cache."""
    os.environ["CLDRANK_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets; tests that need it are skipped where it is absent."""
    folder = os.environ.get("CLDRANK_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("CLDRANK_DATA does not name a folder of real data sets")
    return Path(folder)
