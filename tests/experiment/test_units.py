from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cldrank.experiment.experiment_file import read
from cldrank.experiment.units import Unit, units


def planned(*changes: str, **options: Any) -> list[Unit]:
    return units([read("small.toml", changes=changes, **options)])


def keys(found: list[Unit], method: str = "CLD") -> set[str]:
    return {unit.task().key for unit in found if unit.method == method}


def test_hashes_are_stable(folder: Path) -> None:
    first = [unit.task().key for unit in planned()]
    script = (
        "from cldrank.experiment.experiment_file import read; from cldrank.experiment.units import units;"
        "print([unit.task().key for unit in units([read('small.toml')])])"
    )
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=folder)
    assert printed.stdout.strip() == str(first)


@pytest.mark.parametrize(
    "change",
    [
        "simulation.noise=0.2",
        "simulation.assumed_eta=0.5",
        "methods.CLD.gamma=0.3",
        'measures="nDCG@5"',
        "seeds=[7, 8]",
    ],
)
def test_hashes_are_sensitive(folder: Path, change: str) -> None:
    assert keys(planned()).isdisjoint(keys(planned(change)))


def test_hashes_depend_on_the_content_of_the_data(folder: Path) -> None:
    before = keys(planned())
    (folder / "test.txt").write_text((folder / "test.txt").read_text().replace("2 qid:1001", "3 qid:1001", 1))
    assert keys(planned()).isdisjoint(before)


def test_what_does_not_matter_does_not_make_a_new_unit(folder: Path) -> None:
    before = planned()
    (folder / "small.toml").rename(folder / "other.toml")
    after = units([read("other.toml", changes=["title=Another", "methods.CLD.use=cld", "methods.Extra.use=pijd"])])
    assert {unit.task().key for unit in before} < {unit.task().key for unit in after}


def test_work_is_shared_where_a_method_does_not_see_what_varies(folder: Path) -> None:
    found = planned("vary.simulation.assumed_eta=[0.0, 1.0, 2.0]", "vary.simulation.depth=[2, 3]")
    assert len(keys(found, "CLD")) == 3 * 2 * 2
    assert len(keys(found, "Naive")) == 2 * 2  # clicks, whatever propensities are assumed
    assert len(keys(found, "Oracle")) == 1  # labels alone, and nothing is drawn


def test_a_method_of_the_users_own_is_known_by_its_source(folder: Path) -> None:
    (unit,) = planned("methods={Mine={use='own_rankers:ByFirst', sign=-1.0}}", "seeds=1", methods=["Mine"])
    method = unit.fit.described["method"]
    assert method["class"] == "own_rankers:ByFirst"
    assert method["parameters"] == {"sign": -1.0}
    (folder / "own_rankers.py").write_text((folder / "own_rankers.py").read_text() + "\n# better\n")
    (changed,) = planned("methods={Mine={use='own_rankers:ByFirst', sign=-1.0}}", "seeds=1", methods=["Mine"])
    assert changed.task().key != unit.task().key
