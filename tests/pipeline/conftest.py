from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from small_pipeline import write_definition, write_world

from cldrank.pipeline import RunRecord, read_pipeline, run_pipeline


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.parquet, log.parquet and pipeline.toml."""
    folder = tmp_path_factory.mktemp("world")
    write_world(folder)
    write_definition(folder)
    return folder


@pytest.fixture
def place(world: Path, tmp_path: Path) -> Path:
    """An own copy of it, in which nothing has run yet."""
    return shutil.copytree(world, tmp_path / "place")


@pytest.fixture(scope="session")
def _ran(world: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunRecord]:
    folder = shutil.copytree(world, tmp_path_factory.mktemp("ran") / "place")
    return folder, run_pipeline(read_pipeline(folder / "pipeline.toml"), command="cldrank pipeline run")


@pytest.fixture
def ran(_ran: tuple[Path, RunRecord], tmp_path: Path) -> Path:
    """An own copy of a folder in which the pipeline has run once."""
    return shutil.copytree(_ran[0], tmp_path / "place", symlinks=True)


@pytest.fixture
def record(_ran: tuple[Path, RunRecord]) -> RunRecord:
    """The record of that run."""
    return _ran[1]
