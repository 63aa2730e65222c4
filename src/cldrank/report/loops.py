"""What a loop of rounds shows, in sentences: who is best in the end, whether Naive falls behind, who reaches Oracle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cldrank.experiment.results import CONFIDENCE
from cldrank.measures import mean_interval, parse
from cldrank.report.labels import setting_value
from cldrank.report.sections import Panel, Section
from cldrank.wording import listed


def what_the_loop_shows(section: Section, measure: str) -> str:
    """The best after the last round; how far Naive is behind what corrects clicks, and that behind Oracle.

    Only methods that fit the same model are compared: Naive with the one that corrects the most. Distances are paired
    over seeds.
    """
    return " ".join(sentence for panel in section.panels for sentence in _sentences(section, panel, measure))


def _sentences(section: Section, panel: Panel, measure: str) -> Iterator[str]:
    after = f"After {setting_value(panel.places[-1])} rounds{f' ({panel.label})' if panel.label else ''}"
    leading = [
        f"{label} ({cell.mean:.3f})"
        for label in section.rivals
        if (cell := section.known(panel.settings[-1], label, measure)) is not None and (cell.best or cell.tied)
    ]
    if leading:
        yield f"{after}, best or statistically tied by {measure}: {listed(leading)}."
    naive, corrected, oracle = _by_model(section, "naive"), _corrected(section), _by_model(section, "oracle")
    for question, ones, others in (
        ("Does Naive fall behind, as its own clicks feed it?", naive, corrected),
        ("Do corrected clicks lead to Oracle?", corrected, oracle),
    ):
        told = [_told(section, panel, measure, ones[model], others[model]) for model in ones if model in others]
        if any(told):
            yield f"{question} {' '.join(filter(None, told))}"


def _by_model(section: Section, name: str) -> dict[str, str]:
    """The label of a method by the model that it fits."""
    return {one.model: label for label, one in section.methods.items() if one.name == name}


def _corrected(section: Section) -> dict[str, str]:
    """By model, the label of the method that corrects the most: the last in their order."""
    return {
        section.methods[label].model: label
        for label in section.rivals
        if getattr(section.methods[label].kind, "corrects", ())
    }


def _told(section: Section, panel: Panel, measure: str, one: str, other: str) -> str:
    """How far a method is behind another in the end, and what became of it since the first round."""
    begin, end = (_lags(section, setting, measure, one, other) for setting in (panel.settings[0], panel.settings[-1]))
    both = begin.keys() & end.keys()
    if not end:
        return ""
    found = f"{one} ends {_distance(list(end.values()), other)}"
    if len(both) < 2 or len(panel.settings) == 1:
        return f"{found}."
    grown = mean_interval([end[seed] - begin[seed] for seed in sorted(both)], CONFIDENCE)
    change = "less" if grown.high < 0 else "more" if grown.low > 0 else "no clear change"
    return f"{found} (after the first round {_distance(list(begin.values()))}: {change})."


def _lags(section: Section, setting: str, measure: str, one: str, other: str) -> Mapping[int, float]:
    """By seed, how far a method is behind another in a setting."""
    sign = 1 if parse(measure).higher_is_better else -1
    mine, theirs = (section.by_seed.get((setting, label, measure), {}) for label in (one, other))
    return {seed: sign * (theirs[seed] - mine[seed]) for seed in sorted(mine.keys() & theirs.keys())}


def _distance(lags: Sequence[float], other: str = "") -> str:
    """The mean of some distances in words; with the name of the other, it says so where they cannot be told apart.

    >>> _distance([0.010, 0.012, 0.011]), _distance([-0.01], "CLD")
    ('0.011 ± 0.002 behind', '0.010 ahead of CLD')
    >>> _distance([0.010, -0.010, 0.001], "CLD")
    'level with CLD (0.000 ± 0.017 behind)'
    """
    found = mean_interval(list(lags), CONFIDENCE) if len(lags) > 1 else None
    lag = lags[0] if found is None else found.estimate
    size = f"{abs(lag):.3f}" if found is None else f"{abs(lag):.3f} ± {found.high - lag:.3f}"
    way = "behind" if lag > 0 else "ahead"
    if not other:
        return f"{size} {way}"
    if found is not None and found.low <= 0 <= found.high:
        return f"level with {other} ({size} {way})"
    return f"{size} {way} {'of ' if way == 'ahead' else ''}{other}"
