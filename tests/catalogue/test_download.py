from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cldrank import catalogue
from cldrank.catalogue import DataSource, RemoteFile
from cldrank.errors import CldrankError, DownloadError, UsageError

BODY = bytes(range(256)) * 2000  # larger than one chunk


@dataclass
class Remote:
    """A remote file and how its server behaves."""

    address: str = ""
    body: bytes = BODY
    statuses: list[int] = field(default_factory=list)  # answered first, one per request
    drops: list[int] = field(default_factory=list)  # bytes sent before the connection ends, one per request
    delay: float = 0.0
    redirect: str = ""  # answered instead of the file
    requests: list[str] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        remote: Remote = self.server.remote  # type: ignore[attr-defined]
        remote.requests.append(self.path)
        status = remote.statuses.pop(0) if remote.statuses else 302 if remote.redirect else 200
        self.send_response(status)
        if status == 302:
            self.send_header("Location", remote.redirect)
        self.send_header("Content-Length", str(len(remote.body)) if status == 200 else "0")
        self.end_headers()
        if status != 200:
            return
        time.sleep(remote.delay)
        with suppress(ConnectionError):
            self.wfile.write(remote.body[: remote.drops.pop(0)] if remote.drops else remote.body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def remote(server: ThreadingHTTPServer) -> Remote:
    remote = Remote(f"http://127.0.0.1:{server.server_port}")
    server.remote = remote  # type: ignore[attr-defined]
    return remote


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("CLDRANK_DATA", raising=False)
    monkeypatch.setenv("CLDRANK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("pooch.core.time", SimpleNamespace(sleep=lambda _: None))  # between tries
    return tmp_path / "cache"


def tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


ISTELLA = {f"sample/{split}.txt": split.encode() for split in ("train", "vali", "test")}
ARCHIVE = tar({**ISTELLA, "filler": hashlib.shake_256(b"").digest(600_000)})  # does not shrink: larger than two chunks


def remote_file(remote: Remote, name: str, body: bytes) -> RemoteFile:
    return RemoteFile(f"{remote.address}/{name}", len(body), hashlib.sha256(body).hexdigest())


def istella(remote: Remote, body: bytes = ARCHIVE) -> DataSource:
    """A set of one archive, which the server has."""
    remote.body = body
    return replace(catalogue.get("istella-s"), downloads=(remote_file(remote, "istella-s-letor.tar.gz", body),))


def fetch(source: DataSource) -> Path:
    return catalogue.fetch(source, accept_licence=True)


def left_in(folder: Path) -> list[str]:
    """The files below a folder, hidden ones included."""
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


# -- what comes of it --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "istella-s-letor/"])
def test_fetching_unpacks_and_the_second_time_does_nothing(remote: Remote, cache: Path, prefix: str) -> None:
    source = istella(remote, tar({prefix + name: content for name, content in ISTELLA.items()}))
    folder = fetch(source)
    assert folder == cache / "data" / "istella-s"
    assert source.present_in(folder) == ["istella-s:train", "istella-s:vali", "istella-s:test"]
    assert source.files("vali")[0].read_bytes() == b"vali"
    assert left_in(cache) == ["test.txt", "train.txt", "vali.txt"]

    assert fetch(source) == folder
    assert len(remote.requests) == 1


EVENTS = gzip.compress(
    b"""{"event": "item", "item": "7", "timestamp": "1636907100000", "fields": [{"name": "title", "value": "Heat"}]}
{"event": "ranking", "id": "r", "timestamp": "1636993834000", "user": "u", "items": [{"id": "7"}, {"id": "9"}]}
{"event": "interaction", "ranking": "r", "item": "9", "type": "click", "timestamp": "1636993839000", "user": "u"}"""
)


def ranklens(remote: Remote, body: bytes = EVENTS) -> DataSource:
    """A set that is made from what the server has."""
    remote.body = body
    return replace(catalogue.get("ranklens"), downloads=(remote_file(remote, "events.jsonl.gz", body),))


def test_a_set_that_must_be_made_is_not_fetched(remote: Remote, cache: Path) -> None:
    with pytest.raises(DownloadError, match=r"python tools/prepare\.py ranklens"):
        catalogue.fetch(ranklens(remote))
    assert not remote.requests


def test_downloads_are_removed_after_use_and_kept_for_the_next_try(remote: Remote, cache: Path) -> None:
    source = ranklens(remote)
    with pytest.raises(ZeroDivisionError), catalogue.downloaded(source):
        _ = 1 / 0
    with catalogue.downloaded(source) as (events,):
        assert events.read_bytes() == EVENTS
    assert not events.exists()
    assert len(remote.requests) == 1


def test_an_interrupted_download_keeps_what_is_whole(remote: Remote, cache: Path) -> None:
    """The next call downloads only the files that were not finished."""
    source = istella(remote)
    (archive,) = source.downloads
    second = replace(archive, url=archive.url.replace("letor", "more"))
    both, remote.drops = replace(source, downloads=(archive, second)), [len(ARCHIVE), 0, 0, 0, 0]
    with pytest.raises(DownloadError, match="more"):
        fetch(both)
    assert left_in(cache) == [archive.name]
    remote.requests.clear()
    assert fetch(both)
    assert remote.requests == [f"/{second.name}"]


def test_two_at_once_download_it_once(remote: Remote) -> None:
    source, remote.delay = istella(remote), 0.2
    folders: list[Path] = []
    threads = [threading.Thread(target=lambda: folders.append(fetch(source))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(folders) == 4
    assert len(remote.requests) == 1


def test_a_file_placed_by_hand_is_verified_and_unpacked(remote: Remote, cache: Path) -> None:
    source = istella(remote)
    placed = cache / "downloads" / "istella-s" / "istella-s-letor.tar.gz"
    placed.parent.mkdir(parents=True)
    placed.write_bytes(ARCHIVE)
    assert fetch(source)
    assert remote.requests == []


def test_another_file_placed_by_hand_is_downloaded_instead(remote: Remote, cache: Path) -> None:
    source = istella(remote)
    placed = cache / "downloads" / "istella-s" / "istella-s-letor.tar.gz"
    placed.parent.mkdir(parents=True)
    placed.write_bytes(b"something else")
    assert fetch(source)
    assert len(remote.requests) == 1


# -- failures ----------------------------------------------------------------------------------------------------------


def test_what_a_killed_download_left_is_removed(remote: Remote, cache: Path) -> None:
    (cache / "downloads" / "istella-s").mkdir(parents=True)
    (cache / "downloads" / "istella-s" / "tmpabcdefgh").write_bytes(BODY)
    fetch(istella(remote))
    assert "tmpabcdefgh" not in left_in(cache)


@pytest.mark.parametrize("trouble", [{"statuses": [500, 503, 429]}, {"drops": [0, 100_000, 1]}])
def test_a_passing_failure_is_tried_again(remote: Remote, trouble: dict[str, list[int]]) -> None:
    source = istella(remote)
    vars(remote).update(trouble)
    assert fetch(source)
    assert len(remote.requests) == 4


@pytest.mark.parametrize(
    ("trouble", "message", "requests"),
    [
        ({"statuses": [503] * 4}, "503", 4),
        ({"drops": [100_000] * 4}, "", 4),
        ({"body": b"<html>Log in"}, "SHA-256 is not the one on record", 4),
        ({"redirect": "ftp://127.0.0.1/file.bin"}, "ftp://127.0.0.1/file.bin", 4),
        ({"redirect": "file:///etc/passwd"}, "file:///etc/passwd", 4),
    ],
)
def test_a_failure_names_address_reason_and_remedy(
    remote: Remote, cache: Path, trouble: dict[str, Any], message: str, requests: int
) -> None:
    source = istella(remote)
    vars(remote).update(trouble)
    with pytest.raises(DownloadError) as caught:
        fetch(source)
    (file,) = source.downloads
    for words in (f"cannot download {file.url}: ", message, "by hand", str(cache / "downloads" / "istella-s")):
        assert words in str(caught.value)
    assert len(remote.requests) == requests
    assert left_in(cache) == []


def test_a_silent_server(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "_TIMEOUT", 0.05)
    source, remote.delay = istella(remote), 0.3
    with pytest.raises(DownloadError, match="cannot download"):
        fetch(source)


def test_no_network() -> None:
    file = RemoteFile("http://127.0.0.1:9/istella-s-letor.tar.gz", 1, "0" * 64)
    with pytest.raises(DownloadError, match=r"127\.0\.0\.1:9/.*fetch again"):
        fetch(replace(catalogue.get("istella-s"), downloads=(file,)))


def test_a_redirect_within_the_web_is_followed(remote: Remote) -> None:
    source = istella(remote)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as other:
        other.remote = Remote(body=ARCHIVE)  # type: ignore[attr-defined]
        threading.Thread(target=other.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        remote.redirect = f"http://127.0.0.1:{other.server_port}/moved.bin"
        assert fetch(source)
        other.shutdown()


def test_a_cache_that_cannot_be_written(remote: Remote, cache: Path) -> None:
    cache.write_text("a file, not a folder")
    with pytest.raises(CldrankError, match="cannot be made"):
        fetch(istella(remote))


def test_an_archive_with_other_files_leaves_nothing_behind(remote: Remote, cache: Path) -> None:
    source = istella(remote, tar({"sample/train.txt": b"train"}))
    with pytest.raises(DownloadError, match="does not hold the files of train, vali, test"):
        fetch(source)
    assert source.find() is None
    assert not list((cache / "data").rglob("*.txt"))


# -- what may not be fetched -------------------------------------------------------------------------------------------


def test_a_licence_must_be_accepted(remote: Remote) -> None:
    with pytest.raises(UsageError, match=r"istella-s has a licence.*non-commercial.*accept_licence=True"):
        catalogue.fetch(istella(remote))
    assert remote.requests == []


@pytest.mark.parametrize("name", [name for name in catalogue.names() if catalogue.get(name).gated])
def test_gated_sets_say_how_to_place_them(cache: Path, name: str) -> None:
    source = catalogue.get(name)
    with pytest.raises(DownloadError) as caught:
        catalogue.fetch(name)
    assert all(step in str(caught.value) for step in source.instructions)
    assert str(cache / "data" / name) in str(caught.value)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(CldrankError, match="Did you mean mq2008"):
        catalogue.fetch("mq208")
