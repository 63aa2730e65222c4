"""What Spark's Java writes goes to a file: not to the terminal, and errors name it. Real Spark, in processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from small_logs import CLEAN, write

from cldrank import ClickTable
from cldrank.clicks.log.engines import starting_spark
from cldrank.clicks.log.engines.starting_spark import spark_session
from cldrank.errors import CldrankError, DataError, UsageError, setting

MASTERS = ["local[1]", pytest.param("local-cluster[2,1,1024]", marks=pytest.mark.slow)]


def aggregated(log: Path, master: str) -> subprocess.CompletedProcess[str]:
    """The command, with a temporary folder of its own beside the log."""
    pytest.importorskip("pyspark")
    folder = log.parent / "temporary"
    folder.mkdir()
    environment = {
        **os.environ,
        "TMPDIR": str(folder),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # Java says on the terminal that it saw these
    }
    command = [sys.executable, "-m", "cldrank", "clicks", "aggregate", str(log), "--engine", "spark"]
    command += ["--master", master, "--out", str(log.parent / "cells.parquet")]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.slow  # the next one starts Spark in the same way
@pytest.mark.parametrize("master", MASTERS)
def test_only_the_product_is_on_the_terminal(tmp_path: Path, master: str) -> None:
    done = aggregated(write(tmp_path / "log.parquet", CLEAN), master)
    assert done.stderr == ""
    assert [line.split(" ")[0] for line in done.stdout.splitlines()] == ["5", "wrote"]
    assert ClickTable.read(tmp_path / "cells.parquet").impressions.sum() == len(CLEAN)
    assert list((tmp_path / "temporary").glob("*.log")) == []  # all went well


@pytest.mark.parametrize("master", MASTERS)
def test_a_failing_job_names_the_log(tmp_path: Path, master: str) -> None:
    log = write(tmp_path / "log.parquet", CLEAN * 1000)
    content = bytearray(log.read_bytes())
    content[20:60] = b"\xff" * 40  # a page that no reader can unpack; schema and sizes at the end of the file are fine
    log.write_bytes(content)
    done = aggregated(log, master)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    (name,) = re.findall(r"Spark's log is (\S+\.log)\.$", line)
    assert line.startswith(f"error: {log}: the log cannot be read (")
    assert "\n\tat org.apache.spark." in Path(name).read_text()  # Java's trace
    assert not (tmp_path / "cells.parquet").exists()


class TestErrors:
    @pytest.fixture(autouse=True)
    def _log(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(starting_spark, "_LOG", starting_spark._JavaLog(tmp_path / "java.log"))

    def failing(self, error: Exception, cause: Exception | None) -> Exception:
        """What becomes of an error in a session, which a test need not start for that."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(starting_spark, "_session", lambda *_: None)
            with pytest.raises((CldrankError, type(error))) as caught, spark_session("local[1]", 1 << 30):
                raise error from cause
        return caught.value

    def test_errors_of_spark_name_the_log(self, tmp_path: Path) -> None:
        from pyspark.errors import PySparkException

        cause = PySparkException("lost\nat org.apache.Java")
        assert str(self.failing(DataError("a{b: bad."), cause)) == f"a{{b: bad. Spark's log is {tmp_path}/java.log."
        worded = self.failing(UsageError("{} is off.", setting("depth")), cause)
        assert isinstance(worded, UsageError)
        assert worded.said("shell") == f"--depth is off. Spark's log is {tmp_path}/java.log."
        bare = self.failing(cause, None)
        assert type(bare) is CldrankError
        assert str(bare) == f"Spark failed (lost). Spark's log is {tmp_path}/java.log."

    def test_other_errors_do_not(self) -> None:
        error = DataError("a.csv: the log is empty.")
        assert self.failing(error, None) is error
        assert str(error) == "a.csv: the log is empty."
        assert not starting_spark._LOG.keep
