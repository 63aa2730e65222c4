"""`spark_session`: a Spark session whose Java writes to a file, which errors name.

Java and all that it starts inherit the terminal, and write there when they start, when a job fails, and while they end.
Here they write to a file from their first line to their last. It is kept if Spark fails, else deleted at exit.
"""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cldrank.errors import CldrankError, MissingDependencyError, UsageError
from cldrank.reading import reason

_SPARKS = ("pyspark", "py4j")  # packages whose errors come from Spark


@dataclass
class _JavaLog:
    """The file that the Java of this process writes to, if we started it, and whether it has to be kept."""

    path: Path | None = None
    keep: bool = False

    def open(self) -> int:
        """Create the file, to be deleted at exit."""
        handle, name = tempfile.mkstemp(prefix="cldrank-spark-", suffix=".log")
        self.path = Path(name)
        return handle

    def named_by(self, error: Exception) -> CldrankError:
        """An error of Spark's, with the file to look into."""
        if not isinstance(error, CldrankError):
            error = CldrankError(f"Spark failed ({reason(error)}).")
        if self.path is None or str(self.path) in str(error):
            return error
        self.keep = True
        if error.words:
            error.message, error.words = f"{error.message} Spark's log is {{}}.", (*error.words, self.path)
        else:
            error.message = f"{error.message} Spark's log is {self.path}."
        return error


_LOG = _JavaLog()


@contextmanager
def spark_session(master: str = "local[*]", memory: int = 3 * 10**9) -> Iterator[Any]:
    """A Spark session: the one that is active, or a new one, which ends with this process.

    master   where Spark runs
    memory   that of the driver, in bytes

    Errors of Spark's in the block name the file with what Java wrote, unless somebody else started Java.
    """
    session = _session(master, memory)
    try:
        yield session
    except Exception as error:
        if not _is_sparks(error):
            raise
        named = _LOG.named_by(error)
        if named is error:
            raise
        raise named from error


def _session(master: str, memory: int) -> Any:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingDependencyError("Spark is not installed; pip install 'cldrank[spark]'.") from None
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # which has what this process has
    builder = SparkSession.builder.master(master)
    settings = _settings(master, memory)
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        _start_java({"spark.master": master, **settings})
        return builder.getOrCreate()
    except Exception as error:  # Java's, as Py4J passes them on
        place = UsageError(f"Spark does not start at {master!r}; it needs Java, and a place to run ({reason(error)}).")
        raise _LOG.named_by(place) from error


def _settings(master: str, memory: int) -> dict[str, str]:
    return {
        "spark.app.name": "cldrank",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "WARN",
        "spark.driver.memory": f"{max(memory >> 20, 1)}m",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4" if master.startswith("local") else "200",
        "spark.sql.legacy.parquet.nanosAsLong": "true",  # else Spark cannot read pandas' times
    }


def _start_java(settings: Mapping[str, str]) -> None:
    """Start the Java of this process with its output in a file, unless it runs already, or runs elsewhere."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None or {"PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"} & set(os.environ):
        return
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    handle = _LOG.open()
    atexit.register(_end, os.getpid())
    try:
        gateway = launch_gateway(conf, {"stdout": handle, "stderr": handle})
    finally:
        os.close(handle)
    SparkContext._ensure_initialized(gateway=gateway)


def _end(process: int) -> None:
    """Stop Spark in good order, and delete what Java wrote if nothing failed."""
    from pyspark import SparkContext

    if os.getpid() != process:  # a fork
        return
    with suppress(Exception):  # Java may be gone
        if SparkContext._active_spark_context is not None:
            SparkContext._active_spark_context.stop()
    if _LOG.path is not None and not _LOG.keep:
        _LOG.path.unlink(missing_ok=True)


def _is_sparks(error: BaseException | None) -> bool:
    """Whether an error, or what caused it, comes from Spark."""
    while error is not None:
        if type(error).__module__.startswith(_SPARKS):
            return True
        error = error.__cause__ or error.__context__
    return False
