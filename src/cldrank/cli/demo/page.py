"""The page that the demo leaves: what came of each step, its figure, and the way to its own page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cldrank import documents as doc
from cldrank.cli.demo.world import DECISIVE, DEVICES
from cldrank.files import save_text

Facts = dict[str, Any]


def save_pages(out: Path, facts: Facts) -> dict[str, Path]:
    """Write the report on a demo; where all of its pages are, by name."""
    from cldrank.report import save_report

    (experiment,) = save_report(out / "experiment", out / "experiment")
    save_text(out / "report.html", doc.render_html(demo_document(out, facts)))
    pages = {name: out / f"{name}.html" for name in ("report", "audit", "verdict")}
    return {**pages, "propensities": out / "propensities.svg", "experiment": experiment}


def demo_document(out: Path, facts: Facts) -> doc.Document:
    """What `cldrank demo` found, step by step."""
    from cldrank.cli.demo.steps import label

    told, chosen, decision = facts["told"], facts["chosen"], facts["verdict"]["decision"]
    severity: doc.Severity = "ok" if decision == "better" else "blocking" if decision == "worse" else "warning"
    question = f"Verdict: is {label(chosen)} better than production?"
    numbers = {name: f"{facts[name]:,}" for name in ("queries", "candidates", "pages")}
    blocks: list[doc.Block] = [
        doc.Notice(severity, _sentence(told["verdict"][0]), question, large=True),
        doc.Facts({**numbers, "devices": f"{len(DEVICES)}"}, large=True),
        *_step("Audit", told["audit"], doc.Link("the audit", "audit.html")),
        *_step("Propensities", told["propensities"], doc.Link("the curves", "propensities.svg"), _curves(out)),
        *_step("Methods", told["methods"], doc.Link("all methods and measures", "experiment/report.html"),
               _methods(out)),
        *_step("Training", told["training"], doc.Link("the model card", f"rankers/{chosen}/README.md")),
        *_step("Verdict", told["verdict"][1:], doc.Link("the verdict", "verdict.html")),
        *_step("Export", told["export"], doc.Link("how to load it", "opensearch/README.md")),
    ]  # fmt: skip
    about = "What `cldrank demo` found; all data are synthetic and measure nothing of the real world."
    return doc.Document("From a click log to a ranker", blocks, about)


def _step(title: str, told: list[str], link: doc.Link, figure: doc.Figure | None = None) -> list[doc.Block]:
    figures = [] if figure is None else [doc.Panels((figure,), columns=1)]
    return [doc.Heading(title), *(doc.Paragraph(_sentence(text)) for text in told), *figures, doc.Paragraph(link)]


def _sentence(text: str) -> list[str]:
    return [f"{text[0].upper()}{text[1:]}"]


def _curves(out: Path) -> doc.Figure:
    """The curves of all devices, with the truth as rings."""
    from cldrank.propensity import Propensities, SegmentPropensities
    from cldrank.propensity.curve_document import curve_figure

    curves = SegmentPropensities.load(out / "rho.json")
    truth = {device: Propensities.load(out / "log" / f"{device}.parquet.json") for device in DEVICES}
    return curve_figure(dict(curves), "Examination by position and device", truth, (440, 280))  # legible on a phone


def _methods(out: Path) -> doc.Figure:
    """Every method by the decisive measure, as in the report of the experiment."""
    from cldrank.experiment.results import load_results
    from cldrank.report.contents import figures, method_looks
    from cldrank.report.sections import sections

    (section,) = sections(load_results(out / "experiment"))
    drawn = figures(section, method_looks(section.methods.values()))
    return next(figure for figure in drawn if figure.title == DECISIVE)
