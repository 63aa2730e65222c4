"""Engines for the tests of imports."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Spark, as an engine."""
    pytest.importorskip("pyspark")
    from cldrank.tables import connect

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        warnings.simplefilter("ignore")  # Spark's start leaves sockets to the garbage collector
        with connect("spark", master="local[2]", memory_limit="2GB") as engine:
            engine.session.conf.set("spark.sql.shuffle.partitions", "2")  # type: ignore[attr-defined]
            yield engine
