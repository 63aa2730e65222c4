from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from small_models import GIVEN

from cldrank import segments
from cldrank.methods.observing import observe
from cldrank.models.network.lists import BatchSource, Lists, observed_lists

CPU = torch.device("cpu")


def drawing(ratio: float) -> Callable[[int], float]:
    """As CLD-pair with C draws."""
    return lambda width: ratio * max(width - 1, 1) / 2


def make(shown: list[int], unshown: list[int] | None = None, seed: int = 0) -> Lists:
    """Lists with so many candidates each; every row is another one, and so tells where it went."""
    random = np.random.default_rng(seed)
    unshown = [0] * len(shown) if unshown is None else unshown
    count, rest = sum(shown), sum(unshown)
    return Lists(
        segments.from_lengths(np.array(shown, dtype=np.int64)),
        np.arange(count) + 1000,
        (random.integers(0, 3, count) / 2).astype(np.float32),
        random.integers(0, 5, count).astype(np.float32),
        segments.from_lengths(np.array(unshown, dtype=np.int64)),
        np.arange(rest) + 5000,
        np.arange(1, len(shown) + 1, dtype=np.float32),
    )


def entries(lists: Lists, at: int) -> list[tuple[int, float, float]]:
    """Row, target and weight of each candidate of a list."""
    own = slice(lists.offsets[at], lists.offsets[at + 1])
    return list(zip(lists.rows[own].tolist(), lists.target[own].tolist(), lists.weight[own].tolist(), strict=True))


def unshown_of(lists: Lists, at: int) -> list[int]:
    found: list[int] = lists.unshown_rows[lists.unshown_offsets[at] : lists.unshown_offsets[at + 1]].tolist()
    return found


sizes = st.lists(st.tuples(st.integers(0, 90), st.integers(0, 9)), min_size=1, max_size=12).filter(
    lambda pairs: any(shown for shown, _ in pairs)
)


@given(sizes, st.integers(0, 9))
def test_preferring_are_the_lists_with_two_that_differ(pairs: list[tuple[int, int]], seed: int) -> None:
    lists = make([shown % 5 for shown, _ in pairs], seed=seed)
    expected = []
    for at in range(len(lists)):
        targets = {target for _, target, weight in entries(lists, at) if weight > 0}
        if len(targets) > 1:
            expected.append(at)
    assert lists.preferring().tolist() == expected


@given(sizes, st.data())
def test_some_lists_keep_all_they_have(pairs: list[tuple[int, int]], data: st.DataObject) -> None:
    lists = make([shown for shown, _ in pairs], [unshown for _, unshown in pairs])
    chosen = data.draw(st.lists(st.integers(0, len(lists) - 1), unique=True))
    found = lists[np.array(chosen, dtype=np.int64)]
    assert len(found) == len(chosen)
    for at, origin in enumerate(chosen):
        assert entries(found, at) == entries(lists, origin)
        assert unshown_of(found, at) == unshown_of(lists, origin)
        assert found.pages[at] == lists.pages[origin]


