"""A real Spark session for the tests of this folder."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from worlds import World, world

from cldrank.spark import spark_features
from cldrank.tables.spark_engine import spark_session

_SETTINGS = {
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="session")
def session() -> Iterator[Any]:
    """One session for all tests."""
    pytest.importorskip("pyspark")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setattr(spark_features, "_MANY", 1)  # one level is quicker; two have a test of their own
        patch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        warnings.simplefilter("ignore")
        found = spark_session("local[2]", "2GB")
        before = {name: found.conf.get(name, None) for name in _SETTINGS}
        for name, value in _SETTINGS.items():
            found.conf.set(name, value)
        yield found
        for name, value in before.items():
            found.conf.unset(name) if value is None else found.conf.set(name, value)


@pytest.fixture(scope="session")
def here(tmp_path_factory: pytest.TempPathFactory) -> World:
    """The candidates and clicks of the tests."""
    return world(tmp_path_factory.mktemp("spark"))
