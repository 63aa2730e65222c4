"""What was run and what came out, in sentences."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from cldrank.drawing.numbers import percent
from cldrank.errors import CldrankError
from cldrank.experiment.results import Summary
from cldrank.report.labels import key_name, setting_value
from cldrank.report.loops import what_the_loop_shows
from cldrank.report.sections import Section
from cldrank.wording import count, listed

_PREFERRED = "nDCG@3"  # the measure of a sentence that has room for one


def data_name(name: str) -> str:
    """The full name of a data set of the catalogue, or what it is called here.

    >>> data_name("msrd"), data_name("mine.parquet")
    ('Movie Search Ranking Dataset (msrd)', 'mine.parquet')
    """
    from cldrank.data.catalogue import get

    try:
        title = get(name).title
    except CldrankError:
        return name
    return name if title == name else f"{title} ({name})"


def experiment_title(name: str) -> str:
    """The title of a shipped experiment, or what it is called.

    >>> experiment_title("table1"), experiment_title("mine")
    ('Table 1: ranking accuracy', 'mine')
    """
    from cldrank.experiment.definition import SHIPPED, read

    return read(name).title if name in SHIPPED else name


def what_was_run(section: Section) -> str:
    """Sessions, depth, bias, noise, what varied, methods and seeds."""
    fixed = section.fixed
    parts = []
    sessions = fixed.get("simulation.sessions")
    depth = fixed.get("simulation.depth")
    if sessions is not None or depth is not None:
        shown = "the pages" if depth is None else f"the top {setting_value(depth)}"
        many = "Simulated sessions" if sessions is None else f"{setting_value(sessions)} simulated sessions"
        first = "a production ranker"
        whose = f"the ranker of the round before (at first {first})" if section.is_loop else first
        parts.append(f"{many} {'a round ' if section.is_loop else ''}on {shown} of {whose}")
    if "simulation.eta" in fixed:
        assumed = fixed.get("propensities.eta", fixed["simulation.eta"])
        taken = "" if assumed == fixed["simulation.eta"] else f" (the methods assume {setting_value(assumed)})"
        parts.append(f"position bias η = {setting_value(fixed['simulation.eta'])}{taken}")
    if "simulation.noise" in fixed:
        parts.append(f"click noise {setting_value(fixed['simulation.noise'])}")
    sentences = [f"{', '.join(parts)}."] if parts else []
    varied = _varied(section)
    if varied:
        sentences.append(f"Varied: {'; '.join(varied)}.")
    folds = f", {listed(section.folds)}" if section.folds else ""
    sentences.append(f"{count(len(section.methods), 'method')}, {_seeds(section.seeds)}{folds}.")
    return " ".join(sentences)


def what_came_out(section: Section) -> str:
    """The best method and those tied with it, with the share of the gap it closes."""
    if not section.has_values:
        return "No unit has finished yet." if not section.failed else "All units failed; the errors are below."
    measure = _PREFERRED if _PREFERRED in section.measures else section.measures[0]
    settings = section.settings
    if len(settings) == 1:
        return _winner(section, settings[0], measure)
    wins, firsts, chances = Counter[str](), Counter[str](), 0
    for setting in settings:
        rivals = _rivals(section, setting, measure)
        leading = [cell.method for cell in rivals if cell.best or cell.tied]
        wins.update(leading)
        firsts.update(cell.method for cell in rivals if cell.best)
        chances += bool(leading)
    if section.is_loop and (told := what_the_loop_shows(section, measure)):
        return told
    if not chances:
        return _no_best(section)
    order = sorted(wins, key=lambda name: (-wins[name], -firsts[name]))
    named = [f"{method} in {wins[method]}" for method in order]
    found = f"By {measure}, best or statistically tied in {count(chances, 'setting')}: {listed(named)}."
    cells = [cell for setting in settings if (cell := section.known(setting, order[0], measure)) is not None]
    shares = sorted(round(100 * cell.gap) for cell in cells if cell.gap == cell.gap)
    if not shares or order[0].casefold() == "naive":  # 0% by definition
        return found
    low, high = (percent(share / 100) for share in (shares[0], shares[-1]))
    span = low if low == high else f"between {low} and {high}"
    return f"{found} {order[0]} closes {span} of the gap from Naive to Oracle."


def _winner(section: Section, setting: str, measure: str) -> str:
    rivals = _rivals(section, setting, measure)
    alone = rivals[0] if len(rivals) == 1 and rivals[0].seeds else None
    best = next((cell for cell in rivals if cell.best), alone)
    if best is None:
        return _no_best(section)
    value = f"{best.mean:.3f}" if best.interval is None else f"{best.interval:.3f}"
    if len(rivals) == 1:
        return f"{best.method} has {measure} {value}; there is no other method to compare it with."
    tied = [cell.method for cell in rivals if cell.tied and not cell.best]
    found = f"{best.method} is best by {measure} with {value}"
    if tied:
        found += f", statistically tied with {listed(tied)}"
    if best.gap == best.gap and best.method.casefold() != "naive":  # 0% by definition
        found += f"; it closes {percent(best.gap)} of the gap from Naive to Oracle"
    return f"{found}."


def _no_best(section: Section) -> str:
    """One seed is not enough, or nothing but what learns from labels has finished."""
    if any(cell.seeds for cell in section.cells.values() if cell.method in section.rivals):
        return "No method is called best: that takes two seeds or more."
    found = [label for label in section.methods if label not in section.rivals]
    have = "has" if len(found) == 1 else "have"
    return f"Only {listed(found)} {have} finished; no method that learns from clicks has."


def _rivals(section: Section, setting: str, measure: str) -> list[Summary]:
    found = (section.known(setting, method, measure) for method in section.rivals)
    return [cell for cell in found if cell is not None]


def _varied(section: Section) -> list[str]:
    values: dict[str, list[str]] = {}
    for panel in section.panels:
        for setting in panel.settings:
            for key, value in json.loads(setting).items():
                known = values.setdefault(key, [])
                if setting_value(value) not in known:
                    known.append(setting_value(value))
    return [
        f"{key_name(key)} from {known[0]} to {known[-1]}" if len(known) > 4 else f"{key_name(key)} = {listed(known)}"
        for key, known in values.items()
    ]


def _seeds(seeds: Sequence[int]) -> str:
    if len(seeds) == 1:
        return f"one seed ({seeds[0]})"
    whole = len(seeds) > 2 and seeds[-1] - seeds[0] == len(seeds) - 1
    return f"{len(seeds)} seeds ({f'{seeds[0]} to {seeds[-1]}' if whole else listed([str(seed) for seed in seeds])})"
