from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from scenes import scene

from cldrank.errors import CldrankError, FormatError
from cldrank.methods import IPS
from cldrank.tuning import tune

SCENE = scene(0, queries=60)
RECORD = '{"op_code":0,"worker_id":"a","study_name":"cldrank","directions":[2]}\n'


def facts(tuned: Any) -> list[Any]:
    return [(trial.number, trial.parameters, trial.state, trial.value) for trial in tuned.trials]


@pytest.mark.parametrize(("rest", "zeros"), [(1, 0), (70, 5)])
def test_a_log_cut_by_a_crash_is_gone_on_with(tmp_path: Path, rest: int, zeros: int) -> None:
    whole = tune(IPS(), *SCENE, trials=5)
    log = tmp_path / "trials.log"
    tune(IPS(), *SCENE, trials=3, folder=tmp_path)
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]) + lines[-1][:rest] + bytes(zeros))
    assert facts(tune(IPS(), *SCENE, trials=5, folder=tmp_path)) == facts(whole)
    assert facts(tune(IPS(), *SCENE, trials=5, folder=tmp_path)) == facts(whole)


@pytest.mark.parametrize(
    "line", ["nonsense", "\0" * 20, "[" * 100_000, '{"op_code":99}', '{"op_code":6}', "{}"], ids=lambda line: line[:12]
)
@pytest.mark.parametrize("end", ["\n", ""])
def test_a_log_that_is_something_else_is_refused_and_left_as_it_is(tmp_path: Path, line: str, end: str) -> None:
    log = tmp_path / "trials.log"
    log.write_text(RECORD + line + end)
    if not end and (line.startswith('{"op_code') or not line.strip("\0")):
        return  # the beginning of a record
    with pytest.raises(FormatError, match=r"trials\.log(:2)?: .*(name another folder|not a log of trials)"):
        tune(IPS(), *SCENE, trials=1, folder=tmp_path)
    assert log.read_text() == RECORD + line + end


def test_a_full_disk_is_told_with_the_file_and_costs_one_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tune(IPS(), *SCENE, trials=4)
    tune(IPS(), *SCENE, trials=2, folder=tmp_path)
    log = tmp_path / "trials.log"

    def full(handle: int) -> None:
        os.truncate(log, log.stat().st_size - 9)  # the disk took the first bytes of a line
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(CldrankError, match=r"trials\.log cannot be written: No space left on device.*continues"):
            tune(IPS(), *SCENE, trials=4, folder=tmp_path)
    assert facts(tune(IPS(), *SCENE, trials=4, folder=tmp_path)) == facts(whole)
