"""The report as a document: for each section what was run, what came out, figures, tables, and how it was run."""

from __future__ import annotations

import json
import math
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from cldrank import documents as doc
from cldrank.documents.figure import SOLID, Look, looks
from cldrank.documents.numbers import percent
from cldrank.experiment.makers import Identity
from cldrank.experiment.results import Summary
from cldrank.report.findings import value_words, what_came_out, what_was_run
from cldrank.report.sections import Panel, Section, axis_name, key_name, setting_value
from cldrank.wording import count, duration, listed

_MISSING = "–"
_LONGEST_LABEL = 18  # of a row in a figure
_MOST_PROBLEMS = 20  # of different errors or warnings

# A method has its colour and its marker in every report, a model its dash.
_METHODS = {
    "naive": ("grey", "cross"),
    "ips": ("amber", "square"),
    "heckman": ("purple", "down"),
    "rankagg": ("green", "up"),
    "cld": ("blue", "circle"),
    "cld-pair": ("red", "diamond"),
    "oracle": ("ink", "plus"),
    "xgboost": ("sky", "right"),
    "lightgbm": ("olive", "left"),
}
_DASHES: dict[str, tuple[float, ...]] = {"trees": SOLID, "mlp": (7, 3), "linear": (2, 2.5)}
_MORE_DASHES = ((9, 3, 2, 3), (5, 2, 2, 2, 2, 2), (12, 3))  # for the next of one method with one model


def report_document(sections: Sequence[Section]) -> doc.Document:
    """The whole report."""
    if not sections:
        return doc.Document(
            "Ranking experiments", [doc.Paragraph("There are no results yet; run an experiment first.")]
        )
    data = list(dict.fromkeys(section.data for section in sections))
    fits = list({fit["unit"]: fit for section in sections for fit in section.fits}.values())  # some share fits
    methods = {method for section in sections for method in section.methods}
    blocks: list[doc.Block] = []
    if len(sections) > 1:
        links = [doc.Link(section.title, f"#{section.name}") for section in sections]
        blocks.append(doc.Paragraph([part for link in links for part in (link, " · ")][:-1]))
    chosen = method_looks(method for section in sections for method in section.methods.values())
    for section in sections:
        blocks += _section(section, chosen)
    return doc.Document(
        f"Ranking experiments on {listed(data)}" if len(data) <= 3 else "Ranking experiments",
        blocks,
        about=[f"{count(len(methods), 'method')}, {count(len(fits), 'fit')}, finished {_finished(fits)}"],
        footer="Intervals are 90% t-intervals over seeds: they show how much a mean would change with other seeds, not "
        "with other queries.",
    )


def _section(section: Section, chosen: Mapping[str, Look]) -> Iterator[doc.Block]:
    yield doc.Heading(section.title, anchor=section.name)
    made = [", ", doc.Strong("synthetic data"), " of a generator"] if section.synthetic else []
    yield doc.Paragraph([f"On {section.data}", *made, f". {what_was_run(section)}"])
    yield doc.Paragraph([what_came_out(section)])
    if drawn := figures(section, chosen):
        yield doc.Panels(drawn, len(section.measures), _figure_remarks(section, drawn))
    if drawn:
        values: list[doc.Block] = [*tables(section), doc.Paragraph([" ".join(notes(section))], quiet=True)]
        yield from [doc.Details("All numbers", values)] if section.across else values
    if failed := [unit for unit in section.units if unit["status"] != "ok"]:
        yield doc.Notice("warning", f"{len(failed):,} of {count(len(section.units), 'unit')} failed.")
        yield from _problems("error", section, [(unit, unit["error"]) for unit in failed])
    yield doc.Details("Time and versions", list(_how_it_was_run(section)))


# -- tables ------------------------------------------------------------------------------------------------------------


def tables(section: Section) -> list[doc.Table]:
    """One table per panel; where something numeric varies, one for each measure in each panel, then the shares."""
    if section.across is None:
        return [_overview(section, panel) for panel in section.panels]
    return [
        _along(section, panel, measure, as_share=as_share)
        for as_share in ((False, True) if section.has_gaps else (False,))
        for panel in section.panels
        for measure in section.measures
    ]


def _overview(section: Section, panel: Panel) -> doc.Table:
    (setting,) = panel.settings
    shared = section.measures if section.has_gaps else ()
    rows = []
    for method in section.methods:
        cells = {measure: section.cells.get((setting, method, measure)) for measure in section.measures}
        means = [_mean(section, cell) for cell in cells.values()]
        rows.append([method, *means, *(_share(cells[measure]) for measure in shared)])
    groups = [("", 1 + len(section.measures)), ("gap closed", len(shared))] if shared else ()
    return doc.Table(("method", *section.measures, *shared), rows, title=panel.label, groups=groups, wide=True)


