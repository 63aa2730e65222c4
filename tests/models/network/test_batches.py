import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from cldrank import segments
from cldrank.models.network.batches import BatchSource
from cldrank.models.network.lists import Lists

CPU = torch.device("cpu")


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
    (packed,) = lists.pack(ratio)
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


def test_rows_drawn_again_are_others() -> None:
    group = group_of(9, [40, 40], 1.0)
    random = torch.Generator().manual_seed(0)
    assert drawn(group, random) != drawn(group, random)
    again = torch.Generator().manual_seed(5), torch.Generator().manual_seed(5)
    assert drawn(group, again[0]) == drawn(group, again[1])


def test_lists_with_nothing_unshown_draw_nothing() -> None:
    group = group_of(4, [0, 0], 1.0)
    group.draw(torch.Generator().manual_seed(0))
    batch = group.batch(torch.tensor([1]))
    assert batch.rows.tolist() == [[4, 5, 6, 7]]
    assert batch.drawn.shape == (1, 0)
    assert batch.unshown.tolist() == [0]
    last = group_of(4, [3, 0], 1.0)  # beside one that has some, at the very end
    assert [len(rows) for rows in drawn(last, torch.Generator())] == [2, 0]


def test_a_batch_has_the_lists_asked_for() -> None:
    group = group_of(3, [2, 5, 0], 2.0)
    group.draw(torch.Generator().manual_seed(0))
    batch = group.batch(torch.tensor([2, 0]))
    assert batch.rows.shape == (2, 3 + group.draws)
    assert batch.rows[:, :3].tolist() == [[6, 7, 8], [0, 1, 2]]
    assert batch.unshown.tolist() == [0, 2]
    assert batch.pages.tolist() == [3, 1]
    assert batch.drawn.tolist() == [[0, 0], [1, 1]]
