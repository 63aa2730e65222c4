from __future__ import annotations

import itertools
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from hashlib import blake2b
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cldrank.errors import DataError, UsageError
from cldrank.online import interleave, interleave_pages
from cldrank.online import interleaving as module
from cldrank.online.interleaving import TEAMS

Drafted = tuple[tuple[Any, ...], tuple[str, ...]]


def outcomes(new: Sequence[Any], old: Sequence[Any], depth: int) -> dict[Drafted, Fraction]:
    """Every page of a team draft and its probability, from the definition alone: by recursion over coins."""
    agreed = 0
    while agreed < min(depth, len(new), len(old)) and new[agreed] == old[agreed]:
        agreed += 1
    pages: dict[Drafted, Fraction] = {}

    def go_on(page: tuple[Any, ...], teams: tuple[str, ...], chance: Fraction) -> None:
        if len(page) >= depth or not {*new, *old} - {*page}:
            drafted = page[:depth], teams[:depth]
            pages[drafted] = pages.get(drafted, Fraction(0)) + chance
            return
        for first in (("new", new), ("old", old)):
            second = ("old", old) if first[0] == "new" else ("new", new)
            longer, owners = page, teams
            for team, order in (first, second):
                rest = [result for result in order if result not in longer]
                if rest:
                    longer, owners = (*longer, rest[0]), (*owners, team)
            go_on(longer, owners, chance / 2)

    go_on(tuple(new[:agreed]), ("both",) * agreed, Fraction(1))
    return pages


def with_all_coins(monkeypatch: pytest.MonkeyPatch, rounds: int, draw: Any) -> dict[Any, Fraction]:
    """How often each result of `draw` comes, over all sequences of coins."""
    counted: Counter[Any] = Counter()
    for bits in range(1 << rounds):
        monkeypatch.setattr(module, "digest", lambda *_, bits=bits: bits.to_bytes(64, "little"))
        monkeypatch.setattr(module, "coins", lambda keys, count, _, bits=bits: _bits(bits, len(keys), count))
        counted[draw()] += 1
    return {result: Fraction(times, 1 << rounds) for result, times in counted.items()}


