"""A quick selection; `python benchmarks/reliability.py` tries everything."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness import KILLED, Commands, Fault, junk
from scenarios import SCENARIOS, copied, prepare
from trials import Bench, full_disks, random_kills

SLOW = pytest.mark.slow

Benches = Callable[[str], Bench]


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """Commands that can be disturbed."""
    with Commands(tmp_path_factory.mktemp("commands")) as running:
        yield running


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, commands: Commands) -> Path:
    """A folder with the inputs of all scenarios."""
    folder = tmp_path_factory.mktemp("scene")
    prepare(folder, commands)
    return folder


@pytest.fixture
def bench(tmp_path: Path, commands: Commands, scene: Path) -> Callable[[str], Bench]:
    """The bench of a scenario, by its name."""
    return lambda name: Bench(commands, scene, tmp_path, SCENARIOS[name])


def failures(bench: Bench, faults: list[Fault]) -> list[str]:
    return [f"{fault}: {wrong}" for fault in faults if (wrong := bench.trial(fault))]


def test_a_ranker_survives_a_kill_at_some_steps_of_its_replacement(bench: Benches) -> None:
    trained = bench("train cld")
    points = [point for point in trained.points() if point.call in ("rename", "exchange", "fsync")]
    assert {(point.call, point.two_steps) for point in points} >= {("exchange", False), ("rename", True)}
    assert failures(trained, points[::12]) == []


@pytest.mark.slow
def test_a_ranker_survives_a_kill_at_all_other_steps_of_its_replacement(bench: Benches) -> None:
    trained = bench("train cld")
    points = [point for point in trained.points() if point.call in ("rename", "exchange", "fsync")]
    assert failures(trained, [point for place, point in enumerate(points) if place % 12]) == []


def test_a_kill_between_the_two_renames_loses_nothing(bench: Benches) -> None:
    trained = bench("train cld")
    # the first rename finds a ranker in its way, the second moves that away, the third takes its name
    fault = Fault("rename", 2, after=True, two_steps=True)
    folder = copied(trained.before, trained.place / "disturbed")
    ended = trained.commands.run(folder, trained.scenario.arguments(1), fault)
    assert ended.code == KILLED
    assert not (folder / "ranker").exists()  # the very point: without recovery it would be lost
    from cldrank import load_ranker

    load_ranker(folder / "ranker")  # a reader brings it back, too
    assert trained.judged(folder, "after loading") == ""
    assert trained.trial(fault) == ""


@pytest.mark.parametrize(
    "name",
    [
        "data make",
        *(
            pytest.param(name, marks=SLOW)
            for name in (
                "clicks aggregate",
                "clicks import",
                "propensity estimate",
                "score",
                "export",
                "evaluate",
                "judgements",
            )
        ),
    ],
)
def test_files_survive_kills(name: str, bench: Benches) -> None:
    disturbed = bench(name)
    points = [point for point in disturbed.points() if point.call in ("replace", "fsync", "unlink")]
    assert failures(disturbed, [*points[::3], *random_kills(0, 2, longest=0.4)]) == []


def test_several_days_change_together_or_not_at_all(bench: Benches) -> None:
    disturbed = bench("days added")
    points = [point for point in disturbed.points() if point.call in ("rename", "exchange", "replace", "unlink")]
    assert {(point.call, point.two_steps) for point in points} >= {("exchange", False), ("rename", True)}
    swaps = [point for point in points if point.call in ("rename", "exchange")]  # the steps that could lose days
    assert failures(disturbed, swaps[1::3]) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["days added", "clicks import"])
def test_a_kill_at_any_call(name: str, bench: Benches) -> None:
    disturbed = bench(name)
    assert failures(disturbed, [*disturbed.points(), *random_kills(1, 20, longest=1.0), *full_disks()]) == []


@pytest.mark.slow
def test_a_search_survives_kills(bench: Benches) -> None:
    tuned = bench("tune")
    points = [point for point in tuned.points() if point.call in ("replace", "rename", "unlink")]
    assert failures(tuned, points[5 :: len(points) // 4]) == []


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("days added", "train cld", "propensity estimate") else pytest.param(name, marks=SLOW)
        for name in sorted(set(SCENARIOS) - {"experiment run", "train cld-pair"})
    ],
)
def test_a_full_disk_is_named_and_spares_what_was_there(name: str, bench: Benches) -> None:
    assert failures(bench(name), full_disks()[1:2]) == []


def mount(*arguments: str) -> int:
    return subprocess.run([shutil.which("mount") or "false", *arguments], capture_output=True, check=False).returncode


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 256 KiB, where one may be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    if mount("-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)):
        pytest.skip("no file system may be mounted here")
    yield place
    subprocess.run([shutil.which("umount") or "umount", str(place)], check=True)


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        for _ in range(1 << 20):
            file.write(bytes(512))


def test_a_disk_that_is_really_full(small_disk: Path, scene: Path, commands: Commands) -> None:
    train = ["train", "cld", "-f", str(scene / "train.parquet"), "-c", str(scene / "cells-0.parquet"), "-p", "power:1"]
    assert commands.run(small_disk, [*train, "--out", "ranker"]).code == 0
    before = SCENARIOS["train cld"].states(small_disk)
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="No space left"):
        fill(filler)
    train[5] = str(scene / "cells-1.parquet")
    ended = commands.run(small_disk, [*train, "--out", "ranker"])
    assert ended.code == 1
    assert "ranker cannot be written: No space left on device." in ended.output
    assert SCENARIOS["train cld"].states(small_disk) == before
    assert junk(small_disk) == []
    filler.unlink()
    assert commands.run(small_disk, [*train, "--out", "ranker"]).code == 0
    assert SCENARIOS["train cld"].states(small_disk) != before


def test_a_read_only_disk_is_told_before_the_work(small_disk: Path, scene: Path, commands: Commands) -> None:
    assert mount("-o", "remount,ro", str(small_disk)) == 0
    for arguments in (
        ["data", "make", "web10k-like", "--n-queries", "5", "--out", str(small_disk / "out.parquet")],
        ["clicks", "aggregate", "log-0.parquet", "--out", str(small_disk / "cells.parquet")],
        ["train", "cld", "-f", "train.parquet", "-c", "cells-0.parquet", "-p", "power:1", "-o", str(small_disk / "r")],
    ):
        ended = commands.run(scene, arguments)
        assert ended.code == 2  # the call names a place that cannot be written to
        assert str(small_disk) in ended.output
        assert "Read-only file system" in ended.output or "write-protected" in ended.output
