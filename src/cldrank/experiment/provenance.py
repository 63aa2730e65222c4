"""Where results come from: versions of what computed them, and the commit of the source."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

from cldrank._version import __version__

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pyarrow", "torch", "xgboost", "lightgbm")


def versions() -> dict[str, str]:
    """Python, this package, and what it computes with, as far as it is installed.

    >>> list(versions())[:3]
    ['python', 'cldrank', 'numpy']
    """
    found = {"python": platform.python_version(), "cldrank": __version__}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


@cache
def commit() -> str:
    """The commit of this package's source, `+changes` if it differs from it; empty outside a git repository."""
    here = Path(__file__).parent
    if _git(here, "ls-files", "--error-unmatch", "__init__.py") is None:
        return ""  # installed, perhaps inside somebody else's repository
    head = _git(here, "rev-parse", "HEAD")
    changed = _git(here.parent, "diff", "--quiet", "HEAD", "--", ".") is None
    return f"{head}{'+changes' if changed else ''}" if head else ""


def _git(folder: Path, *arguments: str) -> str | None:
    """What git says, or None if it refuses or is not there."""
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
