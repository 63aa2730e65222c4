"""The lower bound of `Envelope`: how often it holds, how near it comes, and how it fails.

    python benchmarks/envelope.py coverage [--logs 100]
    python benchmarks/envelope.py failures [--logs 100]
    CLDRANK_DATA=… python benchmarks/envelope.py msrd
    CLDRANK_DATA=… python benchmarks/envelope.py ranklens
    python benchmarks/envelope.py speed

`coverage` and `failures` simulate one ranker that never changes: 9,000 queries, five positions, examined with 1/k. The
results at positions 1 to 5 are relevant with 0.6, 0.45, 0.35, 0.3 and 0.25; a relevant one is clicked with a
probability drawn from a distribution of its own, an irrelevant one with a tenth of such. Tables are in Markdown:

    low ≤ ρ      the share of positions 2 to 5 where the lower end of the 90% interval is at most the curve; 95% is due
    holds U      the share where the interval holds what endless clicks would give; 90% is due
    quantile     the 0.9 quantile of the distribution of click probabilities, deconvolved, over that of position 1
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cldrank as cr
from cldrank.clicks.candidates import Candidates
from cldrank.clicks.simulate import ClickModel, PositionBased, Simulation, TrustBiased
from cldrank.clicks.table import ClickTable
from cldrank.deconvolution import RateCounts
from cldrank.errors import UnidentifiableError
from cldrank.propensity import ClickThrough, Envelope, Propensities, Randomised
from cldrank.propensity.curve_checks import held_to_clicks

Floats = NDArray[np.float64]

QUERIES, SIZE = 9000, 5
EXAMINED = 1 / np.arange(1, SIZE + 1)
SHARES = (0.6, 0.45, 0.35, 0.3, 0.25)
SESSIONS = (1e4, 1e5, 1e6)
EXACT = 400_000  # results drawn to know what endless clicks would give


@dataclass(frozen=True)
class World:
    """How relevant the results of one ranker are, and how they are clicked.

    beta        of the probability that an examined relevant result is clicked; None: always
    shares      of relevant results at each position
    noise       what an irrelevant result has of such a probability, at each position
    """

    beta: tuple[float, float] | None = None
    shares: tuple[float, ...] = SHARES
    noise: tuple[float, ...] = (0.1,) * SIZE

    def attraction(self, random: np.random.Generator, queries: int) -> Floats:
        """(queries, positions) P(click | examined)."""
        shape = (queries, SIZE)
        own = np.ones(shape) if self.beta is None else random.beta(*self.beta, shape)
        return np.where(random.random(shape) < np.array(self.shares), own, own * np.array(self.noise))

    def log(self, sessions: float, seed: int) -> ClickTable:
        """Queries are searched alike often."""
        random = np.random.default_rng([seed, int(sessions)])
        shown = np.repeat(random.poisson(sessions / QUERIES, QUERIES), SIZE)
        clicks = random.binomial(shown, (self.attraction(random, QUERIES) * EXAMINED).ravel())
        cells = np.flatnonzero(shown)
        rows = Candidates(np.arange(QUERIES + 1) * SIZE, np.arange(QUERIES), np.arange(QUERIES * SIZE))
        return ClickTable(rows, cells, cells % SIZE + 1, shown[cells], clicks[cells])

    def limit(self, others: int) -> Floats:
        """What endless clicks would give."""
        r = self.attraction(np.random.default_rng(0), EXACT)
        mean = (r ** (others + 1)).mean(axis=0) / (r**others).mean(axis=0)
        found: Floats = EXAMINED * mean / mean[0]
        return found


COVERAGE = {
    "binary, noise 0.1": World(),
    "Beta(5, 2)": World((5, 2)),
    "Beta(2, 2)": World((2, 2)),
    "Beta(2, 8)": World((2, 8)),
    "Beta(2, 2), random order": World((2, 2), (0.4,) * SIZE),
}
TRUST = tuple(0.65 / k for k in range(1, SIZE + 1))
FAILURES = {
    "trust in the top": World(noise=TRUST),
    "the same, little is relevant": World(noise=TRUST, shares=(0.2, 0.15, 0.12, 0.1, 0.08)),
    "noise 0.5 at the top alone": World(noise=(0.5, 0.1, 0.1, 0.1, 0.1)),
    "best results last": World((2, 2), shares=SHARES[::-1]),
}


def main() -> None:
    studies: dict[str, Callable[[int], None]] = {
        "coverage": lambda logs: simulated(COVERAGE, logs),
        "failures": lambda logs: simulated(FAILURES, logs),
        "msrd": lambda _: msrd(),
        "ranklens": lambda _: ranklens(),
        "speed": lambda _: speed(),
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="?", default="coverage", choices=list(studies))
    parser.add_argument("--logs", type=int, default=100, help="simulated for each line")
    options = parser.parse_args()
    studies[options.study](options.logs)


def row(*entries: object) -> None:
    print(f"| {' | '.join(map(str, entries))} |", flush=True)


def numbers(values: Any) -> str:
    """Without the first position, which is 1."""
    return " ".join("–" if np.isnan(value) else f"{value:.3f}".lstrip("0") for value in values[1:])


def mean(values: Floats) -> Floats:
    """Of the logs whose bound was not refused, by position; NaN where it nearly always was."""
    known = ~np.isnan(values)
    sums = np.where(known, values, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.where(known.mean(axis=0) > 0.1, sums, np.nan)


def percent(values: Any) -> str:
    return f"{100 * np.nanmean(values):.0f}%"


def simulated(worlds: dict[str, World], logs: int) -> None:
    row("relevance", "sessions", "refused", "bound", "lower end", "low ≤ ρ", "holds U", "quantile")
    row(*["---"] * 8)
    for name, world in worlds.items():
        limits = {others: world.limit(others) for others in (1, 2, 3)}
        for sessions in SESSIONS:
            found = [measured(world.log(sessions, seed), limits) for seed in range(logs)]
            parts = {key: np.array([one[key] for one in found]) for key in found[0]}
            row(
                name,
                f"{sessions:,.0f}",
                percent(np.isnan(parts["value"][:, 1:])),
                numbers(mean(parts["value"])),
                numbers(mean(parts["low"])),
                percent(parts["below"][:, 1:]),
                percent(parts["held"][:, 1:]),
                numbers(mean(parts["quantile"])),
            )


def measured(log: ClickTable, limits: dict[int, Floats]) -> dict[str, Floats]:
    """All by position; NaN where the bound is refused."""
    found = {name: np.full(SIZE, np.nan) for name in ("value", "low", "below", "held")}
    found["quantile"] = quantiles(log)
    rho = upper_positions(log)
    if rho is not None and rho.low is not None and rho.high is not None:
        size = len(rho)
        counts = {
            others: np.bincount(log.position[log.clicks > others] - 1, minlength=SIZE)[:size] for others in limits
        }
        used = np.ones(size, dtype=int)
        for others in (2, 3):
            used[np.minimum(counts[others], counts[others][0]) >= 200] = others
        limit = np.array([limits[others][at] for at, others in enumerate(used)])
        found["value"][:size], found["low"][:size] = rho.values, rho.low
        found["below"][:size] = rho.low <= EXAMINED[:size]
        found["held"][:size] = (rho.low <= limit) & (limit <= rho.high)
    return found


def upper_positions(log: ClickTable) -> Propensities | None:
    """The bound of as many positions as have one."""
    depth = log.depth
    while depth >= 2:
        try:
            return Envelope(depth=depth).fit(log)
        except UnidentifiableError as refusal:
            depth = min(refusal.depth, depth - 1)
    return None


def quantiles(log: ClickTable, share: float = 0.9) -> Floats:
    """The quantile of click probabilities by position, over that of the first."""
    best = []
    for position in range(1, log.depth + 1):
        at = log.position == position
        rates, mass = RateCounts.of(log.clicks[at], log.impressions[at]).fit()
        best.append(float(np.interp(share, np.cumsum(mass) - mass / 2, rates)))
    return np.array(best) / best[0]


# -- real queries, real clicks ---------------------------------------------------------------------------------------


def data_folder() -> Path:
    folder = os.environ.get("CLDRANK_DATA")
    if not folder:
        raise SystemExit("set CLDRANK_DATA to the folder that holds msrd and ranklens.")
    return Path(folder)


def msrd() -> None:
    """Real queries and labels, a ranker trained on 1% of them, simulated clicks; also raising a wrong curve."""
    data = cr.load(data_folder() / "msrd" / "train.parquet")
    scores = cr.SVMRank(fraction=0.01, run=cr.Run(seed=0)).fit(data).predict(data)
    models: dict[str, ClickModel] = {f"η = {eta:g}": PositionBased(eta, 0.1) for eta in (0.1, 1, 2)}
    models["trust, η = 1"] = TrustBiased(1)
    row("clicks", "sessions", "curve", "bound", "lower end", "quantile", "click-through", "assumed η′", "raised to")
    row(*["---"] * 9)
    for name, model in models.items():
        simulation = Simulation(data, scores, model, depth=5)
        true = model.propensities(5)
        wrong = 1 if name == "η = 0.1" else 2
        for sessions in (1e3, 1e4, 1e5, 1e6):
            log = simulation.draw(sessions, seed=0)
            rho = upper_positions(log)
            raised = held_quietly(Propensities.power(wrong, 5), log)
            row(
                name,
                f"{sessions:,.0f}",
                numbers(true),
                "refused" if rho is None else numbers(rho.values),
                "" if rho is None or rho.low is None else numbers(rho.low),
                numbers(quantiles(log)),
                numbers(ClickThrough(refuse_above=9).fit(log).values) if sessions > 1e3 else "",
                wrong,
                numbers(raised.values) if raised.raised else "not raised",
            )


def held_quietly(rho: Propensities, log: ClickTable) -> Propensities:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return held_to_clicks(rho, log)


def ranklens() -> None:
    """Real clicks in random order, where the curve is known."""
    columns = {"session_id": "ranking", "user_id": "user", "timestamp": "ts_ms", "doc_id": "item", "clicked": "click"}
    clicks = ClickTable.read(data_folder() / "ranklens" / "impressions.parquet", columns=columns, one_query=True)
    true, rho = Randomised().fit(clicks), Envelope().fit(clicks)
    row("position", *range(1, len(true) + 1))
    row(*["---"] * (len(true) + 1))
    assert rho.low is not None
    assert rho.high is not None
    assert true.high is not None
    curves = {"Randomised": true.values, "Envelope": rho.values, "low": rho.low, "high": rho.high}
    curves["quantile"] = quantiles(clicks)
    for name, values in curves.items():
        row(name, *(f"{value:.3f}" for value in values))
    print(
        f"low ≤ Randomised: {percent((rho.low <= true.values)[1:])}, ≤ its upper end: {percent(rho.low <= true.high)}"
    )


def speed() -> None:
    """Against a sort of the cells, as benchmarks/propensity.py has it."""
    for queries in (10_000, 200_000):
        random = np.random.default_rng(0)
        shown = np.repeat(np.maximum(1, random.pareto(1, queries) * 10).astype(np.int64), SIZE)
        position = np.tile(np.arange(1, SIZE + 1), queries)
        clicks = random.binomial(shown, random.beta(0.6, 2, queries * SIZE) / position)
        rows = Candidates(np.arange(queries + 1) * SIZE, np.arange(queries), np.arange(queries * SIZE))
        log = ClickTable(rows, np.arange(queries * SIZE), position, shown, clicks)
        sorting = seconds(lambda: np.lexsort((log.position, log.row)))  # noqa: B023
        for name, work in {
            "Envelope().fit": lambda: Envelope().fit(log),  # noqa: B023
            "a method's check": lambda: held_quietly(Propensities.power(2, SIZE), log),  # noqa: B023
        }.items():
            taken = seconds(work)
            print(f"{log.n_cells:,} cells, {name}: {taken:.3f} s, {taken / sorting:.1f} × a lexsort of the cells")


def seconds(work: Callable[[], Any]) -> float:
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return float(np.median(taken))


if __name__ == "__main__":
    main()
