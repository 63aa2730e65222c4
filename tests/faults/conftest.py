from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness import Commands
from scenarios import SCENARIOS, prepare
from trials import Bench


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """Commands that can be disturbed."""
    with Commands(tmp_path_factory.mktemp("commands")) as running:
        yield running


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory, commands: Commands) -> Path:
    """A folder with the inputs of all scenarios."""
    folder = tmp_path_factory.mktemp("scene")
    prepare(folder, commands)
    return folder


@pytest.fixture
def bench(tmp_path: Path, commands: Commands, scene: Path) -> Callable[[str], Bench]:
    """The bench of a scenario, by its name."""
    return lambda name: Bench(commands, scene, tmp_path, SCENARIOS[name])
