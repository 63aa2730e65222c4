"""The report as one HTML page that needs no other file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from cldrank.drawing.figure import Figure
from cldrank.drawing.looks import Look, style
from cldrank.drawing.picture import looks_in
from cldrank.drawing.svg import draw_figure, swatch
from cldrank.drawing.templating import render_page
from cldrank.report.labels import measure_sentence, memory_size
from cldrank.report.narrative import data_name, experiment_title, what_came_out, what_was_run
from cldrank.report.plots import figures, method_looks
from cldrank.report.result_tables import LEADERS_NOTE, leader_rows, notes, shares, tables
from cldrank.report.sections import Failure, Section, who_took_part
from cldrank.wording import count, duration, listed


def render_report(sections: Sequence[Section]) -> str:
    """The whole page."""
    chosen = method_looks(who_took_part(sections))
    leading = _leading(sections)
    context = {
        "title": _title(sections),
        "subtitle": _subtitle(sections),
        "short": [(section.name, _named(section), what_came_out(section)) for section in leading],
        "tone": "note" if any(section.has_values for section in leading) or not sections else "blocking",
        "tiles": _tiles(sections),
        "failed": sum(section.failed for section in sections),
        "links": _links(sections),
        "meanings": _meanings(sections, chosen),
        "sections": [_section(section, chosen, is_leading=section in leading) for section in sections],
        "looks": style(chosen.values()),
    }
    return render_page("cldrank.report", "report.html", context)


# -- the head of the page -----------------------------------------------------------------------------------------


def _title(sections: Sequence[Section]) -> str:
    data = list(dict.fromkeys(section.data for section in sections))
    return f"Ranking experiments on {listed(data)}" if 0 < len(data) <= 3 else "Ranking experiments"


def _subtitle(sections: Sequence[Section]) -> str:
    if not sections:
        return "no results"
    last = max(section.finished[1] for section in sections)
    parts = [count(len({section.experiment for section in sections}), "experiment")]
    parts.append(f"finished {last:%Y-%m-%d %H:%M} UTC")
    if any(section.synthetic for section in sections):
        named = list(dict.fromkeys(section.data for section in sections if section.synthetic))
        parts.append(f"{listed(named)} {'is' if len(named) == 1 else 'are'} synthetic data")
    return " · ".join(parts)


def _leading(sections: Sequence[Section]) -> list[Section]:
    """The experiments in which nothing varies; all, if something varies in each. Their conclusions are on top."""
    return [section for section in sections if section.across is None and section.has_values] or list(sections)


def _named(section: Section) -> str:
    return f"{section.experiment} on {section.data}{' (synthetic)' if section.synthetic else ''}"


def _tiles(sections: Sequence[Section]) -> dict[str, str]:
    return {
        "experiments": f"{len({section.experiment for section in sections})}",
        "data sets": f"{len({section.data for section in sections})}",
        "methods": f"{len({method for section in sections for method in section.methods})}",
        "seeds": f"{len({seed for section in sections for seed in section.seeds})}",
        "units": f"{sum(section.units for section in sections):,}",
        "failed": f"{sum(section.failed for section in sections):,}",
        "computing time": duration(sum(section.seconds for section in sections)),
    }


def _links(sections: Sequence[Section]) -> dict[str, list[tuple[str, str]]]:
    """Links to the sections by data set, where there are several."""
    found: dict[str, list[tuple[str, str]]] = {}
    for section in sections if len(sections) > 1 else ():
        found.setdefault(section.data, []).append((section.name, section.experiment))
    return found


def _meanings(sections: Sequence[Section], methods: Mapping[str, Look]) -> list[tuple[str, list[str], bool]]:
    """What the methods and measures are, for those who see them for the first time."""
    known = {method: text for section in sections for method, text in section.sentences.items()}
    measures = dict.fromkeys(measure for section in sections for measure in section.measures)
    texts = {name: known[name] for name in methods} | {name: measure_sentence(name) for name in measures}
    return [(name, [text], False) for name, text in texts.items() if text]


# -- an experiment ------------------------------------------------------------------------------------------------


def _section(section: Section, chosen: Mapping[str, Look], *, is_leading: bool) -> dict[str, Any]:
    drawn = figures(section, chosen)
    return {
        "section": section,
        "title": experiment_title(section.experiment),
        "data": data_name(section.data),
        "run": what_was_run(section),
        "conclusion": "" if is_leading else what_came_out(section),
        "leaders": leader_rows(section),
        "leaders_note": LEADERS_NOTE,
        "tables": tables(section) if section.has_values else (),
        "shares": shares(section) if section.has_values else (),
        "notes": notes(section),
        "legend": [(look.slot, swatch(look), name) for name, look in looks_in(drawn).items()],
        "references": next((figure.references for figure in drawn if figure.references), ""),
        "figures": [(figure.title, draw_figure(figure)) for figure in drawn],
        "columns": 2 if len(section.measures) in (2, 4) else 3,
        "remarks": _remarks(drawn, section),
        "failed": f"{section.failed:,} of {count(section.units, 'unit')} failed",
        "failures": _failures(section.failures),
        "warnings": _failures(section.warnings),
        "seconds": duration(section.seconds),
        "times": _times(section),
        "facts": _facts(section),
    }


def _remarks(drawn: Sequence[Figure], section: Section) -> str:
    parts = []
    if section.has_intervals:
        parts.append("Shaded: 90% intervals." if section.across else "Bars: 90% intervals.")
    if any(figure.is_cut_off for figure in drawn):
        parts.append("They are cut off where they leave the frame.")
    if any(figure.values.low > 0 for figure in drawn):
        parts.append("The axis of values does not start at 0.")
    return " ".join(parts)


def _failures(failures: Sequence[Failure]) -> list[tuple[str, ...]]:
    return [(failure.method, failure.error, failure.where, f"{failure.units:,}") for failure in failures]


def _times(section: Section) -> list[tuple[str, str, tuple[tuple[str, str], ...]]]:
    """For each method the width of its bar, and what its fits took."""
    most = max((timing.median for timing in section.timings), default=0.0) or 1.0
    return [
        (
            timing.method,
            f"{100 * timing.median / most:.1f}%",
            (
                ("fit (median)", duration(timing.median)),
                ("range", f"{duration(timing.least)} … {duration(timing.most)}"),
                ("peak memory", memory_size(timing.peak_mib)),
                ("fits", f"{timing.fits:,}"),
            ),
        )
        for timing in section.timings
    ]


def _facts(section: Section) -> list[tuple[str, Sequence[str], bool]]:
    """How it was run: a name, what there is to say, and whether it is set as code."""
    first, last = (f"{moment:%Y-%m-%d %H:%M:%S}" for moment in section.finished)
    settings = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in section.fixed.items()]
    return [
        ("command", section.commands, True),
        ("data fingerprint", section.fingerprints, True),
        ("commit", section.commits, True),
        ("versions", section.versions, False),
        ("finished", [f"{first} to {last} UTC"], False),
        ("methods", [f"{label}: {text}" for label, text in section.parameters.items()], True),
        ("settings", settings, True),
    ]
