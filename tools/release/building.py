"""Source distribution and wheel, built twice from different places: the same bytes, or no release."""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import zipfile
from hashlib import sha256
from pathlib import Path

from release.steps import Release, ReleaseError, run_command


def build_twice(release: Release) -> str:
    """Build from two copies of the tracked files that share nothing but these; leave the first build in dist/."""
    files = tracked_files(release.root)
    first = _build(_copy(release.root, files, release.scratch / "here"), release.scratch / "first")
    there = _copy(release.root, files, release.scratch / "another folder" / "there")
    _disturb(there)
    others = {"TZ": "Asia/Kathmandu", "LC_ALL": "C", "PYTHONHASHSEED": "7"}
    compare_builds(first, _build(there, release.scratch / "second", others))
    _compare_with_wheel_of_sdist(release, first)
    shutil.rmtree(release.dist, ignore_errors=True)
    shutil.copytree(first, release.dist)
    sizes = ", ".join(f"{path.name} {path.stat().st_size / 1e6:.2f} MB" for path in sorted(release.dist.iterdir()))
    return f"{sizes}; the same bytes twice{_changes(release)}"


def tracked_files(root: Path) -> list[str]:
    """The files that git knows, as paths from the root: what is built is what can be committed."""
    listed = run_command(["git", "ls-files", "-z"], root).split("\0")
    return [name for name in listed if name and (root / name).is_file()]


def compare_builds(first: Path, second: Path) -> None:
    """Refuse two builds that differ, and say in which members.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     compare_builds(Path(folder), Path(folder))
    """
    names = [sorted(path.name for path in folder.iterdir()) for folder in (first, second)]
    if names[0] != names[1]:
        raise ReleaseError(f"two builds of the same files gave {names[0]} and {names[1]}.")
    for name in names[0]:
        one, other = first / name, second / name
        if one.read_bytes() != other.read_bytes():
            raise ReleaseError(
                f"{name}: two builds of the same files differ in {_differences(one, other)}. Something that depends on "
                "the time, the place or an order goes into it: look at the build hooks in pyproject.toml."
            )


def _copy(root: Path, files: list[str], folder: Path) -> Path:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, folder / name)
    return folder


def _disturb(folder: Path) -> None:
    """Other times, other permissions: neither may reach the files that are built."""
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(0o664)
            os.utime(path, (1_000_000_000, 1_000_000_000))


def _build(tree: Path, out: Path, environment: dict[str, str] | None = None) -> Path:
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--sdist",
        "--wheel",
        "--outdir",
        out,
        tree,
    ]
    run_command(command, tree, environment)
    return out


def _compare_with_wheel_of_sdist(release: Release, built: Path) -> None:
    """The wheel that pip makes of the source distribution, in isolation, must be the wheel of the tree."""
    made = release.scratch / "of-sdist"
    pins = {"PIP_CONSTRAINT": str(release.root / "constraints.txt")}
    (sdist,) = built.glob("*.tar.gz")
    run_command([sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", made, sdist], release.scratch, pins)
    wheels = release.scratch / "of-tree"
    wheels.mkdir()
    for wheel in built.glob("*.whl"):
        shutil.copyfile(wheel, wheels / wheel.name)
    compare_builds(wheels, made)


def _changes(release: Release) -> str:
    changed = bool(run_command(["git", "status", "--porcelain"], release.root).strip())
    if changed and release.tag:
        raise ReleaseError(f"{release.tag}: the checkout has changes that are not committed; commit or remove them.")
    return "; with changes that are not committed" if changed else ""


def _differences(one: Path, other: Path) -> str:
    first, second = _hashes(one), _hashes(other)
    names = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
    return (
        ", ".join(names[:5]) + (" …" if len(names) > 5 else "") if names else "order, times or permissions of members"
    )


def _hashes(archive: Path) -> dict[str, str]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as zipped:
            return {name: sha256(zipped.read(name)).hexdigest() for name in zipped.namelist()}
    with tarfile.open(archive) as packed:
        opened = ((one.name, packed.extractfile(one)) for one in packed.getmembers())
        return {name: sha256(file.read()).hexdigest() for name, file in opened if file is not None}
