"""Downloads that resume, that are checked, and that never leave half a file under its real name.

While `movies.csv.gz` arrives, its bytes lie in `movies.csv.gz.part`, with a note beside it of which version of the
remote file they belong to. Only a whole and verified file takes the real name.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage, HTTPResponse
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urljoin, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from cldrank.data import catalogue
from cldrank.data.archives import is_archive, unpack
from cldrank.data.catalogue import DataSource
from cldrank.errors import DownloadError, UsageError
from cldrank.files import replacing_folder

Progress = Callable[[str, int, int | None], None]
"""Called with the file's name, the bytes that are here, and the bytes in all where they are known."""

_CHUNK = 1 << 18
_PASSING = {408, 425, 429, 500, 502, 503, 504}  # answers that may be another one in a moment
_LONGEST_WAIT = 60.0
_ADVICE = {
    401: "it asks for a login; download the file by hand",
    403: "access is refused; download the file by hand in a browser",
    404: "nothing is at this address any more; see the data set's official page",
    410: "the file has been withdrawn; see the data set's official page",
}


@dataclass(frozen=True)
class Fetched:
    """What a fetch left behind; not `fresh` where the set was there already, `raw` where only its raw files are."""

    folder: Path
    fresh: bool
    raw: bool


def fetch(
    source: DataSource | str, *, accept_licence: bool = False, force: bool = False, progress: Progress | None = None
) -> Fetched:
    """Download a data set into the user's cache and unpack it there, all of it or nothing.

    A set that is present already is left alone, unless by `force`. A set that may not be downloaded by a program raises
    DownloadError with the steps to place it by hand.
    """
    source = catalogue.get(source) if isinstance(source, str) else source
    if not force and (found := _present(source)):
        return found
    if source.gated:
        raise DownloadError(_by_hand(source))
    if source.acceptance and not accept_licence:
        raise UsageError(
            f"{source.key} comes under a licence to be accepted first: {source.licence} ({source.homepage}). "
            "If you accept it, fetch with --accept-licence (accept_licence=True)."
        )
    place = catalogue.cache_folder() / "data" / source.key / source.into
    arrivals = catalogue.cache_folder() / "downloads" / source.key
    with _exclusive(arrivals) as waited:
        if waited and (found := _present(source)):
            return found
        files = [
            download(file.url, arrivals / file.name, sha256=file.sha256, size=file.size, progress=progress)
            for file in source.downloads
        ]
        with replacing_folder(place) as temporary:
            for file in files:
                unpack(file, temporary) if is_archive(file) else shutil.copy(file, temporary)
            _check_contents(source, temporary)
        shutil.rmtree(arrivals, ignore_errors=True)
    return Fetched(place if source.raw else place.parent, fresh=True, raw=source.raw)


def download(
    url: str,
    target: str | os.PathLike[str],
    *,
    sha256: str | None = None,
    size: int | None = None,
    progress: Progress | None = None,
    timeout: float = 30.0,
    attempts: int = 5,
    pause: float = 0.5,
) -> Path:
    """Download one file, resuming what an earlier try left; returns its path once it is whole and verified.

    A broken connection is tried again after `pause` seconds, doubled each time, until `attempts` in a row brought
    nothing new. Where two processes ask for the same file, the second waits for the first and takes what it brought.
    """
    target = Path(target)
    if urlsplit(url).scheme not in {"http", "https"}:
        raise UsageError(f"{url!r} is not an http or https address.")
    with _exclusive(target) as waited:
        if target.is_file() and (waited if sha256 is None else _digest(target) == sha256):
            return target
        transfer = _Transfer(url, target, size, progress, timeout)
        transfer.run(attempts, pause)
        transfer.verify(sha256)
        transfer.part.replace(target)
        transfer.note.unlink(missing_ok=True)
    return target


class _BrokenError(Exception):
    """The connection failed in a way that another try may mend; `wait` is how long the server asks us to stay away."""

    def __init__(self, reason: object, wait: float = 0.0) -> None:
        super().__init__(str(reason) or type(reason).__name__)
        self.wait = wait


