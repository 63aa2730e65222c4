"""Killed anywhere, a pipeline goes on from there, and ends bit for bit as if nothing had happened."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from harness import KILLED, Commands, Fault
from scenarios import Scenario, State, whole_folder
from small_pipeline import write_definition, write_world
from trials import Bench

from cldrank.pipeline import RunRecord
from cldrank.pipeline.running import runs_in

pytestmark = pytest.mark.slow


def results(path: Path) -> State:
    """The hashes of all that the newest run made."""
    finished = [record for _, record in runs_in(path) if record.status == "shipped"]
    return repr([dict(step.wrote) for step in finished[-1].steps]) if finished else None


SCENARIO = Scenario("pipeline run pipeline-{v}.toml", {"shipped": whole_folder, "runs": results})


class Edited(Commands):
    """Commands that find the version of the pipeline that they name in pipeline.toml, as after an edit."""

    def run(self, folder: Path, arguments: Sequence[str], *more: Any, **named: Any) -> Any:
        shutil.copyfile(folder / arguments[-1], folder / "pipeline.toml")
        return super().run(folder, [*arguments[:-1], "pipeline.toml"], *more, **named)


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    with Edited(tmp_path_factory.mktemp("commands")) as running:
        yield running


@pytest.fixture(scope="module")
def bench(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A pipeline that has shipped a ranker, and is killed while it ships another."""
    scene = tmp_path_factory.mktemp("scene")
    write_world(scene, sessions=4000)
    write_definition(scene, name="pipeline-0.toml")
    write_definition(scene, [('method = "ips"', 'method = "naive"')], name="pipeline-1.toml")
    return Bench(commands, scene, tmp_path_factory.mktemp("place"), SCENARIO)


def test_kills_at_points_all_over_the_run(bench: Bench) -> None:
    points = [point for point in bench.points() if point.call in ("rename", "replace", "exchange")]
    assert len(points) > 40
    chosen = points[3 :: len(points) // 4]
    assert [f"{point}: {wrong}" for point in chosen if (wrong := bench.trial(point))] == []


def test_a_full_disk_leaves_production_as_it_was(bench: Bench) -> None:
    assert bench.trial(Fault(bytes=700)) == ""


def test_a_killed_run_is_marked_by_the_next(bench: Bench, tmp_path: Path) -> None:
    folder = shutil.copytree(bench.before, tmp_path / "killed", symlinks=True)
    middle = bench.calls[False]["replace"] // 2
    assert bench.commands.run(folder, SCENARIO.arguments(1), Fault("replace", middle)).code == KILLED
    killed: RunRecord = runs_in(folder / "runs")[-1][1]
    assert killed.status == "running"
    assert bench.commands.run(folder, SCENARIO.arguments(1)).code == 0
    again = {record.name: record.status for _, record in runs_in(folder / "runs")}
    assert again[killed.name] == "interrupted"
    assert list(again.values())[-1] == "shipped"
