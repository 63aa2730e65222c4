"""How certain a mean is, and whether a ranker really beats another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.arguments import check_number, check_whole
from cldrank.errors import DataError
from cldrank.wording import count

Values = NDArray[np.float64]

_BLOCK = 1 << 21  # numbers held at a time: 16 MiB of float64


@dataclass(frozen=True)
class Interval:
    """An estimate with the interval that covers the truth in `confidence` of all samples, from n values.

    >>> print(Interval(0.412, 0.406, 0.418, confidence=0.9, n=5))
    0.412 ± 0.006
    >>> f"{Interval(0.412, 0.405, 0.420, confidence=0.9, n=200):.2f}"
    '0.41 [0.41, 0.42]'
    """

    estimate: float
    low: float
    high: float
    confidence: float
    n: int

    def __format__(self, spec: str) -> str:
        spec = spec or ".3f"
        above, below = self.high - self.estimate, self.estimate - self.low
        if np.isclose(above, below, rtol=1e-6, atol=1e-15):
            return f"{self.estimate:{spec}} ± {below:{spec.lstrip('+ ')}}"
        return f"{self.estimate:{spec}} [{self.low:{spec}}, {self.high:{spec}}]"

    def __str__(self) -> str:
        return format(self)


@dataclass(frozen=True)
class Comparison:
    """Two rankers over the same queries, first minus second.

    difference    the mean difference
    interval      its bootstrap interval over queries
    p_value       how often swapping the two at random within queries makes a difference at least as large
    n             queries compared
    wins, ties, losses    queries on which the first is better, equal, worse

    >>> print(paired_comparison([0.5, 0.6, 0.9, 0.4], [0.4, 0.5, 0.8, 0.4]))
    +0.075 ± 0.025, p = 0.26; 3 wins, 1 tie, 0 losses over 4 queries
    """

    difference: float
    interval: Interval
    p_value: float
    n: int
    wins: int
    ties: int
    losses: int

    def __str__(self) -> str:
        counts = f"{count(self.wins, 'win')}, {count(self.ties, 'tie')}, {count(self.losses, 'loss', 'losses')}"
        return f"{self.interval:+.3f}, p = {self.p_value:.2g}; {counts} over {self.n:,} queries"


def mean_interval(values: Any, confidence: float = 0.9) -> Interval:
    """The mean of a few repetitions, each with another seed, with its t-interval.

        mean ± t(n - 1 degrees of freedom) · standard deviation / sqrt(n)

    >>> print(mean_interval([0.41, 0.42, 0.40, 0.41, 0.42]))
    0.412 ± 0.008
    """
    numbers = _flat(values, "values")
    check_number("confidence", confidence, above=0, below=1)
    if np.isnan(numbers).any():
        raise DataError(f"value {int(np.isnan(numbers).argmax())} (from 0) is NaN; leave out repetitions that failed.")
    n = _enough(numbers, "value", "repeat with more seeds")
    from scipy.special import stdtrit

    middle = float(numbers.mean())
    half = float(stdtrit(n - 1, (1 + confidence) / 2) * numbers.std(ddof=1) / np.sqrt(n))
    return Interval(middle, middle - half, middle + half, confidence, n)


def bootstrap_interval(
    per_query_values: Any, confidence: float = 0.9, replicates: int = 2000, seed: int = 0
) -> Interval:
    """The mean over queries with its percentile bootstrap interval: queries are resampled with replacement.

    Queries without a value (NaN) are left out.

    >>> print(bootstrap_interval([0.0, 0.5, 1.0, 0.5, 0.25, 0.75]))
    0.500 ± 0.208
    """
    numbers = _flat(per_query_values, "values")
    check_number("confidence", confidence, above=0, below=1)
    check_whole("replicates", replicates, least=1)
    numbers = numbers[~np.isnan(numbers)]
    n = _enough(numbers, "query with a value", "measure more queries")
    generator = np.random.default_rng(seed)
    means = np.empty(replicates)
    for block in _blocks(replicates, n):
        drawn = generator.integers(0, n, size=(block.stop - block.start, n), dtype=np.int32)
        means[block] = numbers[drawn].mean(axis=1)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(numbers.mean()), float(low), float(high), confidence, n)


def paired_comparison(a: Any, b: Any, confidence: float = 0.9, permutations: int = 10_000, seed: int = 0) -> Comparison:
    """Compare two rankers by their values on the same queries, a minus b; queries that both skip (NaN) are left out.

    The p-value is two-sided, by randomisation: without a difference, either ranker could have earned either value of a
    query. Of random swaps it is (1 + as large) / (1 + permutations).

    >>> paired_comparison([0.5, 0.6, 0.9, 0.4], [0.4, 0.5, 0.8, 0.4]).wins
    3
    """
    first, second = _flat(a, "a"), _flat(b, "b")
    check_whole("permutations", permutations, least=1)
    if len(first) != len(second):
        raise DataError(f"a has {len(first):,} queries and b {len(second):,}; compare values of the same queries.")
    lonely = np.isnan(first) != np.isnan(second)
    if lonely.any():
        raise DataError(
            f"query {int(lonely.argmax())} (from 0) has a value in a or b alone; "
            "measure both on the same labels, with the same handling of empty queries."
        )
    differences = (first - second)[~np.isnan(first)]
    interval = bootstrap_interval(differences, confidence, seed=seed)
    above, below = int((differences > 0).sum()), int((differences < 0).sum())
    return Comparison(
        difference=interval.estimate,
        interval=interval,
        p_value=_randomisation(differences, permutations, seed),
        n=interval.n,
        wins=above,
        ties=interval.n - above - below,
        losses=below,
    )


def _randomisation(differences: Values, permutations: int, seed: int) -> float:
    """The share of random sign flips whose sum is at least as far from 0."""
    differences = differences[differences != 0]  # the sign of 0 changes nothing
    n = len(differences)
    total = differences.sum()
    least = abs(total) - 1e-12 * np.abs(differences).sum()  # sums of the same numbers may differ in the last digits
    generator = np.random.default_rng(seed)
    as_large = 0
    for block in _blocks(permutations, max(n, 1)):
        drawn = generator.integers(0, 256, size=(block.stop - block.start, (n + 7) // 8), dtype=np.uint8)
        flipped = np.unpackbits(drawn, axis=1, count=n).astype(np.float64)  # eight coins from each byte
        as_large += int((np.abs(total - 2 * (flipped @ differences)) >= least).sum())
    return (1 + as_large) / (1 + permutations)


def _blocks(rows: int, width: int) -> Iterator[slice]:
    """Slices of the rows, so short that a block of that width stays small."""
    step = max(_BLOCK // width, 1)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def _flat(values: Any, what: str) -> Values:
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{what} must be numbers.") from None
    if numbers.ndim != 1:
        raise DataError(f"{what} must be a flat array of numbers, not of shape {numbers.shape}.")
    if np.isinf(numbers).any():
        raise DataError(f"entry {int(np.isinf(numbers).argmax())} (from 0) of {what} is infinite; values are finite.")
    return numbers


def _enough(numbers: Values, unit: str, advice: str) -> int:
    n = len(numbers)
    if n < 2:
        raise DataError(f"an interval needs at least 2 values, and there is {n or 'no'} {unit}; {advice}.")
    return n