def _along(section: Section, panel: Panel, measure: str, *, as_share: bool) -> doc.Table:
    rows = []
    for method in section.methods:
        cells = [section.cells.get((setting, method, measure)) for setting in panel.settings]
        rows.append([method, *(_share(cell) if as_share else _mean(section, cell) for cell in cells)])
    what = f"{measure}, share of the gap from Naive to Oracle" if as_share else measure
    title = " · ".join(filter(None, (what, panel.label)))
    columns = ("method", *map(setting_value, panel.places))
    return doc.Table(columns, rows, title=title, about=axis_name(section.across or ""), wide=True)


def _mean(section: Section, cell: Summary | None) -> str:
    if cell is None or math.isnan(cell.mean):
        return "failed" if cell is not None and cell.failed else _MISSING
    text = value_words(cell)
    short = f" ({count(cell.seeds, 'seed')})" if cell.seeds < len(section.seeds) else ""
    if len(section.rivals) > 1 and cell.best:
        return doc.Strong(text + short)
    return f"{text}{' ≈' if len(section.rivals) > 1 and cell.tied else ''}{short}"


def _share(cell: Summary | None) -> str:
    return _MISSING if cell is None or math.isnan(cell.gap) else percent(cell.gap)


def notes(section: Section) -> Iterator[str]:
    """What must be known to read the tables, in plain sentences."""
    if section.has_intervals:
        yield "Mean over seeds ± half of its 90% t-interval."
        if len(section.seeds) == 2:
            yield "Two seeds leave intervals very wide; five seeds can separate differences from chance."
        if len(section.rivals) > 1:
            yield "Bold: the best of those that see no labels."
            yield "≈: statistically tied with it (paired t-test over seeds, 90%)."
    else:
        yield "One seed: there are no intervals, and any difference may be chance."
    names = {method.casefold() for method in section.methods}
    absent = [name for name in ("Naive", "Oracle") if name.casefold() not in names]
    if section.has_gaps:
        yield "The share of the gap is how far a method gets from Naive (0%) to Oracle (100%), taken between means."
    elif absent:
        yield f"There is no {' and no '.join(absent)} here, so no share of the gap between Naive and Oracle is known."
    else:
        yield "Oracle is not better than Naive here, so there is no gap to take a share of."


# -- figures -----------------------------------------------------------------------------------------------------------


def method_looks(methods: Iterable[Identity]) -> dict[str, Look]:
    """A look for each method, the same in all figures of a report.

    >>> trees, mlp = (Identity(f"Naive {model}", "naive", model=model) for model in ("trees", "mlp"))
    >>> chosen = method_looks([Identity("MyRanker"), trees, mlp])
    >>> list(chosen), chosen["Naive mlp"].colour == chosen["Naive trees"].colour, chosen["Naive trees"].dash
    (['MyRanker', 'Naive mlp', 'Naive trees'], True, ())
    """
    known = {method.label: method for method in sorted(methods, key=lambda method: method.order)}
    fixed: dict[str, Look] = {}
    for label, method in known.items():
        colour, marker = _METHODS.get(method.name, ("", ""))
        variants = (Look(colour, dash, marker) for dash in (_DASHES.get(method.model, SOLID), *_MORE_DASHES))
        free = next((look for look in variants if look not in fixed.values()), None)
        if colour and free:
            fixed[label.lower()] = free
    return looks(known, fixed)


def figures(section: Section, chosen: Mapping[str, Look]) -> tuple[doc.Figure, ...]:
    """The figures of a section: panel by panel, one for each measure. Panels share the axis of a measure."""
    drawn = [
        (panel, measure, lines)
        for panel in section.panels
        for measure in section.measures
        if (lines := _series(section, panel, measure, chosen))
    ]
    axes = {}
    for measure in section.measures:
        points = [point for _, name, lines in drawn if name == measure for line in lines for point in line.points]
        if points:
            ends = _ends(points, whole=section.across is None)
            axes[measure] = doc.Axis.around(ends, 8 if section.across else 5, name=measure)
    return tuple(_figure(section, panel, measure, lines, axes[measure]) for panel, measure, lines in drawn)


def _series(section: Section, panel: Panel, measure: str, chosen: Mapping[str, Look]) -> tuple[doc.Series, ...]:
    series = []
    for method in section.methods:
        points = []
        for place, setting in zip(panel.places or (0.0,), panel.settings, strict=True):
            cell = section.known(setting, method, measure)
            if cell is not None:
                low, high = (None, None) if cell.interval is None else (cell.low, cell.high)
                note = f"{cell.mean if cell.interval is None else cell.interval:.4f}"
                points.append(doc.Point(place, cell.mean, low, high, note))
        if points:
            series.append(doc.Series(method, tuple(points), chosen[method]))
    return tuple(series)


