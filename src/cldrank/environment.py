"""What a result was computed with: the versions of packages, and the commit of this one."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

from cldrank._version import __version__

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pyarrow", "duckdb", "torch", "xgboost", "lightgbm")


def versions() -> dict[str, str]:
    """Python, this package, and the packages that it computes with, if they are installed.

    >>> list(versions())[:3]
    ['python', 'cldrank', 'numpy']
    """
    installed = {package: version_of(package) for package in _PACKAGES}
    found = {"python": platform.python_version(), "cldrank": __version__}
    return found | {package: version for package, version in installed.items() if version}


@cache
def version_of(package: str) -> str:
    """The version of a package; empty where it is not installed.

    >>> version_of("a package that nobody has")
    ''
    """
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


@cache
def commit() -> str:
    """The commit of this package's source, with `+changes` if it was changed; empty outside a git repository."""
    here = Path(__file__).parent
    if _git(here, "ls-files", "--error-unmatch", "__init__.py") is None:
        return ""  # installed, perhaps inside somebody else's repository
    head = _git(here, "rev-parse", "HEAD")
    changed = _git(here, "diff", "--quiet", "HEAD", "--", ".") is None
    return f"{head}{'+changes' if changed else ''}" if head else ""


def _git(folder: Path, *arguments: str) -> str | None:
    """What git prints, or None if it fails or is not installed."""
    try:
        done = subprocess.run(  # noqa: S603  # fixed arguments
            ["git", "-C", str(folder), *arguments],  # noqa: S607  # the user's git
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
