"""Archives, unpacked safely: nothing lands outside the folder, and nothing fills the disk."""

from __future__ import annotations

import shutil
import stat
import tarfile
import zipfile
import zlib
from lzma import LZMAError
from pathlib import Path, PurePosixPath

from cldrank.errors import CldrankError, DownloadError

_ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_SMALL = 1 << 26  # bytes: what any archive may unpack to
_TIMES = 100  # times its own size: what a larger one may; feature files compress to a tenth
_BLOCK = 1 << 12  # bytes: what even an empty file takes on disk


def is_archive(path: Path) -> bool:
    """Whether the name is that of an archive.

    >>> is_archive(Path("sets.tar.gz")), is_archive(Path("movies.csv.gz"))
    (True, False)
    """
    return path.name.endswith(_ARCHIVES)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar or zip archive into a folder.

    An archive is refused if it reaches outside the folder, if there is no room for it, or if it unpacks to more than a
    hundred times its own size (and more than 64 MiB).
    """
    folder.mkdir(parents=True, exist_ok=True)
    room = _Room(archive, folder)
    try:
        if archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as zipped:
                for entry in zipped.infolist():
                    _check_entry(entry)
                    room.take(entry.file_size)  # zipfile reads no more than that, whatever follows
                zipped.extractall(folder)  # noqa: S202 – every entry has been checked
        elif not hasattr(tarfile, "data_filter"):
            raise CldrankError("this Python cannot unpack tar archives safely; use Python 3.11.4 or later.")
        else:
            with tarfile.open(archive) as tarred:
                for member in tarred:
                    room.take(member.size)
                    tarred.extract(member, folder, filter="data")
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, LZMAError, EOFError, OSError, MemoryError) as error:
        if isinstance(error, CldrankError):
            raise
        raise DownloadError(f"{archive} cannot be unpacked: {error or type(error).__name__}.") from error


class _Room:
    """How much an archive may still fill."""

    def __init__(self, archive: Path, folder: Path) -> None:
        self.archive, self.folder = archive, folder
        self.free = shutil.disk_usage(folder).free
        self.most = max(_SMALL, _TIMES * archive.stat().st_size)
        self.taken = 0

    def take(self, size: int) -> None:
        self.taken += max(size, _BLOCK)
        problem = ""
        if self.taken > self.most:
            problem = f"more than {_TIMES} times its own size; this is not an archive of data"
        elif self.taken > self.free:
            problem = f"but {self.folder} has room for {self.free:,} only"
        if problem:
            raise DownloadError(f"{self.archive} cannot be unpacked: it holds {self.taken:,} bytes, {problem}.")


def _check_entry(entry: zipfile.ZipInfo) -> None:
    path = PurePosixPath(entry.filename.replace("\\", "/"))
    link = stat.S_ISLNK(entry.external_attr >> 16)
    if link or path.is_absolute() or ".." in path.parts or ":" in entry.filename:
        raise zipfile.BadZipFile(f"{entry.filename!r} reaches outside its folder")
