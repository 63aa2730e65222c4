"""Fingerprints: of all bytes of a file, remembered only while the file stays the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cldrank import fingerprints
from cldrank.fingerprints import file_fingerprint


@pytest.fixture(autouse=True)
def small_files_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLDRANK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(fingerprints, "_WORTH_REMEMBERING", 0)
    fingerprints._remembered.cache_clear()


def aged(path: Path, seconds: int) -> Path:
    os.utime(path, (seconds, seconds))
    return path


def test_one_byte_anywhere_changes_it(tmp_path: Path) -> None:
    """A corrected file of 19 MiB once passed for the old one, since only samples were read."""
    content = bytearray(19 << 20)
    path = tmp_path / "log.csv"
    path.write_bytes(content)
    before = file_fingerprint(aged(path, 1000))
    content[7_000_001] = 1
    path.write_bytes(content)
    assert file_fingerprint(aged(path, 2000)) != before


def test_a_remembered_file_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.csv"
    path.write_text("a")
    before = file_fingerprint(aged(path, 1000))
    fingerprints._remembered.cache_clear()  # as in a new process
    monkeypatch.setattr(fingerprints, "_digest", lambda _: pytest.fail("read again"))
    assert file_fingerprint(path) == before


def test_a_file_that_may_still_change_is_always_read(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("a")
    before = file_fingerprint(path)
    state = path.stat()
    path.write_text("b")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))  # the same size and time
    assert file_fingerprint(path) != before


def test_a_cache_that_cannot_be_written_only_costs_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    path = tmp_path / "log.csv"
    path.write_text("a")
    assert file_fingerprint(aged(path, 1000)) == file_fingerprint(path)
