"""`fetch`: download a data set of the catalogue, verify it and unpack it.

pooch downloads each file under a temporary name; only a file with the SHA-256 on record takes its real name. The set
then appears in the cache as a whole. A file of the right name that somebody put into the folder for downloads is used
instead of the network.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cldrank import catalogue
from cldrank.catalogue import DataSource, RemoteFile, cache_folder
from cldrank.errors import CldrankError, DownloadError, UsageError
from cldrank.files import holding, make_folder, replacing_folder
from cldrank.reading import reason

Progress = Callable[[str, int, int], None]
"""Called with the name of the file, the bytes that have arrived, and the bytes in all."""

_PAUSES = (1.0, 2.0, 4.0)  # seconds before the second try, the third and the fourth
_CHUNK = 1 << 18
_TIMEOUT = 30.0  # seconds without a byte


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
    progress: Progress | None = None,
) -> Fetched:
    """Download a data set into the user's cache and unpack it there, all of it or nothing.

    A set that is present already is left alone, unless with `force`. A set that must be downloaded by hand, or made
    from its published files, raises DownloadError with the steps to do so.
    """
    source = catalogue.get(source) if isinstance(source, str) else source
    if not force and (folder := source.find()):
        return Fetched(folder, fresh=False)
    if source.gated or source.prepared:
        raise DownloadError(_by_hand(source))
    if source.acceptance and not accept_licence:
        raise UsageError(
            f"{source.key} has a licence that you must accept first: {source.licence} ({source.homepage}). If you "
            "accept it, fetch with `accept_licence=True`."
        )
    place = cache_folder() / "data" / source.key / source.into
    with downloaded(source, progress, unless=lambda: not force and source.find() is not None) as files:
        if not files:  # another process fetched it while this one waited
            return Fetched(place.parent, fresh=False)
        with replacing_folder(place) as temporary:
            for path in files:
                shutil.unpack_archive(path, temporary, filter="data")
            if not source.holds_all(temporary):
                raise DownloadError(
                    f"the archive of {source.key} does not hold the files of {', '.join(source.splits)}; the publisher "
                    f"may have changed it, see {source.homepage}."
                )
    return Fetched(place.parent, fresh=True)


@contextmanager
def downloaded(
    source: DataSource, progress: Progress | None = None, unless: Callable[[], bool] = lambda: False
) -> Iterator[list[Path]]:
    """The published files of a set, verified: removed after the block, or kept for the next try if it fails.

    unless   asked once no other process downloads the same; if it says so, there are no files
    """
    if not source.downloads:
        raise DownloadError(_by_hand(source))
    try:
        folder = make_folder(cache_folder() / "downloads" / source.key)
    except CldrankError as error:
        raise DownloadError(f"{error} Name another cache folder in CLDRANK_CACHE.") from None
    with holding(folder):
        names = {file.name for file in source.downloads}
        for stray in (entry for entry in folder.iterdir() if entry.name not in names):
            stray.unlink()  # the temporary file of a download that was killed
        files = [] if unless() else [_download(source, file, folder, progress) for file in source.downloads]
        yield files
        for path in files:
            path.unlink()


def _download(source: DataSource, file: RemoteFile, folder: Path, progress: Progress | None) -> Path:
    """One file, verified; if it is in the folder already and has the right SHA-256, nothing is downloaded."""
    free, problem = shutil.disk_usage(folder).free, ""
    if file.size > free and not (folder / file.name).exists():
        problem = f"it has {file.size:,} bytes, but {folder} has room for {free:,} only"
    for pause in (0.0, *_PAUSES) if not problem else ():
        time.sleep(pause)
        try:
            return _retrieve(file, folder, progress)
        except OSError as error:  # those of requests are OSErrors
            problem = reason(error)
        except ValueError:  # pooch's, of the SHA-256
            problem = "its SHA-256 is not the one on record: a login page, a damaged file, or another version"
            break
    raise DownloadError(
        f"cannot download {file.url}: {problem}. Try again later, or download the file by hand, place it in {folder} "
        f"and fetch again: it will be verified and unpacked. See also {source.homepage}."
    )


def _retrieve(file: RemoteFile, folder: Path, progress: Progress | None) -> Path:
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


class _Bar:
    """A progress bar as pooch wants it, which calls a function."""

    def __init__(self, name: str, report: Progress) -> None:
        self.name, self.report, self.total, self._done = name, report, 0, 0

    def update(self, count: int) -> None:
        self._done = min(self._done + count, self.total)
        self.report(self.name, self._done, self.total)

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None:
        pass


def _by_hand(source: DataSource) -> str:
    steps = "\n".join(f"  {number}. {step}" for number, step in enumerate(source.steps, start=1))
    what = "made from its published files" if source.prepared else "downloaded by hand"
    return f"{source.key} must be {what} ({source.licence}). The steps:\n{steps}"
