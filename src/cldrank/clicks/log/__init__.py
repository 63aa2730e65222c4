"""Impression logs: from the files that a path names to one table of displayed results, open in an engine.

paths     which files a path names, and a fingerprint of each
nested    fields inside of columns, by their path
parts     files that are alike, and the union of those that are not
engines   DuckDB, Spark or any other Ibis backend
layout    `LogLayout`: all that a user says about how a log is to be read
roles     which column holds what
values    ids, numbers, and what is neither
lists     from one row per page to one row per displayed result
paging    how pages count positions
places    positions counted page by page, and grids
dwell     clicks that lasted
times     timestamps of any kind, in UTC
schema    `open_log`: from whatever columns a log has to the ones that everything else knows
frame_source    a fingerprint of a frame, as `paths` has one of each file
"""

from __future__ import annotations

from cldrank.clicks.log.engines import connected, querying
from cldrank.clicks.log.layout import LogLayout
from cldrank.clicks.log.paths import Paths, existing
from cldrank.clicks.log.roles import KEYS, OPTIONAL, REQUIRED, ROLES
from cldrank.clicks.log.schema import Log, only_query, open_log
from cldrank.clicks.log.values import DEEPEST, MARKS

__all__ = [
    "DEEPEST",
    "KEYS",
    "MARKS",
    "OPTIONAL",
    "REQUIRED",
    "ROLES",
    "Log",
    "LogLayout",
    "Paths",
    "connected",
    "existing",
    "only_query",
    "open_log",
    "querying",
]