@given(sizes, st.integers(2, 40), st.integers(0, 9))
def test_cutting_keeps_each_entry_once_in_short_lists(pairs: list[tuple[int, int]], size: int, seed: int) -> None:
    lists = make([shown for shown, _ in pairs], [unshown for _, unshown in pairs])
    pieces = lists.cut(size, seed)
    assert np.diff(pieces.offsets).max() <= size
    at = 0
    for origin in range(len(lists)):
        whole, found, pages = entries(lists, origin), [], 0.0
        count = max(1, -(-len(whole) // size))
        for piece in range(at, at + count):
            found += entries(pieces, piece)
            assert unshown_of(pieces, piece) == unshown_of(lists, origin)
            assert len(entries(pieces, piece)) in (len(whole) // count, -(-len(whole) // count))
            pages += pieces.pages[piece]
        assert sorted(found) == sorted(whole)
        assert pages == pytest.approx(lists.pages[origin])  # together they count those not shown once
        at += count
    assert at == len(pieces)


def test_cutting_is_random_and_the_same_for_a_seed() -> None:
    lists = make([50, 3])
    first, again, other = (lists.cut(10, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.rows, again.rows)
    assert (first.rows != other.rows).any()
    np.testing.assert_array_equal(first.rows[-3:], lists.rows[-3:])  # a short list is left as it is
    assert lists.cut(50, 0) is lists


@given(sizes, st.sampled_from([0.0, 0.5, 1.0, 7.0]))
def test_packing_has_each_list_once_and_no_weight_for_padding(pairs: list[tuple[int, int]], ratio: float) -> None:
    lists = make([shown for shown, _ in pairs], [unshown for _, unshown in pairs])
    seen: list[int] = []
    for group in lists.pack(drawing(ratio)):
        width = group.rows.shape[1]
        for place, at in enumerate(group.lists.tolist()):
            own = entries(lists, at)
            table = list(
                zip(*(values[place].tolist() for values in (group.rows, group.target, group.weight)), strict=True)
            )
            assert table[: len(own)] == own
            assert all(target == weight == 0 for _, target, weight in table[len(own) :])
            first = int(group.unshown_start[place])
            assert lists.unshown_rows[first : first + group.unshown_count[place]].tolist() == unshown_of(lists, at)
            assert group.pages[place] == lists.pages[at]
            seen.append(at)
        most = int(group.unshown_count.max())
        assert group.draws == min(most, int(np.ceil(ratio * max(width - 1, 1) / 2)))
    assert sorted(seen) == list(range(len(lists)))


def test_an_empty_list_at_the_end_is_padding() -> None:
    lists = make([2, 0], [0, 3])
    groups = lists.pack(drawing(1.0))
    empty: Any = groups[0]
    assert (empty.lists.tolist(), empty.weight.tolist(), empty.draws) == ([1], [[0.0]], 1)


# -- from clicks and labels ------------------------------------------------------------------------------------------


def test_lists_of_clicks_are_the_candidates_of_the_queries_displayed() -> None:
    lists = observed_lists(observe(*GIVEN))
    table, data = GIVEN.clicks, GIVEN.data
    displayed = [query for query in range(len(data)) if table.query_impressions[query]]
    assert len(lists) == len(displayed) < len(data)
    for at, query in enumerate(displayed):
        own = np.arange(data.offsets[query], data.offsets[query + 1])
        shown = [row for row in own if table.shown[row]]
        assert lists.rows[lists.offsets[at] : lists.offsets[at + 1]].tolist() == shown
        unshown = lists.unshown_rows[lists.unshown_offsets[at] : lists.unshown_offsets[at + 1]]
        assert unshown.tolist() == [row for row in own if not table.shown[row]]
        assert lists.pages[at] == table.query_impressions[query]
        for place, row in enumerate(shown, start=int(lists.offsets[at])):
            cells = table.row == row
            n, c = table.impressions[cells], table.clicks[cells]
            expected = (c / GIVEN.propensities.at(table.position[cells])).sum() / n.sum()
            assert lists.target[place] == pytest.approx(expected, rel=1e-6)
            assert lists.weight[place] == n.sum()


# -- batches -----------------------------------------------------------------------------------------------------


def group_of(shown: int, unshown: list[int], ratio: float) -> BatchSource:
    """Lists of `shown` candidates, and so many unshown each, which have the rows from 100 on."""
    count = len(unshown)
    rest = 100 + np.arange(sum(unshown))
    lists = Lists(
        np.arange(count + 1) * shown,
        np.arange(count * shown),
        np.tile(np.arange(shown), count).astype(np.float32),
        np.ones(count * shown, dtype=np.float32),
        segments.from_lengths(np.array(unshown)),
        rest,
        np.arange(1, count + 1, dtype=np.float32),
    )
    (packed,) = lists.pack(drawing(ratio))
    return BatchSource(packed, rest, CPU)


def drawn(group: BatchSource, random: torch.Generator) -> list[list[int]]:
    """The rows that each list drew."""
    group.draw(random)
    batch = group.batch(torch.arange(len(group)))
    rows = batch.rows[:, group.width :]
    return [own[kept > 0].tolist() for own, kept in zip(rows, batch.drawn, strict=True)]


@given(st.integers(1, 9), st.lists(st.integers(0, 30), min_size=1, max_size=6), st.sampled_from([0.5, 1.0, 3.0, 50.0]))
def test_a_list_draws_its_own_unshown_each_at_most_once(shown: int, unshown: list[int], ratio: float) -> None:
    group = group_of(shown, unshown, ratio)
    offsets = 100 + segments.from_lengths(np.array(unshown))
    random = torch.Generator().manual_seed(0)
    for _ in range(5):
        for at, rows in enumerate(drawn(group, random)):
            assert len(rows) == min(unshown[at], group.draws)
            assert len(set(rows)) == len(rows)
            assert all(offsets[at] <= row < offsets[at + 1] for row in rows)


def test_every_unshown_candidate_comes_up_alike() -> None:
    unshown = [3, 7, 10, 1, 23]
    group = group_of(5, unshown, 1.0)  # two draws a list
    counts = np.zeros(sum(unshown))
    random = torch.Generator().manual_seed(1)
    epochs = 4000
    for _ in range(epochs):
        for rows in drawn(group, random):
            counts[np.array(rows) - 100] += 1
    offsets = segments.from_lengths(np.array(unshown))
    for at, count in enumerate(unshown):
        own = counts[offsets[at] : offsets[at + 1]]
        assert own.sum() == epochs * min(2, count)
        assert chisquare(own).pvalue > 1e-3 if count > 1 else own[0] == epochs


def test_a_batch_has_the_lists_asked_for() -> None:
    group = group_of(3, [2, 5, 0], 2.0)
    group.draw(torch.Generator().manual_seed(0))
    batch = group.batch(torch.tensor([2, 0]))
    assert batch.rows.shape == (2, 3 + group.draws)
    assert batch.rows[:, :3].tolist() == [[6, 7, 8], [0, 1, 2]]
    assert batch.unshown.tolist() == [0, 2]
    assert batch.pages.tolist() == [3, 1]
    assert batch.drawn.tolist() == [[0, 0], [1, 1]]
