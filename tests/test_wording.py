import pytest

from cldrank.wording import count, duration, listed, some


@pytest.mark.parametrize(
    ("words", "expected"),
    [([], ""), (["a"], "a"), (["a", "b"], "a and b"), ([1, 2, 3], "1, 2 and 3"), (iter("abc"), "a, b and c")],
)
def test_a_list_in_words(words: list[object], expected: str) -> None:
    assert listed(words) == expected
    assert listed(["a", "b", "c"], "or") == "a, b or c"


@pytest.mark.parametrize(
    ("words", "most", "expected"),
    [
        (["a", "b"], 2, "a, b"),
        (["a", "b", "c"], 2, "a, b and 1 more"),
        (range(2006), 2, "0, 1 and 2,004 more"),
        (["x" * 10_000], 6, "x" * 200 + "…"),
    ],
)
def test_the_first_few_of_many(words: list[object], most: int, expected: str) -> None:
    assert some(words, most) == expected


def test_how_many_there_are() -> None:
    assert [count(number, "row") for number in (0, 1, 2, 1_000_000)] == ["0 rows", "1 row", "2 rows", "1,000,000 rows"]
    assert count(2, "query", "queries") == "2 queries"


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.034, "0.03 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 0 s"),
        (3599.4, "59 min 59 s"),
        (3599.6, "1 h 0 min"),
        (100_000, "27 h 46 min"),
    ],
)
def test_a_length_of_time(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected
