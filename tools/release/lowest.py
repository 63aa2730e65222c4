"""The lowest versions that pyproject.toml allows, as constraints-lowest.txt lists them: do the tests pass?"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from release.environments import MAINTAINERS, SMOKE, find_python, fresh_environment
from release.steps import Release, ReleaseError, run_command

PYTHON = "3.11"
TESTED = (
    "src", "tests/cli", "tests/clicks", "tests/data", "tests/methods", "tests/evaluation", "tests/experiment",
    "tests/export", "tests/judgements", "tests/measures", "tests/models", "tests/pipeline", "tests/propensity",
    "tests/rankers", "tests/report", "tests/safety", "tests/service", "tests/tuning",
)  # fmt: skip
LEFT_OUT = (
    "tests/rankers/test_trees.py::test_trees_that_the_engine_could_stumble_over_are_refused[change-categories]",
)  # it changes what XGBoost writes from 3.1 on
ON_SPARK = ("tests/clicks/test_aggregate.py",)  # logs are counted on Spark 3.5, too; a SparkDataset asks for Spark 4
# Old packages warn of what newer ones took away, Ibis 10 of its own functions on Spark, and Spark 3.5 of its sockets.
# Our own warnings stay errors.
QUIET = (
    "ignore::DeprecationWarning",
    "ignore::FutureWarning",
    "ignore::PendingDeprecationWarning",
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
    "ignore:In Python 3.6:UserWarning",
)
TOOLS = (
    "httpx", "hypothesis", "ir-measures", "markdown-it-py", "polars", "pytest", "pytest-xdist", "pyyaml", "sybil",
    "ultr-bias-toolkit",
)  # fmt: skip


def check_lowest(release: Release, keep: bool) -> str:
    """Install the lowest versions for the lowest Python, and run the tests that touch these packages most."""
    constraints = release.root / "constraints-lowest.txt"
    project = tomllib.loads((release.root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    compare_bounds(lower_bounds(project), listed_versions(constraints))
    found = find_python(PYTHON)
    if found is None:
        raise ReleaseError(f"constraints-lowest.txt is for Python {PYTHON}, which is not installed here.")
    extras = sorted(set(project["optional-dependencies"]) - MAINTAINERS)
    with fresh_environment(release, found, "venv-lowest", keep) as python:
        what = f"{release.root}[{','.join(extras)}]"
        pip: list[str | Path] = [python, "-m", "pip", "install", "--disable-pip-version-check"]
        run_command([*pip, "--constraint", constraints, "--editable", what, *TOOLS], release.scratch)
        helps = run_command([python, "-c", "import smoke; print(smoke.check_help())"], SMOKE.parent).strip()
        here = _run_tests(release, python, "not spark", TESTED)
        on_spark = _run_tests(release, python, "spark", ON_SPARK)
    return f"{helps} pages of help; {here}; on Spark {on_spark}"


def _run_tests(release: Release, python: Path, which: str, paths: tuple[str, ...]) -> str:
    """Run tests; the last line that pytest prints."""
    quiet = [word for kind in QUIET for word in ("-W", kind)]
    left_out = [word for test in LEFT_OUT for word in ("--deselect", test)]
    chosen = [
        "-m",
        "not slow and not data and not exhaustive",
        "-k",
        which,
        "--numprocesses",
        "auto",
        "--dist",
        "loadfile",
    ]
    command = [str(python), "-m", "pytest", "-q", *chosen, *quiet, *left_out, *paths]
    printed = run_command(command, release.root, {"OMP_NUM_THREADS": "1"}, timeout=7200)
    return printed.strip().splitlines()[-1].strip("= ")


def lower_bounds(project: dict[str, Any]) -> dict[str, str]:
    """The lower bound of each dependency for users: a dictionary of normalised names and versions.

    >>> lower_bounds({"dependencies": ["numpy>=2.0"], "optional-dependencies": {"trees": ["xgboost>=3,<4"]}})
    {'numpy': '2.0', 'xgboost': '3'}
    """
    from packaging.requirements import Requirement

    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *(line for name in sorted(set(extras) - MAINTAINERS) for line in extras[name])]
    bounds: dict[str, str] = {}
    for line in lines:
        requirement = Requirement(line)
        if requirement.name == "cldrank":
            continue
        least = [one.version for one in requirement.specifier if one.operator == ">="]
        if not least:
            raise ReleaseError(f"pyproject.toml: {line!r} has no lower bound; write the lowest version that works.")
        bounds[_normal(requirement.name)] = least[0]
    return bounds


def listed_versions(constraints: Path) -> dict[str, str]:
    """What a file of constraints pins, by normalised name."""
    lines = (line.partition("#")[0].strip() for line in constraints.read_text(encoding="utf-8").splitlines())
    return {_normal(name): version for name, _, version in (line.partition("==") for line in lines if line)}


def compare_bounds(bounds: dict[str, str], listed: dict[str, str]) -> None:
    """Refuse a lower bound that constraints-lowest.txt does not have."""
    from packaging.version import Version

    for name, bound in bounds.items():
        if name not in listed or Version(listed[name]) != Version(bound):
            raise ReleaseError(
                f"pyproject.toml allows {name} from {bound} on, constraints-lowest.txt has {listed.get(name, 'none')}; "
                "let both say the same, and run: make lowest."
            )


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