def _bits(bits: int, pages: int, count: int) -> np.ndarray[Any, Any]:
    return np.array([[bits >> place & 1 for place in range(count)]] * pages, dtype=np.uint8)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_pages_and_their_probabilities_are_those_of_the_definition(monkeypatch: pytest.MonkeyPatch, depth: int) -> None:
    offsets = np.array([0, 4])
    for old in itertools.permutations(range(4)):

        def single(old: Any = old) -> Drafted:
            page = interleave([0, 1, 2, 3], list(old), depth, "key")
            return tuple(page.ids), tuple(page.teams)

        def batch(old: Any = old) -> Drafted:
            scores = [-old.index(result) for result in range(4)]
            pages = interleave_pages([0, -1, -2, -3], scores, offsets, depth, ["key"])
            return tuple(pages.rows[0].tolist()), tuple(TEAMS[team] for team in pages.team[0])

        expected = outcomes(range(4), old, depth)
        assert with_all_coins(monkeypatch, -(-depth // 2), single) == expected
        assert with_all_coins(monkeypatch, -(-depth // 2), batch) == expected


@pytest.mark.parametrize(
    ("new", "old"), [("abcd", "efgh"), ("ab", "cdefg"), ("abc", "ab"), ("abc", ""), ("", ""), ("abcd", "aecf")]
)
def test_lists_that_differ_and_end(monkeypatch: pytest.MonkeyPatch, new: str, old: str) -> None:
    for depth in (1, 3, 6):

        def draw(depth: int = depth) -> Drafted:
            page = interleave(list(new), list(old), depth, 1)
            assert page.new_ranks == [new.index(result) + 1 if result in new else None for result in page.ids]
            assert page.old_ranks == [old.index(result) + 1 if result in old else None for result in page.ids]
            return tuple(page.ids), tuple(page.teams)

        assert with_all_coins(monkeypatch, 6, draw) == outcomes(new, old, depth)


orders = st.integers(1, 12).flatmap(lambda n: st.tuples(*[st.permutations(range(n))] * 2))
keys = st.text(max_size=5) | st.integers() | st.tuples(st.text(max_size=3), st.integers())


@given(orders=orders, depth=st.integers(1, 15), key=keys)
def test_properties_of_a_page(orders: tuple[list[int], list[int]], depth: int, key: Any) -> None:
    new, old = orders
    page = interleave(new, old, depth, key)
    assert page == interleave(new, old, depth, key)
    assert len(page.ids) == len(set(page.ids)) == min(depth, len(new))
    assert (tuple(page.ids), tuple(page.teams)) in outcomes(new, old, depth)
    shorter = interleave(new, old, max(depth - 1, 1), key)
    assert page.ids[: len(shorter.ids)] == shorter.ids
    drafted = page.teams[page.teams.count("both") :]
    assert all(set(pair) == {"new", "old"} for pair in zip(drafted[::2], drafted[1::2], strict=False))
    assert [record["new_rank"] for record in page.records()] == [new.index(result) + 1 for result in page.ids]


@given(data=st.data(), depth=st.integers(1, 8))
def test_many_pages_are_those_drawn_one_by_one(data: Any, depth: int) -> None:
    sizes = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=5))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    new, old = random.random((2, offsets[-1]))
    queries = np.array(data.draw(st.lists(st.integers(0, len(sizes) - 1), max_size=9)), dtype=np.int64)
    drawn = [("p", place) for place in range(len(queries))]
    pages = interleave_pages(new, old, offsets, depth, drawn, queries)
    for place, query in enumerate(queries):
        rows = range(offsets[query], offsets[query + 1])
        page = interleave(new[rows], old[rows], depth, drawn[place], ids=rows)
        length = len(page.ids)
        assert pages.rows[place, :length].tolist() == page.ids
        assert [TEAMS[team] for team in pages.team[place, :length]] == page.teams
        assert pages.new_rank[place, :length].tolist() == page.new_ranks
        assert pages.old_rank[place, :length].tolist() == page.old_ranks
        assert (pages.rows[place, length:] == -1).all()
        assert (pages.team[place, length:] == -1).all()


def test_ties_are_broken_as_the_service_breaks_them() -> None:
    from cldrank import segments

    scores, ids = np.array([1.0, 0, 1, 1, 0]), list("abcde")
    order = segments.descending_order(scores, np.array([0, 5])).tolist()
    page = interleave(scores, scores, 5, "key", ids=ids)
    assert page.ids == [ids[row] for row in order]
    assert set(page.teams) == {"both"}


def test_a_page_stays_the_same_in_later_versions() -> None:
    """The hash is part of what a running experiment relies on."""
    page = interleave(list("abcdefgh"), list("hgfedcba"), 8, ("ada", 12, "May"))
    coins = int.from_bytes(blake2b(b"3:ada2:123:May", person=b"cldrank-draft").digest(), "little")
    first = ["old", "new"]
    assert page.teams[::2] == [first[coins >> bit & 1] for bit in range(4)]
    assert "".join(page.ids) == "ahbgfcde"
    assert interleave(list("abcdefgh"), list("hgfedcba"), 8, ("ada", "12", "May")) == page


def test_what_is_refused() -> None:
    cases: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
        ((["a"], ["a"], 0, 1), {}, UsageError, "`depth`"),
        ((["a"], ["a"], True, 1), {}, UsageError, "`depth`"),
        ((["a"], ["a"], 1001, 1), {}, UsageError, "1000"),
        ((["a"], ["a"], 1, 0.5), {}, UsageError, "`key`"),
        ((["a"], ["a"], 1, ("a", None)), {}, UsageError, "None"),
        ((["a"], ["a"], 1, True), {}, UsageError, "True"),
        ((["a", "b", "a"], ["a"], 1, 1), {}, DataError, "'a' twice"),
        (([["a"]], ["a"], 1, 1), {}, UsageError, "`ids`"),
        (([0.5], [0.5, 0.1], 1, 1), {"ids": ["a"]}, DataError, "1 candidate"),
        (([0.5, 0.1], [0.5, 0.1], 1, 1), {"ids": ["a", "a"]}, DataError, "'a' twice"),
        (([0.5, 0.1], [0.5, 0.1], 1, 1), {"ids": [["a"], ["b"]]}, UsageError, "`ids`"),
        (([0.5, np.nan], [0.5, 0.1], 1, 1), {"ids": ["a", "b"]}, DataError, "nan"),
    ]
    for arguments, options, error, words in cases:
        with pytest.raises(error, match=words):
            interleave(*arguments, **options)
    with pytest.raises(DataError, match="2 keys for 1"):
        interleave_pages([1.0], [1.0], np.array([0, 1]), 1, ["a", "b"])


def test_a_search_service_can_import_it_with_numpy_alone() -> None:
    program = (
        "import sys, numpy; before = {name.partition('.')[0] for name in sys.modules}\n"
        "from cldrank.online import assign, explore, interleave, swap\n"
        "interleave([2.0, 1.0], [1.0, 2.0], 2, 'k', ids=['a', 'b']), assign('a', 's', {'new': 1})\n"
        "print({name.partition('.')[0] for name in sys.modules} - before - sys.stdlib_module_names)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "{'cldrank'}"
