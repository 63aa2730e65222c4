from __future__ import annotations

import hashlib
import io
import re
import shutil
import stat
import tarfile
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cldrank.data import archives, catalogue, download
from cldrank.data.catalogue import DataSource, RemoteFile
from cldrank.errors import CldrankError, DownloadError, UsageError

BODY = bytes(range(256)) * 2000  # larger than one chunk, and every place in it differs from its neighbours


@dataclass
class Remote:
    """A remote file and the moods of the server that has it."""

    address: str = ""
    body: bytes = BODY
    headers: dict[str, str] = field(default_factory=lambda: {"ETag": '"one"'})
    ranges: bool = True
    shifted_ranges: bool = False
    statuses: list[int] = field(default_factory=list)  # answered first, one a request
    drops: list[int] = field(default_factory=list)  # bytes sent before the connection ends, one a request
    delay: float = 0.0
    requests: list[dict[str, str]] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)  # bytes that each answer was to bring
    redirect: str = ""  # answered instead of the file

    def url(self, name: str = "file.bin") -> str:
        return f"{self.address}/{name}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        remote: Remote = self.server.remote  # type: ignore[attr-defined]
        remote.requests.append(dict(self.headers))
        if remote.statuses:
            self.send_response(remote.statuses.pop(0))
            for key, value in remote.headers.items():
                self.send_header(key, value)
            self.end_headers()
            return
        start, total = self._start(remote), len(remote.body)
        if start >= total > 0:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{total}")
            self.end_headers()
            return
        if remote.redirect:
            self.send_response(302)
            self.send_header("Location", remote.redirect)
            self.end_headers()
            return
        remote.lengths.append(total - start)
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start + remote.shifted_ranges}-{total - 1}/{total}")
        self.send_header("Content-Length", str(total - start))
        for key, value in remote.headers.items():
            self.send_header(key, value)
        self.end_headers()
        time.sleep(remote.delay)
        content = remote.body[start:]
        if remote.drops:
            content = content[: remote.drops.pop(0)]
        with suppress(ConnectionError):
            self.wfile.write(content)

    def _start(self, remote: Remote) -> int:
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        current = {remote.headers.get("ETag"), remote.headers.get("Last-Modified")}
        if not wanted or not remote.ranges or self.headers.get("If-Range") not in current:
            return 0
        return int(wanted[1])

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
    return new_remote(server)


def new_remote(server: ThreadingHTTPServer) -> Remote:
    remote = Remote(f"http://127.0.0.1:{server.server_port}")
    server.remote = remote  # type: ignore[attr-defined]
    return remote


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def get(remote: Remote, target: Path, **options: Any) -> Path:
    return download.download(remote.url(), target, **{"pause": 0.0, "attempts": 3, **options})


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# -- one file ----------------------------------------------------------------------------------------------------------


