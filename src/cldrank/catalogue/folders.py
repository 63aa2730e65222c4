"""Where data sets and caches lie on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def cache_folder() -> Path:
    """The folder for everything that can be downloaded or computed again: `$CLDRANK_CACHE`, or the user's cache."""
    chosen = os.environ.get("CLDRANK_CACHE")
    return Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("cldrank")


def data_folders() -> list[Path]:
    """The folders that hold data sets, in the order in which they are searched."""
    chosen = os.environ.get("CLDRANK_DATA")
    return [*([Path(chosen).expanduser()] if chosen else []), cache_folder() / "data"]
