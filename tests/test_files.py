from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from cldrank import host
from cldrank.errors import CldrankError
from cldrank.files import check_writable, holding, recover_folder, replacing, replacing_folder, scratch, sweep


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=["exchange", "two renames"])
def swap(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How a folder takes the place of another: in one step, or as on systems that cannot do it in one."""
    if request.param == "two renames":
        monkeypatch.setattr(host, "exchange", lambda *_: False)
    return str(request.param)


def save(folder: Path, text: str) -> None:
    with replacing_folder(folder) as temporary:
        (temporary / "content").write_text(text)


# -- files -----------------------------------------------------------------------------------------------------------


def test_a_block_that_fails_changes_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("before")
    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "file") as temporary:
        temporary.write_text(str(1 / 0))
    assert names(tmp_path) == ["file"]
    assert (tmp_path / "file").read_text() == "before"


def test_a_new_file_has_the_usual_permissions_and_a_replaced_one_keeps_its_own(tmp_path: Path) -> None:
    (tmp_path / "usual").write_text("")
    for before, path in ((None, tmp_path / "new"), (0o600, tmp_path / "private"), (0o664, tmp_path / "shared")):
        if before is not None:
            path.write_text("before")
            path.chmod(before)
        with replacing(path) as temporary:
            assert mode(temporary) == 0o600  # private while it is being written
            temporary.write_text("after")
        assert mode(path) == (mode(tmp_path / "usual") if before is None else before)
        assert path.read_text() == "after"


def test_a_symbolic_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to("elsewhere/file")
    for text in ("one", "two"):  # the first time the link leads to nothing yet
        with replacing(tmp_path / "link") as temporary:
            assert temporary.parent == tmp_path / "elsewhere"  # a rename cannot cross file systems
            temporary.write_text(text)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "elsewhere" / "file").read_text() == text
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(CldrankError, match="leads back to itself"), replacing(tmp_path / "loop"):
        raise AssertionError("not reached")


def test_a_pipe_receives_the_bytes_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    with replacing(pipe) as temporary:
        temporary.write_text("whole")
    reader.join(timeout=600)
    assert received == [b"whole"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_what_cannot_be_written_is_refused_beforehand(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(CldrankError, match="does not exist; create it first"):
        check_writable(tmp_path / "missing" / "file")
    with pytest.raises(CldrankError, match="is a folder"):
        check_writable(tmp_path / "folder")
    import socket

    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "socket"))
        with pytest.raises(CldrankError, match="neither a file, a pipe nor a character device"):
            check_writable(tmp_path / "socket")


# -- a full disk -----------------------------------------------------------------------------------------------------


def test_a_full_disk_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    code = f"""
import resource
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
from cldrank.errors import CldrankError
from cldrank.files import replacing
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
try:
    with replacing({str(tmp_path / "out")!r}) as temporary:
        pq.write_table(pa.table({{"a": np.random.default_rng(0).random(1 << 17)}}), temporary)
except CldrankError as error:
    print(error)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"{tmp_path / 'out'} cannot be written: " in ran.stdout, ran.stderr
    assert names(tmp_path) == []


def test_errors_about_other_files_pass_as_they_are(tmp_path: Path) -> None:
    elsewhere = OSError(errno.ENOSPC, "No space left on device", "/spill/3")
    with pytest.raises(OSError, match="/spill/3") as caught, replacing(tmp_path / "file"):
        raise elsewhere
    assert caught.value is elsewhere


# -- folders ---------------------------------------------------------------------------------------------------------


def test_a_folder_is_replaced_whole(tmp_path: Path, swap: str) -> None:
    save(tmp_path / "ranker", "one")
    (tmp_path / "ranker" / "extra").write_text("of the old one")
    (tmp_path / "ranker").chmod(0o750)
    save(tmp_path / "ranker", "two")
    assert names(tmp_path) == ["ranker"]  # nothing hidden is left either
    assert names(tmp_path / "ranker") == ["content"]
    assert mode(tmp_path / "ranker") == 0o750


def test_an_error_in_the_second_rename_leaves_the_old_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "ranker", "one")
    monkeypatch.setattr(host, "exchange", lambda *_: False)
    rename = os.rename

    def fail_second(source: Path, target: Path) -> None:
        if source.suffix == ".part" and not target.exists():
            monkeypatch.setattr(os, "rename", rename)
            raise OSError(errno.EIO, "Input/output error")
        rename(source, target)

    monkeypatch.setattr(os, "rename", fail_second)
    with pytest.raises(OSError, match="Input/output error"):
        save(tmp_path / "ranker", "two")
    assert (tmp_path / "ranker" / "content").read_text() == "one"
    assert names(tmp_path) == ["ranker"]


