"""`fetch`: download a data set of the catalogue, verify it, and unpack it or make the files that cldrank reads.

pooch downloads each file under a temporary name; only a file with the SHA-256 on record takes its real name. The set
then appears in the cache as a whole. A file of the right name that somebody put into the folder for downloads is used
instead of the network.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from cldrank.data import catalogue
from cldrank.data.archives import is_archive, unpack
from cldrank.data.catalogue import DataSource, RemoteFile
from cldrank.data.folders import cache_folder
from cldrank.data.prepare.preparing import Making, check_target, prepare_into
from cldrank.errors import CldrankError, DownloadError, Spelling, UsageError
from cldrank.files import holding, make_folder, replacing_folder
from cldrank.reading import reason

Progress = Callable[[str, int, int], None]
"""Called with the name of the file, the bytes that have arrived, and the bytes in all."""

_PAUSES = (1.0, 2.0, 4.0)  # seconds before the second try, the third and the fourth
_CHUNK = 1 << 18
_TIMEOUT = 30.0  # seconds without a byte
_PASSING = {408, 425, 429, 500, 502, 503, 504}  # HTTP statuses after which another try may succeed


@dataclass(frozen=True)
class Fetched:
    """What a fetch left behind; not `fresh` if the set was there before."""

    folder: Path
    fresh: bool


def fetch(
    source: DataSource | str,
    *,
    accept_licence: bool = False,
    force: bool = False,
    out: str | PathLike[str] | None = None,
    progress: Progress | None = None,
    making: Making | None = None,
) -> Fetched:
    """Download a data set into the user's cache and unpack or prepare it there, all of it or nothing.

    A set that is present already is left alone, unless with `force`. A set that must be downloaded by hand raises
    DownloadError with the steps to do so. Of a set that is prepared, `out` names another folder to write, and `making`
    is told how far the work is.
    """
    source = catalogue.get(source) if isinstance(source, str) else source
    place = cache_folder() / "data" / source.key / source.into
    if out is not None:
        place, force = check_target(source, Path(out)), True
    if not force and (found := _present(source)):
        return found
    if source.gated:
        raise DownloadError(_by_hand(source))
    if source.acceptance and not accept_licence:
        raise UsageError(
            "{} has a licence that you must accept first: {} ({}). If you accept it, fetch with {}.",
            source.key,
            source.licence,
            source.homepage,
            Spelling("accept_licence=True", "--accept-licence"),
        )
    downloads = _folder(cache_folder() / "downloads" / source.key)
    with holding(downloads):
        if not force and (found := _present(source)):  # another process fetched it while this one waited
            return found
        files = _downloaded(source, downloads, progress)
        if source.prepared:
            prepare_into(source, files, place, making)
        else:
            _unpack(source, files, place)
        for path in files:
            path.unlink()
    return Fetched(place.parent if out is None else place, fresh=True)


def _downloaded(source: DataSource, downloads: Path, progress: Progress | None) -> list[Path]:
    names = {file.name for file in source.downloads}
    for stray in (entry for entry in downloads.iterdir() if entry.name not in names):
        stray.unlink()  # the temporary file of a download that was killed
    return [_download(source, file, downloads, progress) for file in source.downloads]


def _unpack(source: DataSource, files: list[Path], place: Path) -> None:
    with replacing_folder(place) as temporary:
        for path in files:
            unpack(path, temporary) if is_archive(path) else shutil.copy(path, temporary)
        if not source.holds_all(temporary):
            raise DownloadError(
                f"the archive of {source.key} does not hold the files of {', '.join(source.splits)}; the publisher may "
                f"have changed it, see {source.homepage}."
            )


def _download(source: DataSource, file: RemoteFile, folder: Path, progress: Progress | None) -> Path:
    """One file, verified; if it is in the folder already and has the right SHA-256, nothing is downloaded."""
    pauses = iter(_PAUSES)
    while True:
        try:
            if not (folder / file.name).exists():
                _check_room(file, folder)
            return _retrieve(file, folder, progress)
        except (OSError, ValueError) as error:  # the errors of requests are OSErrors
            words, may_pass = _explained(error)
            pause = next(pauses, None) if may_pass else None
            if pause is None:
                raise DownloadError(
                    f"cannot download {file.url}: {words}. Try again later, or download the file by hand, place it in "
                    f"{folder} and fetch again: it will be verified and unpacked. See also {source.homepage}."
                ) from error
            time.sleep(pause)


def _retrieve(file: RemoteFile, folder: Path, progress: Progress | None) -> Path:
    """One try."""
    import pooch

    pooch.get_logger().setLevel("WARNING")  # else every step is reported on standard error
    with ExitStack() as connections:

        def close_later(answer: Any, **_: Any) -> None:  # pooch leaves a failed connection to the garbage collector
            connections.callback(answer.close)

        downloader = pooch.HTTPDownloader(
            progressbar=_Bar(file.name, progress) if progress else False,
            chunk_size=_CHUNK,
            timeout=_TIMEOUT,
            hooks={"response": close_later},
        )
        return Path(pooch.retrieve(file.url, f"sha256:{file.sha256}", file.name, folder, downloader=downloader))


def _check_room(file: RemoteFile, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if file.size > free:
        raise OSError(f"it has {file.size:,} bytes, but {folder} has room for {free:,} only")


def _explained(error: Exception) -> tuple[str, bool]:
    """Why a download failed, and whether another try may succeed."""
    from requests import exceptions

    answer = getattr(error, "response", None)
    if answer is not None:
        return f"HTTP {answer.status_code} {answer.reason}", answer.status_code in _PASSING
    if not isinstance(error, OSError):  # pooch's ValueError
        words = "it is a login page, was damaged on the way, or has been changed by the publisher"
        return f"its SHA-256 is not the one on record, so it was discarded; {words}", False
    if isinstance(error, exceptions.SSLError):
        return "the server's certificate is not trusted", False
    for kind, words in (
        (exceptions.Timeout, "the server does not answer"),
        (exceptions.ChunkedEncodingError, "the connection broke off"),
        (exceptions.ConnectionError, "the server cannot be reached"),
    ):
        if isinstance(error, kind):
            return words, True
    return reason(error), False


class _Bar:
    """A progress bar as pooch wants it, which calls a function."""

    def __init__(self, name: str, report: Progress) -> None:
        self.name, self.report = name, report
        self._done = self._total = 0

    @property
    def total(self) -> int:
        return self._total

    @total.setter
    def total(self, count: int) -> None:  # pooch sets it at the start of every try
        self._done, self._total = 0, count
        self.report(self.name, 0, count)

    def update(self, count: int) -> None:
        self._done = min(self._done + count, self._total)
        self.report(self.name, self._done, self._total)

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None:
        pass


def _present(source: DataSource) -> Fetched | None:
    found = source.find()
    return None if found is None else Fetched(found, fresh=False)


def _folder(path: Path) -> Path:
    try:
        return make_folder(path)
    except CldrankError as error:
        raise DownloadError(f"{error} Name another cache folder in CLDRANK_CACHE.") from None


def _by_hand(source: DataSource) -> str:
    steps = "\n".join(f"  {number}. {step}" for number, step in enumerate(source.steps, start=1))
    return f"{source.key} must be downloaded by hand ({source.licence}). The steps:\n{steps}"
