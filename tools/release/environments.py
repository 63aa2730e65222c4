"""Fresh environments: the wheel installed by each supported Python, bare, as the README says, and with all extras."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from release.description import read_metadata, supported_pythons
from release.licences import check_licences
from release.steps import Account, Release, ReleaseError, run_command

MAINTAINERS = frozenset(("bench", "dev", "docs", "release"))  # extras for work on cldrank; the others are for users
SMOKE = Path(__file__).with_name("smoke.py")
CHECKS = ("install", "trees", "extras", "licences")


def check_environments(account: Account, release: Release, only: set[str], wanted: list[str], keep: bool) -> None:
    """Try the wheel with all supported Pythons that are here, or with those that are wanted."""
    tried = 0
    for version in wanted or supported_pythons(read_metadata(release.wheel)):
        found = find_python(version)
        if found is not None:
            with fresh_environment(release, found, f"venv-{version}", keep) as python:
                _check_one(account, release, only, version, python)
            tried += 1
        elif wanted or release.tag:
            account.check(f"Python {version}", partial(_refuse, f"no Python {version} is installed here."))
        else:
            account.leave_out(f"Python {version}", "not installed here")
    if not tried:
        account.check("a Python", partial(_refuse, "none of the supported Pythons is installed here."))


def _check_one(account: Account, release: Release, only: set[str], version: str, python: Path) -> None:
    if "install" in only and not account.check(f"install {version}", partial(_install, release, python, "bare", ())):
        return
    if "trees" in only:
        account.check(f"trees {version}", partial(_install, release, python, "trees", ("trees",)))
    extras = users_extras(release.wheel)
    if only & {"extras", "licences"}:
        done = account.check(f"extras {version}", partial(_install, release, python, "extras", extras))
        if done and "licences" in only:
            account.check(f"licences {version}", partial(check_licences, python, release.scratch))


def _refuse(problem: str) -> str:
    raise ReleaseError(problem)


def users_extras(wheel: Path) -> tuple[str, ...]:
    """The extras that users install."""
    return tuple(sorted(set(read_metadata(wheel).get_all("Provides-Extra", [])) - MAINTAINERS))


def find_python(version: str) -> Path | None:
    """A Python of this version: on the path, or of pyenv; None where there is none that runs."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = shutil.which(f"python{version}")
    candidates = [*([Path(on_path)] if on_path else []), *sorted(pyenv.glob(f"{version}.*/bin/python"))]
    return next((path for path in candidates if _is_version(path, version)), None)


def _is_version(python: Path, version: str) -> bool:
    code = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == version


@contextmanager
def fresh_environment(release: Release, python: Path, name: str, keep: bool) -> Iterator[Path]:
    """The Python of a new, empty environment, which is removed at the end."""
    folder = release.scratch / name
    run_command([python, "-m", "venv", "--clear", folder], release.scratch)
    try:
        yield folder / "bin" / "python"
    finally:
        if keep:
            print(f"  kept: {folder}")
        else:
            shutil.rmtree(folder)


def _install(release: Release, python: Path, kind: str, extras: tuple[str, ...]) -> str:
    """Install the wheel at the tested versions, and use it in an empty folder, far from the checkout."""
    what = f"{release.wheel}[{','.join(extras)}]" if extras else str(release.wheel)
    pip: list[str | Path] = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    run_command([*pip, "--constraint", release.root / "constraints.txt", what], release.scratch)
    run_command([python, "-m", "pip", "check"], release.scratch)
    place = release.scratch / f"{python.parents[1].name}-{kind}"
    place.mkdir()
    printed = run_command([python, "-I", SMOKE, kind, release.version], place, {"OMP_NUM_THREADS": "2"})
    tried = printed.strip().splitlines()[-1]
    return f"{tried}{' with ' + ', '.join(extras) if extras else ''}"
