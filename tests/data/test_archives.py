from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from cldrank.data import archives
from cldrank.errors import DownloadError

BODY = bytes(range(256)) * 2000


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


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
