from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from cldrank.tables import connect

# On a few rows, compiling and planning cost more than they save: these settings take a third of the time.
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SPARK = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One real Spark session for all tests, as an engine."""
    pytest.importorskip("pyspark")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setenv("JDK_JAVA_OPTIONS", _JAVA)
        warnings.simplefilter("ignore")  # Spark's start leaves sockets to the garbage collector
        engine: Any
        with connect("spark", master="local[2]", memory_limit="2GB") as engine:
            for name, value in _SPARK.items():
                engine.session.conf.set(name, value)
            yield engine
            engine.session.stop()


@pytest.fixture(params=["duckdb", "spark"])
def engine(request: pytest.FixtureRequest) -> Any:
    """Each engine in turn; tests that use it run once on each."""
    return "duckdb" if request.param == "duckdb" else request.getfixturevalue("spark")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of many small inputs are slow on Spark, where each takes a second; so are those of odd logs and imports."""
    for item in items:
        parameters = getattr(item, "callspec", None)
        on_spark = parameters is not None and parameters.params.get("engine") == "spark"
        of_layouts = (
            item.path.parent.name in ("log", "imports") and "same_cells_as_the_direct_log[spark-True]" not in item.name
        )
        if on_spark and (of_layouts or item.get_closest_marker("exhaustive")):
            item.add_marker(pytest.mark.slow)
