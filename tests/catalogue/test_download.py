from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cldrank import catalogue
from cldrank.catalogue import DataSource, RemoteFile
from cldrank.errors import DownloadError, UsageError

BODY = bytes(range(256)) * 2000  # larger than one chunk


@dataclass
class Remote:
    """A remote file and how its server behaves."""

    address: str = ""
    body: bytes = BODY
    statuses: list[int] = field(default_factory=list)  # answered first, one per request
    drops: list[int] = field(default_factory=list)  # bytes sent before the connection ends, one per request
    hold: threading.Event | None = None  # the file is sent once this is set
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
        if remote.hold is not None:
            remote.hold.wait(60)
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


def test_a_set_that_must_be_made_is_not_fetched(remote: Remote) -> None:
    source = replace(catalogue.get("ranklens"), downloads=(remote_file(remote, "events.jsonl.gz", BODY),))
    with pytest.raises(DownloadError, match=r"python tools/prepare\.py ranklens"):
        catalogue.fetch(source)
    assert not remote.requests


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
    source, remote.hold = istella(remote), threading.Event()
    with ThreadPoolExecutor(4) as pool:
        folders = [pool.submit(fetch, source) for _ in range(4)]
        remote.hold.set()
        assert len({folder.result() for folder in folders}) == 1
    assert len(remote.requests) == 1


def test_a_file_placed_by_hand_is_verified_and_unpacked(remote: Remote, cache: Path) -> None:
    source = istella(remote)
    placed = cache / "downloads" / "istella-s" / "istella-s-letor.tar.gz"
    placed.parent.mkdir(parents=True)
    placed.write_bytes(ARCHIVE)
    (placed.parent / "tmpabcdefgh").write_bytes(BODY)  # of a download that was killed
    assert fetch(source)
    assert remote.requests == []
    assert "tmpabcdefgh" not in left_in(cache)


# -- failures ----------------------------------------------------------------------------------------------------------


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
        ({"body": b"<html>Log in"}, "SHA-256", 4),
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


def test_gated_sets_say_how_to_place_them(cache: Path) -> None:
    for source in (source for source in map(catalogue.get, catalogue.names()) if source.gated):
        with pytest.raises(DownloadError) as caught:
            catalogue.fetch(source)
        assert all(step in str(caught.value) for step in (*source.instructions, str(cache / "data" / source.key)))
