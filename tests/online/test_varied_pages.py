from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cldrank import ClickTable
from cldrank.clicks.simulate import PositionBased
from cldrank.errors import DataError, UsageError
from cldrank.online import assign, explore, swap
from cldrank.propensity import AllPairs

PAGES = 20_000


def counted(draw: Any) -> tuple[Counter[Any], dict[Any, float], Counter[str]]:
    """How often each result was at each position, what the pages say of that, and how often each layout came."""
    times: Counter[Any] = Counter()
    said: dict[Any, set[float]] = defaultdict(set)
    layouts: Counter[str] = Counter()
    for key in range(PAGES):
        page = draw(key)
        layouts[page.layout] += 1
        for record in page.records():
            cell = record["doc_id"], record["position"]
            times[cell] += 1
            said[cell].add(round(record["propensity"], 12))
    assert all(len(values) == 1 for values in said.values())  # it does not depend on what was drawn
    return times, {cell: values.pop() for cell, values in said.items()}, layouts


def agrees(times: Counter[Any], said: dict[Any, float]) -> None:
    for cell, chance in said.items():
        assert abs(times[cell] - PAGES * chance) <= 4.5 * np.sqrt(PAGES * chance * (1 - chance)) + 1e-6, cell


@pytest.mark.parametrize(("order", "share"), [("abcd", 0.4), ("abcde", 1.0), ("ab", 0.5), ("a", 0.5), ("abc", 0.0)])
def test_swaps_come_as_often_as_they_say(order: str, share: float) -> None:
    times, said, layouts = counted(lambda key: swap(list(order), share, (key, "q")))
    agrees(times, said)
    for position in range(1, len(order) + 1):
        assert sum(chance for (_, place), chance in said.items() if place == position) == pytest.approx(1)
    pairs = {f"swap-{place}-{place + 1}" for place in range(1, len(order))} if share else set()
    assert set(layouts) - {"production"} == pairs


@pytest.mark.parametrize(("order", "never", "share"), [("abcd", "xyz", 0.4), ("abc", "x", 0.9), ("a", "xy", 0.3)])
def test_trials_come_as_often_as_they_say(order: str, never: str, share: float) -> None:
    times, said, layouts = counted(lambda key: explore(list(order), list(never), share, key))
    agrees(times, said)
    assert {result for result, _ in times} == {*order, *never}
    for position in range(1, len(order) + 1):
        assert sum(chance for (_, place), chance in said.items() if place == position) == pytest.approx(1)
    assert layouts["production"] == pytest.approx(PAGES * (1 - share), abs=4.5 * np.sqrt(PAGES / 4))


def test_without_candidates_to_try_or_results_the_page_stays() -> None:
    assert explore(["a", "b"], [], 1, "k") == (["a", "b"], [1.0, 1.0], "production")
    assert explore([], ["x"], 1, "k").ids == []
    assert swap([], 1, "k").records() == []


def test_a_log_of_swaps_yields_the_curve_that_people_followed() -> None:
    random = np.random.default_rng(0)
    truth = PositionBased(eta=1.0, noise=0.1)
    relevant = random.random((40, 5)) < 0.5
    queries = random.integers(0, 40, 30_000)
    pages = [swap(list(range(5)), 0.8, (session, "May")) for session in range(len(queries))]
    shown = np.array([page.ids for page in pages])
    clicked = truth.draw(np.take_along_axis(relevant[queries], shown, axis=1), random)
    log = pa.table(
        {
            "session_id": np.repeat(np.arange(len(queries)), 5),
            "query_id": np.repeat(queries, 5),
            "clicked": clicked.ravel(),
            **pa.Table.from_pylist([record for page in pages for record in page.records()]).to_pydict(),
        }
    )
    curve = AllPairs().fit(ClickTable.read(log))
    np.testing.assert_allclose(curve.values, 1 / np.arange(1, 6), atol=0.04)


def test_arms_have_their_shares_and_people_stay_in_theirs() -> None:
    shares = {"new": 0.2, "other": 0.3, "old": 0.5}
    arms = [assign(person, "May", shares) for person in range(PAGES)]
    for arm, share in shares.items():
        assert abs(arms.count(arm) - PAGES * share) < 4.5 * np.sqrt(PAGES * share * (1 - share))
    assert arms == [assign(str(person), "May", shares) for person in range(PAGES)]
    more = [assign(person, "May", {"new": 0.4, "old": 0.6}) for person in range(PAGES)]
    assert all(later == "new" for first, later in zip(arms, more, strict=True) if first == "new")
    again = [assign(person, "June", shares) for person in range(PAGES)]
    both = sum(first == second == "new" for first, second in zip(arms, again, strict=True))
    assert abs(both - PAGES * 0.04) < 4.5 * np.sqrt(PAGES * 0.04 * 0.96)  # another salt draws anew
    assert assign("ada", "May", {"new": 0.0, "old": 1.0}) == "old"
    assert [assign(person, "May", {"new": 0.5, "old": 0.5}) for person in ("ada", "ben", "cem", "dan")] == [
        "old", "new", "new", "old"
    ]  # fmt: skip


def test_what_is_refused() -> None:
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: swap(["a", "a"], 0.5, "k"), DataError, "'a' twice"),
        (lambda: swap(["a", "b"], 1.5, "k"), UsageError, "`share`"),
        (lambda: explore(["a"], ["a"], 0.5, "k"), DataError, "'a'"),
        (lambda: explore(["a"], ["x", "x"], 0.5, "k"), DataError, "`never_shown`"),
        (lambda: explore(["a"], ["x"], float("nan"), "k"), UsageError, "`share`"),
        (lambda: assign("ada", "May", {"new": 0.5, "old": 0.6}), UsageError, "`shares`"),
        (lambda: assign("ada", "May", {}), UsageError, "`shares`"),
        (lambda: assign("ada", "May", {"new": 1.5, "old": -0.5}), UsageError, "`shares`"),
        (lambda: assign(0.5, "May", {"new": 1.0}), UsageError, "0.5"),  # type: ignore[arg-type]
    ]
    for call, error, words in calls:
        with pytest.raises(error, match=words):
            call()
