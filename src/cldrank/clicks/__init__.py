"""Click logs: their aggregation to cells, and their simulation."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cldrank.clicks import aggregate as aggregate
    from cldrank.clicks import imports as imports
    from cldrank.clicks import simulate as simulate
    from cldrank.clicks.contexts import Contexts as Contexts
    from cldrank.clicks.days import DayFolder as DayFolder
    from cldrank.clicks.log.layout import LogLayout as LogLayout
    from cldrank.clicks.ratings import RatingAccount as RatingAccount
    from cldrank.clicks.ratings import Ratings as Ratings
    from cldrank.clicks.table import ClickTable as ClickTable

_HOMES = {
    "ClickTable": "table",
    "Contexts": "contexts",
    "DayFolder": "days",
    "LogLayout": "log.layout",
    "RatingAccount": "ratings",
    "Ratings": "ratings",
}
_ROOMS = ("aggregate", "imports", "simulate")

__all__ = [
    "ClickTable", "Contexts", "DayFolder", "LogLayout", "RatingAccount", "Ratings", "aggregate", "imports",
    "simulate",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"cldrank.clicks.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'cldrank.clicks' has no attribute {name!r}")
    return getattr(import_module(f"cldrank.clicks.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
