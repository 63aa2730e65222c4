"""The pages and pictures that the demo leaves: a report that leads to all others, and its result as one picture."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from cldrank.cli.demo.world import DECISIVE, DEVICES
from cldrank.drawing.axis import Axis
from cldrank.drawing.figure import Figure, Point, Series
from cldrank.drawing.looks import style
from cldrank.drawing.numbers import percent, round_step
from cldrank.drawing.picture import looks_in, picture
from cldrank.drawing.svg import draw_figure, swatch
from cldrank.drawing.templating import render_page
from cldrank.files import save_text

Facts = dict[str, Any]

# what each method makes of clicks, for those who meet it for the first time
_MEANINGS = {
    "Production": "what people saw",
    "Naive": "clicks as they are",
    "IPS": "position bias corrected",
    "Heckman^rank": "selection bias corrected",
    "RankAgg": "IPS and Heckman^rank joined",
    "CLD": "both biases at once",
    "CLD-pair": "both, from pairs",
    "CLD-pair trees": "the same, boosted trees",
    "Oracle": "all labels, no clicks",
}
_ON_PAGE, _ALONE = 440, 760  # how wide a figure is on the page, and in the picture


def save_pages(out: Path, facts: Facts) -> dict[str, Path]:
    """Write the report on a demo and its pictures; where all of its pages are, by name."""
    from cldrank.report import save_report

    (experiment,) = save_report(out / "experiment", out / "experiment")
    save_text(out / "result.svg", result_picture(facts))
    save_text(out / "report.html", render_demo(out, facts))
    pages = {name: out / f"{name}.html" for name in ("report", "audit", "verdict")}
    return {**pages, "propensities": out / "propensities.svg", "experiment": experiment, "result": out / "result.svg"}


# -- figures -------------------------------------------------------------------------------------------------------


def result_picture(facts: Facts) -> str:
    """What came of it, as one SVG: every method by labels, and the ranker that ships by clicks and by labels."""
    return picture([method_figure(facts, _ALONE), verdict_figure(facts, _ALONE)])


def method_figure(facts: Facts, width: int) -> Figure:
    """The decisive measure of every method, from production up to the ceiling."""
    found = [one for one in facts["results"] if one["measure"] == DECISIVE]
    found.sort(key=lambda one: one["method"] != "Production")  # what there was comes first, the rest stays as it is
    series = []
    for row, one in enumerate(found):
        low, high = (
            None if math.isnan(one[end]) else one[end] for end in ("low", "high")
        )  # of one seed, there are none
        series.append(Series(one["method"], (Point(row, one["mean"], low, high, f"{one['mean']:.3f}"),)))
    ends = [end for line in series for point in line.points for end in (point.value, point.low, point.high)]
    values = Axis.around([end for end in ends if end is not None], name=f"{DECISIVE} on test queries, by expert labels")
    about = {name: f" ({text})" if width == _ALONE else "" for name, text in _MEANINGS.items()}
    names = [f"{one['method']}{about[one['method']]}  {one['mean']:.3f}" for one in found]
    seeds = max(one["seeds"] for one in found)
    title = f"Ranking quality by method: {f'mean of {seeds} seeds, 90% interval' if seeds > 1 else 'one seed'}"
    production = next(one["mean"] for one in found if one["method"] == "Production")
    return Figure(title, tuple(series), Axis.of_rows(names), values, "rows", width, marked=production)


def verdict_figure(facts: Facts, width: int) -> Figure:
    """How much the chosen ranker changes, by clicks alone and by the labels."""
    from cldrank.cli.demo.steps import label

    told = {"by clicks alone": facts["verdict"], "by expert labels": facts["labels"]}
    series = [
        Series(name, (Point(row, one["change"], one["low"], one["high"], f"{one['change']:+.1%}"),))
        for row, (name, one) in enumerate(told.items())
    ]
    names = [f"{name}  {'+' if one['change'] >= 0 else ''}{percent(one['change'])}" for name, one in told.items()]
    name = f"change in {facts['verdict']['measure']}, with 90% interval"
    values = _percent_axis(name, [end for one in told.values() for end in (0.0, one["low"], one["high"])])
    title = f"Verdict on {label(facts['chosen'])} against production: {facts['verdict']['decision']}"
    return Figure(title, tuple(series), Axis.of_rows(names), values, "rows", width, marked=0.0)


def _percent_axis(name: str, ends: list[float]) -> Axis:
    """An axis of changes, with ticks at round percentages."""
    low, high = min(ends), max(ends)
    step = round_step((high - low) / 6 or 0.01)
    ticks = tuple(place * step for place in range(math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9) + 1))
    return Axis(
        min(low, ticks[0]) - 0.1 * step,
        max(high, ticks[-1]) + 0.1 * step,
        ticks,
        tuple(percent(tick) for tick in ticks),
        name=name,
    )


def curves_figure(out: Path) -> Figure:
    """The curves of all devices, with the truth as rings."""
    from cldrank.propensity import Propensities, SegmentPropensities
    from cldrank.propensity.chart import curve_figure

    curves = SegmentPropensities.load(out / "rho.json")
    truth = {device: Propensities.load(out / "log" / f"{device}.parquet.json") for device in DEVICES}
    return curve_figure(dict(curves), "Examination by position and device", truth, (_ON_PAGE, 280))


# -- the page ------------------------------------------------------------------------------------------------------


def render_demo(out: Path, facts: Facts) -> str:
    """The report as a page: a card for each step, with what came of it, its figure, and the way to its own page."""
    from cldrank.cli.demo.steps import label

    curves, methods, verdict = curves_figure(out), method_figure(facts, _ON_PAGE), verdict_figure(facts, _ON_PAGE)
    known = looks_in([curves])
    context = {
        "title": "From a click log to a ranker",
        "facts": facts,
        "chosen": label(facts["chosen"]),
        "tone": {"better": "ok", "worse": "blocking"}.get(facts["verdict"]["decision"], "warning"),
        "tiles": {
            "queries": f"{facts['queries']:,}",
            "candidates": f"{facts['candidates']:,}",
            "pages": f"{facts['pages']:,}",
            "devices": f"{len(DEVICES)}",
        },
        "steps": _cards(facts, {"curves": curves, "methods": methods, "verdict": verdict}),
        "legend": [(look.slot, swatch(look), name) for name, look in known.items()],
        "looks": style(known.values()),
    }
    return render_page("cldrank.cli.demo", "demo.html", context)


def _cards(facts: Facts, figures: dict[str, Figure]) -> list[Facts]:
    drawn = {name: draw_figure(figure) for name, figure in figures.items()}
    return [
        _card("Audit", facts["told"]["audit"], "audit.html", "the audit"),
        _card("Propensities", facts["told"]["propensities"], "propensities.svg", "the curves", drawn["curves"], True),
        _card("Methods", facts["told"]["methods"], "experiment/report.html", "all methods and measures",
              drawn["methods"]),
        _card("Training", facts["told"]["training"], f"rankers/{facts['chosen']}/README.md", "the model card"),
        _card("Verdict", facts["told"]["verdict"][1:], "verdict.html", "the verdict", drawn["verdict"]),
        _card("Export", facts["told"]["export"], "opensearch/README.md", "how to load it"),
    ]  # fmt: skip


def _card(title: str, told: list[str], link: str, name: str, figure: str = "", legend: bool = False) -> Facts:
    return {"title": title, "told": told, "link": link, "name": name, "figure": figure, "legend": legend}
