"""Boosted trees small enough to fit many of in a test."""

from __future__ import annotations

from typing import Any

from scenes import scene

from cldrank.methods import CLDPair
from cldrank.methods.registry import configured
from cldrank.models import Trees

SMALL_TREES = Trees(rounds=12, leaves=4, min_weight=0.5, validation=0.4, patience=None, column_share=0.6)
GIVEN_TREES = scene(0, queries=80)


def small_boosted(**settings: Any) -> CLDPair:
    """A small CLDPair with trees; parameters of the trees and of the run by their own names."""
    found = configured(CLDPair, {"model": SMALL_TREES, **settings})
    assert isinstance(found, CLDPair)
    return found