def test_whole_file_and_nothing_beside_it(remote: Remote, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    target = get(
        remote,
        tmp_path / "deep" / "file.bin",
        sha256=sha256(BODY),
        size=len(BODY),
        progress=lambda *told: seen.append(told),
    )
    assert target.read_bytes() == BODY
    assert names(target.parent) == {"file.bin"}
    done = [count for _, count, _ in seen]
    assert done == sorted(done)
    assert seen[0] == ("file.bin", 0, len(BODY))
    assert seen[-1] == ("file.bin", len(BODY), len(BODY))


def test_a_file_that_is_here_and_right_is_not_fetched_again(remote: Remote, tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_bytes(BODY)
    get(remote, tmp_path / "file.bin", sha256=sha256(BODY))
    assert remote.requests == []


def test_a_file_that_is_here_and_wrong_is_replaced(remote: Remote, tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_bytes(b"old")
    get(remote, tmp_path / "file.bin", sha256=sha256(BODY))
    assert (tmp_path / "file.bin").read_bytes() == BODY


def test_interruption_keeps_the_part_and_the_next_call_asks_for_the_rest_only(remote: Remote, tmp_path: Path) -> None:
    target = tmp_path / "file.bin"

    def interrupt(_: str, done: int, total: int | None) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get(remote, target, progress=interrupt)
    part = (tmp_path / "file.bin.part").read_bytes()
    assert not target.exists()
    assert 0 < len(part) < len(BODY)
    assert BODY.startswith(part)

    get(remote, target, sha256=sha256(BODY))
    assert target.read_bytes() == BODY
    assert remote.lengths == [len(BODY), len(BODY) - len(part)]
    assert remote.requests[-1]["Range"] == f"bytes={len(part)}-"
    assert remote.requests[-1]["If-Range"] == '"one"'
    assert names(tmp_path) == {"file.bin"}


@pytest.mark.parametrize("address", ["ftp://127.0.0.1/file.bin", "file:///etc/passwd", "data:text/plain,x"])
def test_a_redirect_to_another_protocol_is_not_followed(remote: Remote, tmp_path: Path, address: str) -> None:
    remote.redirect = address
    with pytest.raises(DownloadError, match=f"it leads to {address}, which is neither http nor https"):
        get(remote, tmp_path / "file.bin")
    assert names(tmp_path) == set()


def test_a_redirect_within_the_web_is_followed(server: ThreadingHTTPServer, remote: Remote, tmp_path: Path) -> None:
    other = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    other.remote = Remote(body=b"moved")  # type: ignore[attr-defined]
    with other:
        threading.Thread(target=other.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        remote.redirect = f"http://127.0.0.1:{other.server_port}/moved.bin"
        assert get(remote, tmp_path / "file.bin").read_bytes() == b"moved"
        other.shutdown()


@settings(max_examples=30, deadline=None)
@given(drops=st.lists(st.integers(0, len(BODY)), max_size=6), ranges=st.booleans(), tagged=st.booleans())
def test_however_often_the_connection_drops_the_result_is_the_whole(
    server: ThreadingHTTPServer, drops: list[int], ranges: bool, tagged: bool
) -> None:
    remote = new_remote(server)
    remote.drops, remote.ranges, remote.headers = drops, ranges, {"ETag": '"one"'} if tagged else {}
    with tempfile.TemporaryDirectory() as folder:
        target = get(remote, Path(folder) / "file.bin", attempts=8)
        assert target.read_bytes() == BODY
        assert names(target.parent) == {"file.bin"}


def test_a_bad_line_that_makes_progress_is_never_given_up(remote: Remote, tmp_path: Path) -> None:
    remote.drops = [50_000] * 10
    assert get(remote, tmp_path / "file.bin", attempts=1).read_bytes() == BODY


@pytest.mark.parametrize("changed", ["ETag", "Last-Modified"])
def test_a_remote_file_that_changed_restarts_instead_of_mixing(remote: Remote, tmp_path: Path, changed: str) -> None:
    remote.headers, remote.drops = {changed: "Mon, 01 Jan 2024 00:00:00 GMT"}, [100_000, 0, 0, 0]
    with pytest.raises(DownloadError, match="what has come is kept"):
        get(remote, tmp_path / "file.bin")
    remote.body, remote.headers = BODY[::-1], {changed: "Tue, 02 Jan 2024 00:00:00 GMT"}
    remote.requests.clear()
    get(remote, tmp_path / "file.bin")
    assert (tmp_path / "file.bin").read_bytes() == BODY[::-1]
    assert len(remote.requests) == 1


@pytest.mark.parametrize("headers", [{}, {"ETag": 'W/"weak"'}])
def test_without_a_firm_version_nothing_is_resumed(remote: Remote, tmp_path: Path, headers: dict[str, str]) -> None:
    remote.headers, remote.drops = headers, [100_000]
    get(remote, tmp_path / "file.bin")
    assert (tmp_path / "file.bin").read_bytes() == BODY
    assert all("Range" not in request for request in remote.requests)


def test_a_weak_tag_gives_way_to_the_date(remote: Remote, tmp_path: Path) -> None:
    date = "Mon, 01 Jan 2024 00:00:00 GMT"
    remote.headers, remote.drops = {"ETag": 'W/"weak"', "Last-Modified": date}, [100_000]
    get(remote, tmp_path / "file.bin")
    assert remote.requests[1]["If-Range"] == date
    assert (tmp_path / "file.bin").read_bytes() == BODY


def test_a_part_of_another_address_is_not_continued(remote: Remote, tmp_path: Path) -> None:
    remote.drops = [100_000, 0, 0, 0]
    with pytest.raises(DownloadError):
        get(remote, tmp_path / "file.bin")
    download.download(remote.url("other.bin"), tmp_path / "file.bin", pause=0)
    assert "Range" not in remote.requests[-1]


def test_a_server_that_sends_another_range_is_not_believed(remote: Remote, tmp_path: Path) -> None:
    remote.drops, remote.shifted_ranges = [100_000], True
    get(remote, tmp_path / "file.bin")
    assert (tmp_path / "file.bin").read_bytes() == BODY


def test_a_part_that_was_whole_already_needs_only_its_name(remote: Remote, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(BODY)
    (tmp_path / "file.bin.part.json").write_text(f'{{"url": "{remote.url()}", "version": "\\"one\\""}}')
    get(remote, tmp_path / "file.bin", sha256=sha256(BODY))
    assert remote.lengths == []
    assert names(tmp_path) == {"file.bin"}


def test_a_part_longer_than_the_file_starts_over(remote: Remote, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(BODY + b"more")
    (tmp_path / "file.bin.part.json").write_text(f'{{"url": "{remote.url()}", "version": "\\"one\\""}}')
    get(remote, tmp_path / "file.bin")
    assert (tmp_path / "file.bin").read_bytes() == BODY


def test_a_damaged_note_starts_over(remote: Remote, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(b"who knows")
    (tmp_path / "file.bin.part.json").write_text("{")
    get(remote, tmp_path / "file.bin")
    assert (tmp_path / "file.bin").read_bytes() == BODY


# -- servers that fail -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_passing_failure_is_tried_again(remote: Remote, tmp_path: Path, status: int) -> None:
    remote.statuses = [status, status]
    assert get(remote, tmp_path / "file.bin").read_bytes() == BODY
    assert len(remote.requests) == 3


def test_waiting_doubles_and_heeds_the_server(remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    remote.statuses = [503] * 4
    get(remote, tmp_path / "one.bin", pause=1.0, attempts=5)
    remote.statuses, remote.headers = [503, 503], {"Retry-After": "7"}
    get(remote, tmp_path / "two.bin", pause=1.0, attempts=5)
    assert [wait for wait in waits if wait > 0.1] == [1, 2, 4, 8, 7, 7]


@pytest.mark.parametrize(("status", "advice"), [(404, "nothing is at this address"), (403, "by hand"), (401, "login")])
def test_a_final_refusal_names_address_status_and_remedy(
    remote: Remote, tmp_path: Path, status: int, advice: str
) -> None:
    remote.statuses = [status]
    with pytest.raises(DownloadError, match=f"{remote.url()}: HTTP {status} .*{advice}"):
        get(remote, tmp_path / "file.bin")
    assert len(remote.requests) == 1
    assert names(tmp_path) == set()


def test_giving_up_keeps_what_has_come(remote: Remote, tmp_path: Path) -> None:
    remote.drops = [100_000, 0, 0, 0]
    with pytest.raises(DownloadError, match=r"ended after 100,000 of 512,000 bytes \(3 tries .*kept"):
        get(remote, tmp_path / "file.bin")
    assert names(tmp_path) == {"file.bin.part", "file.bin.part.json"}
    assert (tmp_path / "file.bin.part").read_bytes() == BODY[:100_000]


def test_a_silent_server_times_out(remote: Remote, tmp_path: Path) -> None:
    remote.delay = 0.5
    with pytest.raises(DownloadError, match="timed out"):
        get(remote, tmp_path / "file.bin", timeout=0.05, attempts=2)


def test_nobody_listening(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"127\.0\.0\.1:9/.*refused"):
        download.download("http://127.0.0.1:9/file.bin", tmp_path / "file.bin", attempts=2, pause=0)


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://example.org/x", "movies.csv"])
def test_only_http(tmp_path: Path, address: str) -> None:
    with pytest.raises(UsageError, match="not an http or https address"):
        download.download(address, tmp_path / "x")


# -- files that are not what they should be ----------------------------------------------------------------------------


def test_a_wrong_hash_discards_the_part_and_spares_the_old_file(remote: Remote, tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_bytes(b"old")
    with pytest.raises(DownloadError, match=f"SHA-256 {sha256(BODY)} instead of {'0' * 64}; it has been discarded"):
        get(remote, tmp_path / "file.bin", sha256="0" * 64)
    assert names(tmp_path) == {"file.bin"}
    assert (tmp_path / "file.bin").read_bytes() == b"old"


def test_a_wrong_size_is_refused_before_anything_comes(remote: Remote, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="offers 512,000 bytes instead of 7"):
        get(remote, tmp_path / "file.bin", size=7)
    assert names(tmp_path) == set()


@pytest.mark.parametrize(
    ("kind", "start"),
    [("text/html; charset=utf-8", b"hello"), ("application/zip", b"\n<!DOCTYPE html><title>Log in"), ("", b"<html>")],
)
def test_a_login_page_is_no_archive(remote: Remote, tmp_path: Path, kind: str, start: bytes) -> None:
    remote.body, remote.headers = start + bytes(1000), {"Content-Type": kind} if kind else {}
    with pytest.raises(DownloadError, match=r"web page instead of the file.*by hand"):
        get(remote, tmp_path / "file.zip")
    assert names(tmp_path) == set()


def test_no_room_on_the_disk(remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))
    with pytest.raises(DownloadError, match=r"512,000 bytes are to come, but .* has room for 1 only"):
        get(remote, tmp_path / "file.bin")


def test_a_folder_that_cannot_be_written(remote: Remote, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, not a folder")
    with pytest.raises(DownloadError, match=r"cannot write in .*CLDRANK_CACHE"):
        get(remote, tmp_path / "taken" / "file.bin")


def test_two_at_once_fetch_it_once(remote: Remote, tmp_path: Path) -> None:
    remote.delay = 0.2
    found: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: found.append(get(remote, tmp_path / "file.bin").read_bytes())) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [BODY] * 4
    assert len(remote.requests) == 1
    assert names(tmp_path) == {"file.bin"}


# -- archives ----------------------------------------------------------------------------------------------------------


def tar(files: dict[str, bytes], kind: str = "gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=f"w:{kind}") as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def zipped(files: dict[str, bytes], mode: int = 0) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            member = zipfile.ZipInfo(name)
            member.external_attr = mode << 16
            archive.writestr(member, content)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.tar.gz", tar({"in/x.txt": b"x"})), ("a.zip", zipped({"in/x.txt": b"x"}))],
    ids=["tar", "zip"],
)
def test_unpacking(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    archives.unpack(tmp_path / name, tmp_path / "out")
    assert (tmp_path / "out" / "in" / "x.txt").read_bytes() == b"x"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("up.tar.gz", tar({"../escaped.txt": b"x"})),
        ("up.zip", zipped({"../escaped.txt": b"x"})),
        ("back.zip", zipped({"..\\escaped.txt": b"x"})),
        ("root.zip", zipped({"/escaped.txt": b"x"})),
        ("drive.zip", zipped({"C:/escaped.txt": b"x"})),
        ("link.zip", zipped({"link": b"../../escaped.txt"}, stat.S_IFLNK | 0o777)),
        ("cut.tar.gz", tar({"x.txt": BODY})[:-300]),
        ("no.zip", b"PK but no more"),
    ],
)
def test_archives_that_are_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    folder = tmp_path / "a" / "out"
    folder.mkdir(parents=True)
    with pytest.raises(DownloadError, match=f"{name} cannot be unpacked"):
        archives.unpack(tmp_path / name, folder)
    assert not list(tmp_path.rglob("escaped.txt"))


def bomb(kind: str, size: int) -> bytes:
    """An archive of one file of zeros."""
    buffer = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("zeros.txt", bytes(size))
        return buffer.getvalue()
    return tar({"zeros.txt": bytes(size)})


@pytest.mark.parametrize("name", ["bomb.zip", "bomb.tar.gz"])
def test_an_archive_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "_SMALL", 1 << 20)
    (tmp_path / name).write_bytes(bomb(name.partition(".")[2], 2 << 20))
    (tmp_path / "out").mkdir()
    with pytest.raises(DownloadError, match=rf"{name} cannot be unpacked: .*2,097,152 bytes, more than 100 times"):
        archives.unpack(tmp_path / name, tmp_path / "out")
    assert names(tmp_path / "out") == set()
    monkeypatch.setattr(archives, "_SMALL", 4 << 20)
    archives.unpack(tmp_path / name, tmp_path / "out")
    assert (tmp_path / "out" / "zeros.txt").stat().st_size == 2 << 20


@pytest.mark.parametrize("name", ["full.zip", "full.tar.gz"])
def test_an_archive_without_room_for_it_is_refused(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / name).write_bytes(bomb(name.partition(".")[2], 2 << 20))
    (tmp_path / "out").mkdir()
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1 << 20))
    with pytest.raises(DownloadError, match=r"cannot be unpacked: .* has room for 1,048,576 only"):
        archives.unpack(tmp_path / name, tmp_path / "out")
    assert names(tmp_path / "out") == set()


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_very_many_empty_files_take_room_too(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "_SMALL", 1 << 20)
    monkeypatch.setattr(archives, "_TIMES", 1)
    empty = {f"{number}.txt": b"" for number in range(400)}
    (tmp_path / f"many.{kind}").write_bytes(zipped(empty) if kind == "zip" else tar(empty))
    with pytest.raises(DownloadError, match="cannot be unpacked"):
        archives.unpack(tmp_path / f"many.{kind}", tmp_path / "out")


# -- whole data sets ---------------------------------------------------------------------------------------------------

ISTELLA = {f"sample/{split}.txt": split.encode() for split in ("train", "vali", "test")}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("CLDRANK_DATA", raising=False)
    monkeypatch.setenv("CLDRANK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def istella(remote: Remote, body: bytes) -> DataSource:
    remote.body = body
    file = RemoteFile(remote.url("istella-s-letor.tar.gz"), len(body), sha256(body))
    return replace(catalogue.get("istella-s"), downloads=(file,))


@pytest.mark.parametrize("prefix", ["", "istella-s-letor/"])
def test_fetching_unpacks_and_the_second_time_does_nothing(remote: Remote, cache: Path, prefix: str) -> None:
    source = istella(remote, tar({prefix + name: content for name, content in ISTELLA.items()}))
    fetched = download.fetch(source, accept_licence=True)
    assert fetched == download.Fetched(cache / "data" / "istella-s", fresh=True, raw=False)
    assert source.available() == ["istella-s:train", "istella-s:vali", "istella-s:test"]
    assert source.files("vali")[0].read_bytes() == b"vali"
    assert [path.name for path in cache.rglob("*letor.tar.gz*")] == []
    assert [path.name for path in cache.rglob(".*")] == []

    again = download.fetch(source, accept_licence=True)
    assert again == replace(fetched, fresh=False)
    assert len(remote.requests) == 1
    assert download.fetch(source, accept_licence=True, force=True).fresh
    assert len(remote.requests) == 2


def test_a_licence_must_be_accepted(remote: Remote, cache: Path) -> None:
    with pytest.raises(UsageError, match=r"istella-s comes under a licence.*non-commercial.*--accept-licence"):
        download.fetch(istella(remote, b""))
    assert remote.requests == []


def test_an_archive_with_other_files_leaves_nothing_behind(remote: Remote, cache: Path) -> None:
    source = istella(remote, tar({"sample/train.txt": b"train"}))
    with pytest.raises(DownloadError, match="does not hold the files of train, vali, test"):
        download.fetch(source, accept_licence=True)
    assert source.find() is None
    assert not list((cache / "data").rglob("*.txt"))


def test_an_interrupted_fetch_resumes(remote: Remote, cache: Path) -> None:
    source = istella(remote, tar(ISTELLA | {"filler": BODY}, kind=""))

    def interrupt(_: str, done: int, total: int | None) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download.fetch(source, accept_licence=True, progress=interrupt)
    assert source.find() is None
    assert download.fetch(source, accept_licence=True).fresh
    assert "Range" in remote.requests[-1]


@pytest.mark.parametrize("name", [name for name in catalogue.names() if catalogue.get(name).gated])
def test_gated_sets_tell_how_to_place_them(cache: Path, name: str) -> None:
    source = catalogue.get(name)
    with pytest.raises(DownloadError) as caught:
        download.fetch(name)
    assert all(step in str(caught.value) for step in source.instructions)
    assert str(cache / "data" / name) in str(caught.value)


def test_raw_sets_come_beside_what_is_there(remote: Remote, cache: Path) -> None:
    files = (RemoteFile(remote.url("movies.csv.gz")), RemoteFile(remote.url("queries.csv.gz")))
    source = replace(catalogue.get("msrd"), downloads=files)
    notes = cache / "data" / "msrd" / "notes.txt"
    notes.parent.mkdir(parents=True)
    notes.write_text("mine")
    fetched = download.fetch(source)
    assert fetched == download.Fetched(cache / "data" / "msrd" / "raw", fresh=True, raw=True)
    assert names(fetched.folder) == {"movies.csv.gz", "queries.csv.gz"}
    assert source.find_raw() == fetched.folder
    assert source.find() is None
    assert notes.read_text() == "mine"
    assert download.fetch(source) == replace(fetched, fresh=False)


def test_unknown_names_are_refused(cache: Path) -> None:
    with pytest.raises(CldrankError, match="did you mean mq2008"):
        download.fetch("mq208")
