from __future__ import annotations

import sys
from pathlib import Path

import pytest
import small_experiment


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data, an experiment and a module of rankers; it is the current one."""
    small_experiment.make(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_rankers", raising=False)
    return tmp_path


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units are computed in this process."""
    monkeypatch.setattr("cldrank.experiment.units.Processes", small_experiment.Here)
