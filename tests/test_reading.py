from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cldrank.errors import CldrankError, DataError, FormatError, UsageError
from cldrank.reading import read_json, reading


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"[1, 2", "Expecting ',' delimiter"),
        (b"[" * 100_000, "nested too deeply"),
        (b"\xff\xfe", "line 1 is not text in UTF-8 (byte 0)"),
        (b"", "Expecting value"),
    ],
)
def test_json_that_cannot_be_read_is_told_with_its_file(content: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "rho.json").write_bytes(content)
    with pytest.raises(FormatError, match="rho.json: not a list") as caught:
        read_json(tmp_path / "rho.json", "a list")
    assert reason in str(caught.value)


def test_what_is_not_there_is_a_wrong_call(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing.json: no such file"):
        read_json(tmp_path / "nothing.json", "a list")
    with pytest.raises(UsageError, match="is a folder, not a list"):
        read_json(tmp_path, "a list")


def test_other_libraries_and_shortness_of_memory(tmp_path: Path) -> None:
    (tmp_path / "log.parquet").write_bytes(b"PAR1 but nothing else")
    with pytest.raises(FormatError, match="log.parquet: not a Parquet file"), reading("log.parquet", "a Parquet file"):
        pq.read_table(tmp_path / "log.parquet")
    with pytest.raises(DataError, match="not enough memory to read it"), reading("log.parquet", "a Parquet file"):
        raise MemoryError
    with pytest.raises(DataError, match="cannot be read: Permission denied"), reading("log.parquet", "a Parquet file"):
        raise PermissionError(13, "Permission denied")


def test_errors_that_are_explained_already_and_faults_of_ours_pass() -> None:
    for error in (CldrankError("as it is"), AssertionError("as it is")):
        with pytest.raises(type(error), match="^as it is$"), reading("file", "a file"):
            raise error
