"""Arms of an A/B test, by a hash of the person."""

from __future__ import annotations

import math
from collections.abc import Mapping

from cldrank.errors import UsageError
from cldrank.online.keys import Key, fractions


def assign(person: Key, salt: str, shares: Mapping[str, float]) -> str:
    """The arm of a person, always the same; another salt, such as the name of the experiment, draws anew.

    shares    the share of people in each arm; where the first grows, everybody in it stays

    >>> assign("ada", "new ranker, May", {"new": 0.1, "old": 0.9})
    'old'
    """
    if not shares or min(shares.values()) < 0 or not math.isclose(math.fsum(shares.values()), 1, abs_tol=1e-9):
        raise UsageError(f"`shares` must be at least 0 and add up to 1, not {dict(shares)}.")
    parts = person if isinstance(person, tuple) else (person,)
    place, end = fractions((salt, *parts), b"cldrank-arm")[0], 0.0
    for arm, share in shares.items():
        end += share
        if place < end:
            return arm
    return max(shares, key=shares.__getitem__)  # the ends add up to a little less than 1
