from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from cldrank.clicks.log.engines import connected

# compiling code, planning anew and shuffling cost more than they save on a few rows
_FOR_SMALL_LOGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One real Spark session for all tests, as an Ibis connection."""
    pytest.importorskip("pyspark")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Spark's start leaves sockets to the garbage collector
        with connected("spark", master="local[2]", memory_limit="2GB") as engine:
            for name, value in _FOR_SMALL_LOGS.items():
                engine.connection._session.conf.set(name, value)
            yield engine.connection
            engine.connection._session.stop()


@pytest.fixture(params=["duckdb", "spark"])
def engine(request: pytest.FixtureRequest) -> Any:
    """Each engine in turn; tests that ask for it run once on each."""
    return "duckdb" if request.param == "duckdb" else request.getfixturevalue("spark")
