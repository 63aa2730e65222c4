"""Words for numbers, lists and times, as messages and pages use them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_LONGEST = 200  # letters of a word in a list


def listed(words: Iterable[object], last: str = "and") -> str:
    """A list in words.

    >>> listed(["a"]), listed(["a", "b"]), listed([1, 2, 3], "or")
    ('a', 'a and b', '1, 2 or 3')
    """
    texts = [str(word) for word in words]
    return " ".join([", ".join(texts[:-1]), last, texts[-1]]) if len(texts) > 1 else "".join(texts)


def some(words: Iterable[object], most: int = 6) -> str:
    """The first few of many, and how many more there are; a very long word is cut.

    >>> some(["a", "b", "c"], most=2), some([1, 2])
    ('a, b and 1 more', '1, 2')
    """
    texts = [text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…" for text in map(str, words)]
    return ", ".join(texts[:most]) + (f" and {len(texts) - most:,} more" if len(texts) > most else "")


def count(number: int, word: str, plural: str | None = None) -> str:
    """A number with its noun, such as `2,000 rows`."""
    return f"{number:,} {word if number == 1 else plural or word + 's'}"


def kind_of(value: object) -> str:
    """The type of a value, with its article: a list, an int, None."""
    return "None" if value is None else with_article(type(value).__name__)


def with_article(name: str) -> str:
    """The name of a class with its article as spoken: an MLP, a Linear, an SVMRank."""
    spelled = name[:2].isupper() and name[0] in "FHLMNRSX"  # an M, an S
    return f"{'an' if spelled or name[:1] in 'AEIOaeio' else 'a'} {name}"


def positions(numbers: Sequence[int], most: int = 3) -> str:
    """Positions in words, counted from 1; of many, the first few.

    >>> positions([2, 3, 4, 5]), positions([4, 5, 6, 9, 10])
    ('positions 2, 3, 4 and 5', 'positions 4, 5, 6 and 2 more')
    """
    word = "position" if len(numbers) == 1 else "positions"
    return f"{word} {listed(numbers) if len(numbers) <= most + 1 else some(numbers, most)}"


def duration(seconds: float) -> str:
    """A length of time: 0.03 s, 12.3 s, 1 min 40 s, 2 h 1 min."""
    if round(seconds, 1) < 60:
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
