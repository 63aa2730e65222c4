"""`fetch`: download a data set of the catalogue, verify it and unpack it.

pooch downloads each file under a temporary name; only a file with the SHA-256 on record takes its real name. The set
then appears in the cache as a whole. A file of the right name that somebody put into the folder for downloads is used
instead of the network.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from cldrank import catalogue
from cldrank.catalogue import DataSource, RemoteFile, cache_folder
from cldrank.errors import CldrankError, DownloadError, UsageError
from cldrank.files import holding, make_folder, replacing_folder
from cldrank.reading import reason

_RETRIES = 3
_TIMEOUT = 30.0  # seconds without a byte


def fetch(source: DataSource | str, *, accept_licence: bool = False, force: bool = False) -> Path:
    """Download a data set into the user's cache and unpack it there, all of it or nothing; returns its folder.

    A set that is present already is left alone, unless with `force`. A set that must be downloaded by hand, or made
    from its published files, raises DownloadError with the steps to do so.
    """
    source = catalogue.get(source) if isinstance(source, str) else source
    if not force and (folder := source.find()):
        return folder
    if source.gated or source.prepared:
        raise DownloadError(_by_hand(source))
    if source.acceptance and not accept_licence:
        raise UsageError(
            f"{source.key} has a licence that you must accept first: {source.licence} ({source.homepage}). If you "
            "accept it, fetch with `accept_licence=True`."
        )
    home = _made(cache_folder() / "data" / source.key)
    with holding(home):
        if not force and source.find():  # another process fetched it while this one waited
            return home
        with downloaded(source) as files, replacing_folder(home / "fetched") as temporary:
            for path in files:
                shutil.unpack_archive(path, temporary, filter="data")
            if source.present_in(temporary) != source.references:
                raise DownloadError(
                    f"the archive of {source.key} does not hold the files of {', '.join(source.splits)}; the publisher "
                    f"may have changed it, see {source.homepage}."
                )
    return home


@contextmanager
def downloaded(source: DataSource) -> Iterator[list[Path]]:
    """The published files of a set, verified: removed after the block, or kept for the next try if it fails."""
    if not source.downloads:
        raise DownloadError(_by_hand(source))
    folder = _made(cache_folder() / "downloads" / source.key)
    with holding(folder):
        names = {file.name for file in source.downloads}
        for stray in (entry for entry in folder.iterdir() if entry.name not in names):
            stray.unlink()  # the temporary file of a download that was killed
        files = [_retrieve(source, file, folder) for file in source.downloads]
        yield files
        for path in files:
            path.unlink()


def _made(folder: Path) -> Path:
    try:
        return make_folder(folder)
    except CldrankError as error:
        raise DownloadError(f"{error} Name another cache folder in CLDRANK_CACHE.") from None


def _retrieve(source: DataSource, file: RemoteFile, folder: Path) -> Path:
    """One file, verified; if it is in the folder already and has the right SHA-256, nothing is downloaded."""
    import pooch

    pooch.get_logger().setLevel("WARNING")  # else every step is reported on standard error
    files = pooch.create(
        folder, "", registry={file.name: f"sha256:{file.sha256}"}, urls={file.name: file.url}, retry_if_failed=_RETRIES
    )
    with ExitStack() as connections:

        def close_later(answer: Any, **_: Any) -> None:  # pooch leaves a failed connection to the garbage collector
            connections.callback(answer.close)

        downloader = pooch.HTTPDownloader(timeout=_TIMEOUT, hooks={"response": close_later})
        try:
            return Path(files.fetch(file.name, downloader=downloader))
        except OSError as error:  # of requests, or of the disk
            problem = reason(error)
        except ValueError:  # of pooch
            problem = "its SHA-256 is not the one on record: a login page, a damaged file, or another version"
    raise DownloadError(
        f"cannot download {file.url}: {problem}. Try again later, or download the file by hand, place it in {folder} "
        f"and fetch again: it will be verified and unpacked. See also {source.homepage}."
    )


def _by_hand(source: DataSource) -> str:
    what = "made from its published files" if source.prepared else "downloaded by hand"
    return f"{source.key} must be {what} ({source.licence}). The steps:\n{source.steps}"
