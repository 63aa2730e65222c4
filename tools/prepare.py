"""Make the files that cldrank reads from those that a publisher offers, for sets that are published in other forms.

python tools/prepare.py msrd                                 download, and make the set where `msrd:train` finds it
python tools/prepare.py msrd --from downloads --out movies   from files, or a folder of them, into a folder
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from public_sets.baidu import make_baidu
from public_sets.msrd import make_msrd
from public_sets.ranklens import make_ranklens

from cldrank import catalogue
from cldrank.catalogue import DataSource, RemoteFile, downloaded
from cldrank.errors import CldrankError, CldrankWarning, UsageError, warn
from cldrank.files import replacing_folder, save_json
from cldrank.reading import read_json
from cldrank.wording import listed, some

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many steps are done, and how many there are."""

MAKERS: dict[str, Callable[[Sequence[Path], Path, Progress], dict[str, int]]] = {
    "msrd": make_msrd,
    "ranklens": make_ranklens,
    "baidu-ultr": make_baidu,
}
MARKER = "prepared.json"  # in a folder that holds a prepared data set and nothing else
_ARROW = (".feather", ".arrow", ".parquet")
_POINTER = b"version https://git-lfs.github.com"


@dataclass(frozen=True)
class PreparedSet:
    """What was prepared: the folder, and what was counted on the way."""

    folder: Path
    counts: Mapping[str, int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prepare the set that the command line names; the exit code is 0 if all went well."""
    parser = argparse.ArgumentParser(description="Make the files that cldrank reads from those of a publisher.")
    parser.add_argument("name", choices=sorted(MAKERS))
    parser.add_argument(
        "--from", dest="given", nargs="+", metavar="PATH", help="published files, or folders of them; else downloaded"
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="default: where cldrank finds the set by its name")
    chosen = parser.parse_args(arguments)
    source = catalogue.get(chosen.name)
    try:
        made = prepare(source, chosen.given and [Path(path) for path in chosen.given], chosen.out, _say)
    except CldrankError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    print(f"{source.key} is now in {made.folder}")
    print(", ".join(f"{what}: {number:,}" for what, number in made.counts.items() if number))
    print(f"Licence: {source.licence} ({source.homepage}). Cite: {source.citation}", file=sys.stderr)
    return 0


def prepare(
    source: DataSource | str,
    given: Sequence[Path] | None = None,
    out: Path | None = None,
    progress: Progress = lambda *_: None,
) -> PreparedSet:
    """Make a data set of the catalogue from its published files, all of it or nothing.

    given   the published files, or folders that hold them; by default they are downloaded
    out     the folder to write; by default the one where `cldrank.load("msrd:train")` finds the set

    A file that is not the one on record is used all the same, with a warning: the results may then differ.
    """
    source = catalogue.get(source) if isinstance(source, str) else source
    folder = out or source.places[0] / "prepared"
    _check_target(source, folder)
    if given is not None:
        return _make(source, _published(source, given), folder, progress)
    with downloaded(source) as files:
        return _make(source, files, folder, progress)


def _make(source: DataSource, files: Sequence[Path], folder: Path, progress: Progress) -> PreparedSet:
    with replacing_folder(folder) as temporary:
        counts = MAKERS[source.key](files, temporary, progress)
        save_json(temporary / MARKER, {"data": source.key, "files": [file.name for file in files], "counts": counts})
    return PreparedSet(folder, counts)


def _say(what: str, done: int, total: int) -> None:
    print(f"{done}/{total} {what}", file=sys.stderr)


def _check_target(source: DataSource, folder: Path) -> None:
    """Refuse a folder that holds anything but an earlier preparation of this set."""
    if source.key not in MAKERS:
        raise UsageError(f"{source.key} is read as published; `cldrank data list {source.key}` says how to get it.")
    present = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    if present and not (MARKER in present and _prepared_in(folder) == source.key):
        raise UsageError(f"{folder} holds other files ({some(present, 3)}); name a folder of its own for {source.key}.")


def _prepared_in(folder: Path) -> str:
    """The data set that was prepared in a folder."""
    note = read_json(folder / MARKER, "the note of a prepared data set")
    return str(note.get("data", "")) if isinstance(note, dict) else ""


def _published(source: DataSource, given: Sequence[Path]) -> list[Path]:
    """The published files among the files and folders given."""
    if absent := [str(path) for path in given if not path.exists()]:
        raise UsageError(f"{listed(absent)}: no such file or folder.")
    paths = [file for path in given for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
    if not source.downloads:
        files = [path for path in paths if path.suffix in _ARROW] if any(path.is_dir() for path in given) else paths
        if not files:
            raise UsageError(f"{listed(given)}: no file ends in {listed(_ARROW, 'or')}; see {source.homepage}.")
        _check_different(files)
        return files
    named = {path.name: path for path in paths}
    if lacking := [file.name for file in source.downloads if file.name not in named]:
        raise UsageError(f"no {listed(lacking, 'nor')} in {listed(given)}; see `cldrank data list {source.key}`.")
    for file in source.downloads:
        _check_published(file, named[file.name])
    return [named[file.name] for file in source.downloads]


def _check_different(files: Sequence[Path]) -> None:
    """Refuse a file that is given twice, and files of one name: pages are known by the name of their file."""
    seen: dict[str, Path] = {}
    for file in files:
        other = seen.setdefault(file.stem, file)
        if other is not file:
            raise UsageError(f"{other} and {file} have the same name, by which pages are known; rename one of them.")


def _check_published(file: RemoteFile, path: Path) -> None:
    with path.open("rb") as content:
        if content.read(len(_POINTER)) == _POINTER:
            raise UsageError(f"{path} is a pointer of Git LFS, not the file itself; run `git lfs pull` there.")
        content.seek(0)
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    if digest != file.sha256:
        warn(
            CldrankWarning(
                f"{path} is not the file on record (SHA-256 {digest[:12]}…, not {file.sha256[:12]}…); what is made of "
                "it may differ from the data that documented results are about."
            )
        )


if __name__ == "__main__":
    sys.exit(main())
