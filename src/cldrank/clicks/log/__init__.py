"""Impression logs: from the files that a path names to one table of displayed results, open in an engine.

paths     which files a path names, and a fingerprint of each
parts     files that are alike, and the union of those that are not
engines   DuckDB, Spark or any other Ibis backend
schema    `open_log`: from whatever columns a log has to the ones that everything else knows
"""

from __future__ import annotations

from cldrank.clicks.log.engines import connected, querying
from cldrank.clicks.log.paths import Paths, existing
from cldrank.clicks.log.schema import DEEPEST, KEYS, ODD_POSITION, OPTIONAL, PAGE, REQUIRED, Log, only_query, open_log

__all__ = [
    "DEEPEST",
    "KEYS",
    "ODD_POSITION",
    "OPTIONAL",
    "PAGE",
    "REQUIRED",
    "Log",
    "Paths",
    "connected",
    "existing",
    "only_query",
    "open_log",
    "querying",
]
