"""Where log queries run: DuckDB in this process, Spark, or any other Ibis backend.

An engine opens log files as Ibis tables. What is computed on them is written once, in `schema`, `counting` and `audit`,
and does not depend on the engine.

limits       how much memory an engine has, and what to do when it or the disk runs out
engine       `Engine`: what all of them can do
in_duckdb, in_spark, in_backend   one engine each
repeats      `Repeats`: which of many hashes occur twice, for DuckDB
starting_spark   `spark_session`: a Spark session whose Java writes to a file, which errors name
connecting   `connected`: an engine by name, or over a connection
"""

from __future__ import annotations

from cldrank.clicks.log.engines.connecting import connected, engine_of
from cldrank.clicks.log.engines.engine import INSTANT, Engine
from cldrank.clicks.log.engines.in_duckdb import DuckDB
from cldrank.clicks.log.engines.limits import memory_bytes, querying

__all__ = ["INSTANT", "DuckDB", "Engine", "connected", "engine_of", "memory_bytes", "querying"]
