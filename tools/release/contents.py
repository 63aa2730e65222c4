"""What lies in wheel and source distribution: all that belongs there, nothing large, no data."""

from __future__ import annotations

import sys
import tarfile
import zipfile
from collections.abc import Collection
from pathlib import Path, PurePosixPath

from release.building import tracked_files
from release.steps import Release, ReleaseError, run_command

LARGEST = 1_000_000  # bytes of one file
LARGEST_TABLE = 100_000  # bytes of a table in these folders: what references were computed from, published figures
TABLES = ("tests/goldens/", "docs/results/tables/")
DATA = {
    ".arrow", ".bz2", ".csv", ".db", ".duckdb", ".feather", ".gz", ".h5", ".joblib", ".jsonl", ".npy", ".npz",
    ".onnx", ".orc", ".parquet", ".pickle", ".pkl", ".pt", ".pth", ".safetensors", ".sqlite", ".svmlight", ".tar",
    ".tsv", ".ubj", ".xz", ".zip", ".zst",
}  # fmt: skip
TOP_OF_SDIST = {
    "src", "tests", "docs", "examples", "benchmarks", "tools", "conftest.py", "Makefile", "constraints.txt",
    "constraints-lowest.txt", "pyproject.toml", "README.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md",
    "SECURITY.md", "LICENSE", "PKG-INFO", ".gitignore",
}  # fmt: skip


def check_contents(release: Release) -> str:
    """Look into both files, and let check-wheel-contents look into the wheel."""
    source = [name.removeprefix("src/") for name in tracked_files(release.root) if name.startswith("src/cldrank/")]
    in_wheel = check_wheel(release.wheel, source)
    in_sdist = check_sdist(release.sdist)
    run_command([sys.executable, "-m", "check_wheel_contents", release.wheel], release.scratch)
    largest = max((*in_wheel.items(), *in_sdist.items()), key=lambda one: one[1])
    counts = f"{len(in_wheel)} files in the wheel, {len(in_sdist)} in the sdist"
    return f"{counts}; the largest is {largest[0]}, {largest[1] / 1e3:.0f} kB"


def check_wheel(wheel: Path, source: Collection[str]) -> dict[str, int]:
    """The sizes of a wheel's members, which must be those of the source and the usual metadata."""
    with zipfile.ZipFile(wheel) as zipped:
        sizes = {one.filename: one.file_size for one in zipped.infolist()}
    _check_sizes(wheel, sizes)
    described = f"{'-'.join(wheel.name.split('-')[:2])}.dist-info/"
    code = {name for name in sizes if not name.startswith(described)}
    if missing := sorted(set(source) - code):
        raise ReleaseError(
            f"{wheel.name} lacks {_some(missing)} of src/: see [tool.hatch.build.targets.wheel] in pyproject.toml."
        )
    if foreign := sorted(code - set(source)):
        raise ReleaseError(f"{wheel.name} has {_some(foreign)}, which git does not know in src/; remove or commit it.")
    needed = [f"{described}{name}" for name in ("METADATA", "RECORD", "entry_points.txt", "licenses/LICENSE")]
    if missing := sorted({"cldrank/py.typed", *needed} - sizes.keys()):
        raise ReleaseError(f"{wheel.name} lacks {_some(missing)}: see pyproject.toml.")
    return sizes


def check_sdist(sdist: Path) -> dict[str, int]:
    """The sizes of the members of a source distribution, without its folder."""
    folder = sdist.name.removesuffix(".tar.gz")
    with tarfile.open(sdist) as packed:
        members = packed.getmembers()
    if odd := [one.name for one in members if not (one.isfile() and one.name.startswith(f"{folder}/"))]:
        raise ReleaseError(f"{sdist.name} has {_some(odd)}, which is not a plain file in {folder}/.")
    sizes = {one.name.removeprefix(f"{folder}/"): one.size for one in members}
    _check_sizes(sdist, sizes)
    top = {name.split("/")[0] for name in sizes}
    if missing := sorted(TOP_OF_SDIST - top):
        raise ReleaseError(
            f"{sdist.name} lacks {_some(missing)}: see [tool.hatch.build.targets.sdist] in pyproject.toml."
        )
    if foreign := sorted(top - TOP_OF_SDIST):
        raise ReleaseError(
            f"{sdist.name} has {_some(foreign)}, which nobody expects there (tools/release/contents.py)."
        )
    return sizes


def _check_sizes(archive: Path, sizes: dict[str, int]) -> None:
    for name, size in sizes.items():
        if size > LARGEST:
            raise ReleaseError(
                f"{archive.name}: {name} has {size:,} bytes, more than {LARGEST:,}; make it smaller, or leave it out "
                "by `exclude` in pyproject.toml."
            )
        is_table = name.startswith(TABLES) and size <= LARGEST_TABLE
        if DATA.intersection(PurePosixPath(name).suffixes) and not is_table:
            raise ReleaseError(
                f"{archive.name}: {name} looks like data, and no data set is published with the code; leave it out by "
                "`exclude` in pyproject.toml, or let the code make it."
            )


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