def _figure(
    section: Section, panel: Panel, measure: str, series: tuple[doc.Series, ...], values: doc.Axis
) -> doc.Figure:
    title = " · ".join(filter(None, (measure, panel.label)))
    if section.across is not None:
        truth = section.fixed.get("simulation.eta")
        beside = f" (true η = {setting_value(truth)})" if section.across == "simulation.assumed_eta" and truth else ""
        along = doc.Axis.across(panel.places, f"{axis_name(section.across)}{beside}", key_name(section.across))
        return doc.Figure(title, series, along, values)
    rows = tuple(
        replace(line, points=tuple(replace(point, at=row) for point in line.points)) for row, line in enumerate(series)
    )
    labels = [textwrap.shorten(line.name, _LONGEST_LABEL, placeholder="…") for line in series]
    return doc.Figure(title, rows, doc.Axis.of_rows(labels), values, "rows")


def _ends(points: Sequence[doc.Point], whole: bool) -> list[float]:
    """What an axis must reach: all means, and `whole` intervals or those of curves as far as means stay readable.

    With few seeds, intervals can be many times as wide as all that lies between methods. No measure is below 0.
    """
    means = [point.value for point in points]
    least, most = min(means), max(means)
    reach = math.inf if whole or least == most else most - least
    lowest, highest = max(least - reach, min(least, 0.0)), most + reach
    ends = [min(max(end, lowest), highest) for point in points for end in (point.low, point.high) if end is not None]
    return [*means, *ends]


def _figure_remarks(section: Section, drawn: Sequence[doc.Figure]) -> str:
    remarks = []
    if section.has_intervals:
        remarks.append("Shaded: 90% intervals." if section.across else "Bars: 90% intervals.")
    if any(figure.is_cut_off for figure in drawn):
        remarks.append("They are cut off where they leave the frame.")
    if any(figure.values.low > 0 for figure in drawn):
        remarks.append("The axis of values does not start at 0.")
    return " ".join(remarks)


# -- how it was run ----------------------------------------------------------------------------------------------------


def _how_it_was_run(section: Section) -> Iterator[doc.Block]:
    rows = [_method_row(section, method) for method in section.methods.values()]
    text = ("what it does", "parameters")
    yield doc.Table(("method", *text, "fits", "fit (median)"), rows, text=text)
    warned = [(unit, text) for unit in section.units for text in dict.fromkeys(json.loads(unit["warnings"] or "[]"))]
    yield from _problems("warning", section, warned)
    yield doc.Facts(
        {
            "command": [doc.Mono(text) for text in section.distinct("command")],
            "data fingerprint": [doc.Mono(text) for text in section.distinct("data_fingerprint")],
            "commit": [doc.Mono(text) for text in section.distinct("commit")],
            "versions": [_versions(text) for text in section.distinct("versions")],
            "finished": _finished(section.fits),
            "settings": [doc.Mono(f"{key} = {json.dumps(value)}") for key, value in section.fixed.items()],
        }
    )


def _method_row(section: Section, method: Identity) -> list[str]:
    """What a method does, what was chosen for it, and what its fits cost."""
    fits = [fit for fit in section.fits if fit["method"] == method.label and fit["status"] == "ok"]
    time = duration(median(fit["seconds"] for fit in fits)) if fits else _MISSING
    return [method.label, method.sentence, _parameters(section, method.label), f"{len(fits):,}", time]


def _parameters(section: Section, label: str) -> str:
    """The class of a method and the parameters that were chosen for it; all values, where units differ."""
    values: dict[str, list[str]] = defaultdict(list)
    for configuration in (unit["configuration"] for unit in section.units if unit["method"] == label):
        method = configuration.get("method", {})
        chosen = {"": method.get("class", ""), **method.get("parameters", {})}
        for key, value in chosen.items():
            if key != "seed" and setting_value(value) not in values[key]:
                values[key].append(setting_value(value))
    return ", ".join(f"{key}{' = ' if key else ''}{' or '.join(values[key])}" for key in sorted(values) if values[key])


def _finished(fits: Sequence[Mapping[str, Any]]) -> str:
    last = max(fit["finished"] for fit in fits)
    seconds = math.fsum(fit["seconds"] for fit in fits if not math.isnan(fit["seconds"]))
    return f"{last:%Y-%m-%d %H:%M} UTC after {duration(seconds)} of computing"


def _versions(text: str) -> str:
    versions = json.loads(text)
    return ", ".join(f"{name} {version}" for name, version in versions.items()) if isinstance(versions, dict) else text


def _problems(what: str, section: Section, told: Sequence[tuple[Mapping[str, Any], str]]) -> Iterator[doc.Block]:
    """Errors or warnings: which method, what, in how many units."""
    order = list(section.methods)
    counts = Counter((unit["method"], text) for unit, text in told)
    rows = [(*key, f"{counts[key]:,}") for key in sorted(counts, key=lambda key: (order.index(key[0]), key[1]))]
    if rows:
        yield doc.Table(("method", what, "units"), rows[:_MOST_PROBLEMS], text=(what,))
        yield from doc.left_out(min(len(rows), _MOST_PROBLEMS), len(rows), f"different {what}s")