class _WebOnly(HTTPRedirectHandler):
    """Follows redirects to http and https alone; urllib would go to ftp as well."""

    def http_error_302(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage) -> Any:
        address = urljoin(req.full_url, headers.get("location") or headers.get("uri") or "")
        if urlsplit(address).scheme not in {"http", "https"}:
            raise DownloadError(
                f"cannot download {req.full_url}: it leads to {address}, which is neither http nor https."
            )
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


@dataclass
class _Transfer:
    """The bytes of one remote file on their way into `target`.part."""

    url: str
    target: Path
    size: int | None
    progress: Progress | None
    timeout: float

    @property
    def part(self) -> Path:
        return self.target.with_name(self.target.name + ".part")

    @property
    def note(self) -> Path:
        return self.target.with_name(self.target.name + ".part.json")

    def run(self, attempts: int, pause: float) -> None:
        """Try until the whole file is here; give up when `attempts` in a row brought nothing new."""
        furthest, failures = self._have(), 0
        while True:
            try:
                return self._attempt()
            except _BrokenError as broken:
                failures = 0 if self._have() > furthest else failures + 1
                furthest = max(furthest, self._have())
                if failures >= attempts:
                    kept = "; what has come is kept, fetch again to resume" if self._have() and self._version() else ""
                    raise self._error(f"{broken} ({attempts} tries without progress){kept}") from broken
                time.sleep(max(pause * 2 ** max(failures - 1, 0), min(broken.wait, _LONGEST_WAIT)))

    def verify(self, sha256: str | None) -> None:
        """Refuse, and discard, a file that is not what it should be."""
        have = self._have()
        if self.size is not None and have != self.size:
            self._discard()
            raise self._error(f"the file has {have:,} bytes instead of {self.size:,}; it has been discarded")
        if sha256 is not None and (found := _digest(self.part)) != sha256:
            self._discard()
            raise self._error(
                f"the file has SHA-256 {found} instead of {sha256}; it has been discarded. Either it was damaged on "
                "its way (try again), or the publisher has changed it"
            )

    def _attempt(self) -> None:
        version = self._version()
        start = self._have() if version else 0
        try:
            with self._open(start, version) as answer:
                self._receive(answer, start if answer.status == 206 else 0)  # else: the whole file, from its beginning
        except HTTPError as error:
            with error:
                self._refused(error, start)
        except URLError as error:
            if isinstance(error.reason, ssl.SSLCertVerificationError):
                raise self._error(f"the server's certificate is not trusted ({error.reason.verify_message})") from error
            raise _BrokenError(error.reason) from error
        except (HTTPException, ConnectionError, TimeoutError, ssl.SSLError) as error:
            raise _BrokenError(error) from error

    def _open(self, start: int, version: str | None) -> HTTPResponse:
        # identity: a byte range of something compressed on the way would fit nothing that is here
        headers = {"User-Agent": "cldrank", "Accept-Encoding": "identity"}
        if start and version:
            headers |= {"Range": f"bytes={start}-", "If-Range": version}
        request = Request(self.url, headers=headers)  # noqa: S310 – http(s), as was checked
        answer: HTTPResponse = build_opener(_WebOnly).open(request, timeout=self.timeout)
        return answer

    def _receive(self, answer: HTTPResponse, start: int) -> None:
        if start and not (answer.headers.get("Content-Range") or "").startswith(f"bytes {start}-"):
            self._discard()
            raise _BrokenError("the server sent another part of the file than the one asked for")
        total = None if answer.length is None else start + answer.length
        self._check_page(answer.headers.get_content_type() == "text/html")
        if self.size is not None and total is not None and total != self.size:
            self._discard()
            raise self._error(f"the server offers {total:,} bytes instead of {self.size:,}: the file has changed there")
        self._check_room((total or self.size or 0) - start)
        if start == 0:
            self._begin(answer)
        with self.part.open("ab") as file:
            done = self._copy(answer, file, start, total)
        if total is not None and done < total:
            raise _BrokenError(f"the connection ended after {done:,} of {total:,} bytes")

    def _begin(self, answer: HTTPResponse) -> None:
        version = answer.headers.get("ETag") or ""
        if not version or version.startswith("W/"):  # a weak tag does not promise equal bytes
            version = answer.headers.get("Last-Modified") or ""
        self._discard()
        self.note.write_text(json.dumps({"url": self.url, "version": version}))

    def _copy(self, answer: HTTPResponse, file: IO[bytes], done: int, total: int | None) -> int:
        self._report(done, total)
        while chunk := answer.read1(_CHUNK):
            if done == 0:
                self._check_page(chunk.lstrip()[:14].lower().startswith((b"<!doctype html", b"<html")))
            try:
                file.write(chunk)
                file.flush()
            except OSError as error:
                raise self._error(f"{self.part} cannot be written ({error.strerror})") from error
            done += len(chunk)
            self._report(done, total)
        os.fsync(file.fileno())
        return done

    def _refused(self, error: HTTPError, start: int) -> None:
        if error.code == 416 and start:
            if error.headers.get("Content-Range") == f"bytes */{start}":
                return  # all of it was here already
            self._discard()
            raise _BrokenError("the remote file is shorter than what was here of it") from error
        if error.code in _PASSING:
            wish = error.headers.get("Retry-After") or ""
            raise _BrokenError(f"HTTP {error.code} {error.reason}", float(wish) if wish.isdigit() else 0.0) from error
        advice = _ADVICE.get(error.code, "see the data set's official page")
        raise self._error(f"HTTP {error.code} {error.reason}: {advice}") from error

    def _check_page(self, is_page: bool) -> None:
        if is_page and self.target.suffix not in {".html", ".htm"}:
            self._discard()
            raise self._error(
                "the server answered with a web page instead of the file, probably to log in or to accept a licence; "
                "open the address in a browser and download the file by hand"
            )

    def _check_room(self, needed: int) -> None:
        free = shutil.disk_usage(self.target.parent).free
        if needed > free:
            raise self._error(f"{needed:,} bytes are to come, but {self.target.parent} has room for {free:,} only")

    def _version(self) -> str | None:
        """Which version of the remote file the bytes in the part belong to; None where they must not be continued."""
        try:
            note = json.loads(self.note.read_text())
            return str(note["version"]) or None if note["url"] == self.url else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _have(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _discard(self) -> None:
        self.part.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)

    def _report(self, done: int, total: int | None) -> None:
        if self.progress is not None:
            self.progress(self.target.name, done, total if total is not None else self.size)

    def _error(self, reason: str) -> DownloadError:
        return DownloadError(f"cannot download {self.url}: {reason}.")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_contents(source: DataSource, folder: Path) -> None:
    if not source.raw and not source.holds_all(folder):
        raise DownloadError(
            f"the archive of {source.key} does not hold the files of {', '.join(source.splits)}; the publisher may "
            f"have changed it, see {source.homepage}."
        )


