"""Small experiments that settle what a log cannot: interleaved pages, arms of an A/B test, pages that vary a little.

`analyse` judges an experiment by its log.

Pages are drawn from a hash of a key, never from a clock, so that a page stays the same when a person reloads it.
`interleave`, `swap`, `explore` and `assign` need numpy alone: a search service can import them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cldrank.online.analysis import ExperimentResult as ExperimentResult
    from cldrank.online.analysis import analyse as analyse
    from cldrank.online.arms import assign as assign
    from cldrank.online.interleaving import InterleavedPages as InterleavedPages
    from cldrank.online.interleaving import Page as Page
    from cldrank.online.interleaving import interleave as interleave
    from cldrank.online.interleaving import interleave_pages as interleave_pages
    from cldrank.online.simulated_tests import SimulatedTest as SimulatedTest
    from cldrank.online.varied_pages import VariedPage as VariedPage
    from cldrank.online.varied_pages import explore as explore
    from cldrank.online.varied_pages import swap as swap

_HOMES = {
    **dict.fromkeys(("ExperimentResult", "analyse"), "analysis"),
    "SimulatedTest": "simulated_tests",
    "assign": "arms",
    **dict.fromkeys(("InterleavedPages", "Page", "interleave", "interleave_pages"), "interleaving"),
    **dict.fromkeys(("VariedPage", "explore", "swap"), "varied_pages"),
}

__all__ = [
    "ExperimentResult", "InterleavedPages", "Page", "SimulatedTest", "VariedPage", "analyse", "assign", "explore",
    "interleave", "interleave_pages", "swap",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'cldrank.online' has no attribute {name!r}")
    return getattr(import_module(f"cldrank.online.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
