"""What was run and what came out, in sentences."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence

from cldrank.documents.numbers import percent
from cldrank.experiment.results import Summary
from cldrank.report.sections import Section, key_name, setting_value
from cldrank.wording import count, listed

_PREFERRED = "nDCG@3"  # the measure of a sentence that has room for one


def what_was_run(section: Section) -> str:
    """Sessions, depth, bias, noise, what varied, methods and seeds."""
    fixed = {key.removeprefix("simulation."): setting_value(value) for key, value in section.fixed.items()}
    parts = []
    if "sessions" in fixed or "depth" in fixed:
        is_loop = section.across == "loop.rounds"
        sessions = f"{fixed['sessions']} simulated sessions" if "sessions" in fixed else "Simulated sessions"
        shown = f"the top {fixed['depth']}" if "depth" in fixed else "the pages"
        ranker = "the ranker of the round before (at first a production ranker)" if is_loop else "a production ranker"
        parts.append(f"{sessions} {'a round ' if is_loop else ''}on {shown} of {ranker}")
    if "eta" in fixed:
        assumed = fixed.get("propensities.eta", fixed["eta"])
        wrong = "" if assumed == fixed["eta"] else f" (the methods assume {assumed})"
        parts.append(f"position bias η = {fixed['eta']}{wrong}")
    if "noise" in fixed:
        parts.append(f"click noise {fixed['noise']}")
    sentences = [f"{', '.join(parts)}."] if parts else []
    if varied := _varied(section):
        sentences.append(f"Varied: {'; '.join(varied)}.")
    folds = section.distinct("fold")
    methods = count(len(section.methods), "method")
    sentences.append(f"{', '.join([methods, _seeds(section.seeds), *([listed(folds)] if folds else [])])}.")
    return " ".join(sentences)


def _varied(section: Section) -> list[str]:
    values: dict[str, dict[str, None]] = {}
    for setting in section.settings:
        for key, value in json.loads(setting).items():
            values.setdefault(key, {})[setting_value(value)] = None
    return [
        f"{key_name(key)} from {known[0]} to {known[-1]}" if len(known) > 4 else f"{key_name(key)} = {listed(known)}"
        for key, known in ((key, list(known)) for key, known in values.items())
    ]


def _seeds(seeds: Sequence[int]) -> str:
    if len(seeds) == 1:
        return f"one seed ({seeds[0]})"
    whole = len(seeds) > 2 and seeds[-1] - seeds[0] == len(seeds) - 1
    return f"{len(seeds)} seeds ({f'{seeds[0]} to {seeds[-1]}' if whole else listed([str(seed) for seed in seeds])})"


def what_came_out(section: Section) -> str:
    """The best method and those tied with it, with the share of the gap it closes."""
    if all(math.isnan(cell.mean) for cell in section.cells.values()):
        return "All units failed; the errors are below."
    measure = _PREFERRED if _PREFERRED in section.measures else section.measures[0]
    if len(section.settings) == 1:
        return _winner(section, measure)
    leading = [cells for setting in section.settings if (cells := section.leading(setting, measure))]
    if not leading:
        return _no_best(section)
    wins = Counter(cell.method for cells in leading for cell in cells)
    firsts = Counter(cell.method for cells in leading for cell in cells if cell.best)
    order = sorted(wins, key=lambda method: (-wins[method], -firsts[method]))
    named = [f"{method} in {wins[method]}" for method in order]
    text = f"By {measure}, best or statistically tied in {count(len(leading), 'setting')}: {listed(named)}."
    cells = [cell for setting in section.settings if (cell := section.known(setting, order[0], measure)) is not None]
    shares = sorted(round(100 * cell.gap) for cell in cells if _has_share(cell))
    if not shares:
        return text
    low, high = (percent(share / 100) for share in (shares[0], shares[-1]))
    span = low if low == high else f"between {low} and {high}"
    return f"{text} {order[0]} closes {span} of the gap from Naive to Oracle."


def _winner(section: Section, measure: str) -> str:
    setting = section.settings[0]
    rivals = [cell for method in section.rivals if (cell := section.known(setting, method, measure)) is not None]
    if len(rivals) == 1:
        return f"{rivals[0].method} has {measure} {value_words(rivals[0])}; there is no other to compare it with."
    leading = section.leading(setting, measure)
    best = next((cell for cell in leading if cell.best), None)
    if best is None:
        return _no_best(section)
    text = f"{best.method} is best by {measure} with {value_words(best)}"
    if tied := [cell.method for cell in leading if not cell.best]:
        text += f", statistically tied with {listed(tied)}"
    if _has_share(best):
        text += f"; it closes {percent(best.gap)} of the gap from Naive to Oracle"
    return f"{text}."


def value_words(cell: Summary) -> str:
    """The mean, with its interval if there is one."""
    return f"{cell.mean:.3f}" if cell.interval is None else f"{cell.interval:.3f}"


def _has_share(cell: Summary) -> bool:
    """Whether a share of the gap says something: Naive's is 0 by definition."""
    return cell.gap == cell.gap and cell.method.casefold() != "naive"


def _no_best(section: Section) -> str:
    """One seed is not enough, or nothing but what learns from labels has finished."""
    if any(cell.seeds for cell in section.cells.values() if cell.method in section.rivals):
        return "No method is called best: that takes two seeds or more."
    return "No method that learns from clicks has finished."