def test_a_folder_that_was_moved_away_comes_back(tmp_path: Path) -> None:
    save(tmp_path / "ranker", "one")
    (tmp_path / "ranker").rename(tmp_path / ".ranker.abcdefgh.old")  # killed between two renames
    (tmp_path / ".ranker.abcdefgh.part").mkdir()
    recover_folder(tmp_path / "ranker")
    assert (tmp_path / "ranker" / "content").read_text() == "one"
    (tmp_path / "ranker").rename(tmp_path / ".ranker.abcdefgh.old")
    with pytest.raises(ZeroDivisionError), replacing_folder(tmp_path / "ranker") as temporary:
        (temporary / "content").write_text(str(1 / 0))
    assert (tmp_path / "ranker" / "content").read_text() == "one"  # a run that fails brings it back too
    save(tmp_path / "ranker", "two")
    assert names(tmp_path) == ["ranker"]


def test_a_folder_does_not_come_back_under_a_long_name_that_begins_alike(tmp_path: Path) -> None:
    one, other = (tmp_path / f"{'ranker' * 40}{end}" for end in "ab")
    with replacing_folder(one) as temporary:
        (temporary / "content").write_text("one")
    one.rename(temporary.with_suffix(".old"))  # killed between two renames
    recover_folder(other)
    assert not other.exists()
    recover_folder(one)
    assert (one / "content").read_text() == "one"
    assert names(tmp_path) == [one.name]


def test_a_folder_that_a_living_writer_has_moved_away_is_left_to_it(tmp_path: Path) -> None:
    save(tmp_path / "ranker", "one")
    (tmp_path / "ranker").rename(tmp_path / ".ranker.abcdefgh.old")  # between its two renames
    (tmp_path / ".ranker.abcdefgh.part").mkdir()
    with holding(tmp_path / ".ranker.abcdefgh.part"):
        recover_folder(tmp_path / "ranker")
        assert not (tmp_path / "ranker").exists()  # restored, it would be in the way of the new one
        (tmp_path / "ranker").mkdir()
        recover_folder(tmp_path / "ranker")
        assert (tmp_path / ".ranker.abcdefgh.old" / "content").read_text() == "one"
        (tmp_path / "ranker").rmdir()
    recover_folder(tmp_path / "ranker")
    assert (tmp_path / "ranker" / "content").read_text() == "one"


# -- what killed processes leave, and what live ones write ------------------------------------------------------------


