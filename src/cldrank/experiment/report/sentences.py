"""What was run and what came out, in sentences."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from cldrank.errors import CldrankError
from cldrank.experiment.report.contents import Block
from cldrank.experiment.report.words import count, key_name, listed, number
from cldrank.experiment.results import Summary

_PREFERRED = "nDCG@3"  # the measure of a sentence that has room for one


def data_title(name: str) -> str:
    """The full name of a data set of the catalogue, or what it is called here.

    >>> data_title("msrd"), data_title("mine.parquet")
    ('Movie Search Ranking Dataset', 'mine.parquet')
    """
    from cldrank.data.catalogue import get

    try:
        return get(name).title
    except CldrankError:
        return name


def experiment_title(name: str) -> str:
    """The title of a shipped experiment, or what it is called.

    >>> experiment_title("table1"), experiment_title("mine")
    ('Table 1: ranking accuracy', 'mine')
    """
    from cldrank.experiment.definition import SHIPPED, read

    return read(name).title if name in SHIPPED else name


def what_was_run(block: Block) -> str:
    """Sessions, cutoff, bias, noise, what varied, methods and seeds."""
    fixed = block.fixed
    parts = []
    sessions = fixed.get("simulation.sessions")
    cutoff = fixed.get("simulation.depth")
    if sessions is not None or cutoff is not None:
        shown = "the pages" if cutoff is None else f"the top {number(cutoff)}"
        many = "Simulated sessions" if sessions is None else f"{number(sessions)} simulated sessions"
        parts.append(f"{many} on {shown} of a production ranker")
    if "simulation.eta" in fixed:
        assumed = fixed.get("propensities.eta", fixed["simulation.eta"])
        taken = "" if assumed == fixed["simulation.eta"] else f" (the methods take it for {number(assumed)})"
        parts.append(f"position bias η = {number(fixed['simulation.eta'])}{taken}")
    if "simulation.noise" in fixed:
        parts.append(f"click noise {number(fixed['simulation.noise'])}")
    told = [f"{', '.join(parts)}."] if parts else []
    varied = _varied(block)
    if varied:
        told.append(f"Varied: {'; '.join(varied)}.")
    folds = f", {listed(block.folds)}" if block.folds else ""
    told.append(f"{count(len(block.methods), 'method')}, {_seeds(block.seeds)}{folds}.")
    return " ".join(told)


def what_came_out(block: Block) -> str:
    """The best method and those tied with it, with the share of the gap it closes."""
    if not block.has_values:
        return "No unit has finished yet." if not block.failed else "All units failed; the errors are below."
    measure = _PREFERRED if _PREFERRED in block.measures else block.measures[0]
    settings = [setting for panel in block.panels for setting in panel.settings]
    if len(settings) == 1:
        return _winner(block, settings[0], measure)
    wins, firsts, chances = Counter[str](), Counter[str](), 0
    for setting in settings:
        rivals = _rivals(block, setting, measure)
        leading = [cell.method for cell in rivals if cell.best or cell.tied]
        wins.update(leading)
        firsts.update(cell.method for cell in rivals if cell.best)
        chances += bool(leading)
    if not chances:
        return "Only Oracle has finished, and it has no rival here."
    order = sorted(wins, key=lambda name: (-wins[name], -firsts[name]))
    named = [f"{method} in {wins[method]}" for method in order]
    told = f"By {measure}, best or statistically tied in {count(chances, 'setting')}: {listed(named)}."
    cells = [cell for setting in settings if (cell := block.known(setting, order[0], measure)) is not None]
    shares = sorted(round(100 * cell.gap) for cell in cells if cell.gap == cell.gap)
    if not shares or order[0].casefold() == "naive":  # where the way begins
        return told
    low, high = (f"{share}%".replace("-", "−") for share in (shares[0], shares[-1]))
    span = low if low == high else f"between {low} and {high}"
    return f"{told} {order[0]} closes {span} of the gap from Naive to Oracle."


def _winner(block: Block, setting: str, measure: str) -> str:
    rivals = _rivals(block, setting, measure)
    best = next((cell for cell in rivals if cell.best), None)
    if best is None:
        return "Only Oracle has finished, and it has no rival here."
    value = f"{best.mean:.3f}" if best.interval is None else f"{best.interval:.3f}"
    if len(rivals) == 1:
        return f"{best.method} has {measure} {value}; there is no other method to compare it with."
    tied = [cell.method for cell in rivals if cell.tied and not cell.best]
    told = f"{best.method} is best by {measure} with {value}"
    if tied:
        told += f", statistically tied with {listed(tied)}"
    if best.gap == best.gap and best.method.casefold() != "naive":  # where the way begins
        told += f"; it closes {100 * best.gap:.0f}% of the gap from Naive to Oracle".replace("-", "−")
    return f"{told}."


def _rivals(block: Block, setting: str, measure: str) -> list[Summary]:
    found = (block.known(setting, method, measure) for method in block.methods)
    return [cell for cell in found if cell is not None and cell.method.casefold() != "oracle"]


def _varied(block: Block) -> list[str]:
    values: dict[str, list[str]] = {}
    for panel in block.panels:
        for setting in panel.settings:
            for key, value in json.loads(setting).items():
                known = values.setdefault(key, [])
                if number(value) not in known:
                    known.append(number(value))
    return [
        f"{key_name(key)} from {known[0]} to {known[-1]}" if len(known) > 4 else f"{key_name(key)} = {listed(known)}"
        for key, known in values.items()
    ]


def _seeds(seeds: Sequence[int]) -> str:
    if len(seeds) == 1:
        return f"one seed ({seeds[0]})"
    whole = len(seeds) > 2 and seeds[-1] - seeds[0] == len(seeds) - 1
    return f"{len(seeds)} seeds ({f'{seeds[0]} to {seeds[-1]}' if whole else listed([str(seed) for seed in seeds])})"