def _present(source: DataSource) -> Fetched | None:
    ready, raw = source.find(), source.find_raw()
    found = ready or raw
    return None if found is None else Fetched(found, fresh=False, raw=ready is None)


def _by_hand(source: DataSource) -> str:
    steps = "\n".join(f"  {number}. {step}" for number, step in enumerate(source.steps, start=1))
    return f"{source.key} cannot be fetched by a program ({source.licence}). To place it by hand:\n{steps}"


@contextmanager
def _exclusive(target: Path) -> Iterator[bool]:
    """Hold the lock of a target, which also makes its folder; yields whether another process held it before us."""
    path = target.with_name(f".{target.name}.lock")
    waited = False
    while True:
        with _open_lock(path) as lock:
            while not _try_lock(lock):
                waited = True
                time.sleep(0.05)
            try:
                if not _is_at(lock, path):
                    continue  # the holder before us has removed this file; others may lock its successor
                try:
                    yield waited
                finally:
                    with suppress(OSError):  # Windows does not remove an open file
                        path.unlink()
                return
            finally:
                _unlock(lock)


def _is_at(lock: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(lock.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _open_lock(path: Path) -> IO[str]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a")
    except OSError as error:
        raise DownloadError(
            f"cannot write in {path.parent} ({error.strerror}); name another cache folder in CLDRANK_CACHE."
        ) from error


if sys.platform == "win32":
    import msvcrt

    def _try_lock(lock: IO[str]) -> bool:
        try:
            msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(lock: IO[str]) -> None:
        msvcrt.locking(lock.fileno(), msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _try_lock(lock: IO[str]) -> bool:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(lock: IO[str]) -> None:
        fcntl.flock(lock, fcntl.LOCK_UN)