_WRITE_AND_WAIT = """
import sys, time
from pathlib import Path
from cldrank.files import {how}
with {how}({target}) as temporary:
    (temporary / "content" if temporary.is_dir() else temporary).write_text("of the other")
    print("writing", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize(
    ("how", "arguments"),
    [
        ("replacing_folder", ""),
        pytest.param("replacing", "", marks=pytest.mark.slow),
        pytest.param("scratch", ", 'out'", marks=pytest.mark.slow),
    ],
)
def test_leftovers_of_the_dead_go_and_work_of_the_living_stays(how: str, arguments: str, tmp_path: Path) -> None:
    target = tmp_path if arguments else tmp_path / "out"
    code = _WRITE_AND_WAIT.format(how=how, target=f"{str(target)!r}{arguments}")
    use: dict[str, Callable[[Path], AbstractContextManager[Path]]] = {
        "replacing": replacing,
        "replacing_folder": replacing_folder,
        "scratch": lambda path: scratch(path, "out"),
    }
    stranger = tmp_path / ".out.txt.abcdefgh.part"  # of another target whose name begins alike
    stranger.write_text("")
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    living, dead = processes
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
    dead.send_signal(signal.SIGKILL)
    dead.communicate()
    assert len(list(tmp_path.glob(".out.????????.part"))) == 2
    with use[how](target) as temporary:
        kept = set(tmp_path.glob(".out.????????.part")) - {temporary}
        assert len(kept) == 1
        (temporary / "content" if temporary.is_dir() else temporary).write_text("mine")
    living.communicate("\n")  # ends well, and last
    assert living.returncode == 0
    if how == "replacing":
        assert (tmp_path / "out").read_text() == "of the other"
    elif how == "replacing_folder":
        assert (tmp_path / "out" / "content").read_text() == "of the other"
    assert not list(tmp_path.glob(".out.????????.part"))
    assert stranger.exists()


def test_many_writers_of_one_folder_never_mix(tmp_path: Path) -> None:
    failures: list[BaseException] = []

    def write(text: str) -> None:
        try:
            for _ in range(8):
                with replacing_folder(tmp_path / "ranker") as temporary:
                    (temporary / "one").write_text(text)
                    (temporary / "two").write_text(text)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(text,)) for text in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert names(tmp_path) == ["ranker"]
    assert (tmp_path / "ranker" / "one").read_text() == (tmp_path / "ranker" / "two").read_text()


def test_a_folder_is_swept_of_what_the_dead_left_and_of_nothing_else(tmp_path: Path) -> None:
    (tmp_path / ".00002.npy.ae968qju.part").write_text("")
    (tmp_path / ".unit.abcdefgh.part").mkdir()
    for stays in (".hidden", ".notes.part", "visible.abcdefgh.part", ".upper.ABCDEFGH.part"):
        (tmp_path / stays).write_text("")
    with replacing(tmp_path / "mine") as temporary:
        sweep(tmp_path)
        assert temporary.exists()
    sweep(tmp_path / "missing")
    assert names(tmp_path) == [".hidden", ".notes.part", ".upper.ABCDEFGH.part", "mine", "visible.abcdefgh.part"]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_content_reaches_the_disk_before_its_name_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    fsync, replace, exchanged = os.fsync, os.replace, host.exchange

    def told_fsync(handle: int) -> None:
        done.append("sync " + Path(f"/proc/self/fd/{handle}").readlink().name)
        fsync(handle)

    def told(name: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            done.append("name")
            return name(*arguments)

        return call

    monkeypatch.setattr(os, "fsync", told_fsync)
    monkeypatch.setattr(os, "replace", told(replace))
    monkeypatch.setattr(host, "exchange", told(exchanged))
    with replacing(tmp_path / "file") as temporary:
        temporary.write_text("whole")
    assert done == [f"sync {temporary.name}", "name", f"sync {tmp_path.name}"]
    save(tmp_path / "ranker", "one")
    done.clear()
    save(tmp_path / "ranker", "two")
    place = done.index("name")
    assert done[0] == "sync content"
    assert done[place - 1].startswith("sync .ranker.")
    assert done[place + 1 :] == [f"sync {tmp_path.name}"]


def test_write_protection_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    protected = {tmp_path / "file", tmp_path / "folder"}
    (tmp_path / "file").write_text("kept")
    (tmp_path / "folder").mkdir()
    access = os.access  # an administrator, who may write anywhere, should see this too
    monkeypatch.setattr(os, "access", lambda path, kind: Path(path) not in protected and access(path, kind))
    for path in (tmp_path / "file", tmp_path / "folder" / "new"):
        with pytest.raises(CldrankError, match="write-protected"):
            check_writable(path)
