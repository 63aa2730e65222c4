"""What a loop of rounds shows, in sentences: who is best in the end, whether Naive falls behind, who reaches Oracle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

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
    """The label of a method by the model that it fits; safe rankers are not meant."""
    return {one.model: label for label, one in section.methods.items() if one.name == name and not one.safe}


def _corrected(section: Section) -> dict[str, str]:
    """By model, the label of the method that corrects the most: the last in their order, safe rankers aside."""
    rivals = ((label, section.methods[label]) for label in section.rivals)
    return {one.model: label for label, one in rivals if getattr(one.kind, "corrects", ()) and not one.safe}


def _told(section: Section, panel: Panel, measure: str, one: str, other: str) -> str:
    """How far a method is behind another in the end, and what became of it since the first round."""
    begin, end = (_lags(section, setting, measure, one, other) for setting in (panel.settings[0], panel.settings[-1]))
    if not end:
        return ""
    distance = Distance.of(end.values())
    found = f"level with {other}" if distance.level else distance.from_(other)
    aside = [str(distance)] if distance.level else []
    both = sorted(begin.keys() & end.keys())
    if len(both) > 1 and len(panel.settings) > 1:
        lost = mean_interval([end[seed] - begin[seed] for seed in both], CONFIDENCE)
        change = "it has gained" if lost.high < 0 else "it has lost" if lost.low > 0 else "no clear change"
        aside.append(f"after the first round {Distance.of(begin.values())}: {change}")
    more = f" ({', '.join(aside)})" if aside else ""
    return f"{one} ends {found}{more}."


def _lags(section: Section, setting: str, measure: str, one: str, other: str) -> Mapping[int, float]:
    """By seed, how far a method is behind another in a setting."""
    sign = 1 if parse(measure).higher_is_better else -1
    mine, theirs = (section.by_seed.get((setting, label, measure), {}) for label in (one, other))
    return {seed: sign * (theirs[seed] - mine[seed]) for seed in sorted(mine.keys() & theirs.keys())}


class Distance(NamedTuple):
    """A mean distance over seeds: its size in words, whether it is one behind, whether chance can explain it.

    >>> print(Distance.of([0.010, 0.012, 0.011])), print(Distance.of([-0.01]).from_("CLD"))
    0.011 ± 0.002 behind
    0.010 ahead of CLD
    (None, None)
    >>> Distance.of([0.010, -0.010, 0.001]).level
    True
    """

    size: str
    behind: bool
    level: bool

    @classmethod
    def of(cls, lags: Iterable[float]) -> Distance:
        """The mean of some distances, with its interval if there are several."""
        values = list(lags)
        if len(values) == 1:
            return cls(f"{abs(values[0]):.3f}", values[0] > 0, level=False)
        found = mean_interval(values, CONFIDENCE)
        size = f"{abs(found.estimate):.3f} ± {found.high - found.estimate:.3f}"
        return cls(size, found.estimate > 0, level=found.low <= 0 <= found.high)

    def __str__(self) -> str:
        return f"{self.size} {'behind' if self.behind else 'ahead'}"

    def from_(self, other: str) -> str:
        """The distance from somebody."""
        return f"{self}{'' if self.behind else ' of'} {other}"
