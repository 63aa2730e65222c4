"""The page that the demo leaves: what came of each step, its figure, and the way to its own page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cldrank import documents as doc
from cldrank.cli.demo import DECISIVE, DEVICES, label


def demo_document(out: Path, facts: Mapping[str, Any], told: Mapping[str, Sequence[str]]) -> doc.Document:
    """What `cldrank demo` found, step by step."""
    chosen, decision = facts["chosen"], facts["verdict"]["decision"]
    severity: doc.Severity = "ok" if decision == "better" else "blocking" if decision == "worse" else "warning"
    question = f"Verdict: is {label(chosen)} better than production?"
    numbers = {name: f"{facts[name]:,}" for name in ("queries", "candidates", "pages")}
    figures = {"propensities": _curves, "methods": _methods}
    links = {
        "audit": doc.Link("the audit", "audit.html"),
        "propensities": doc.Link("the curves", "propensities.svg"),
        "methods": doc.Link("all methods and measures", "experiment/report.html"),
        "training": doc.Link("the model card", f"rankers/{chosen}/README.md"),
        "verdict": doc.Link("the verdict", "verdict.html"),
        "export": doc.Link("how to load it", "opensearch/README.md"),
    }
    blocks: list[doc.Block] = [
        doc.Notice(severity, _sentence(told["verdict"][0]), question, large=True),
        doc.Facts({**numbers, "devices": f"{len(DEVICES)}"}, large=True),
    ]
    for name, link in links.items():
        blocks.append(doc.Heading(name.capitalize()))
        blocks += [doc.Paragraph(_sentence(text)) for text in told[name][1 if name == "verdict" else 0 :]]
        blocks += [doc.Panels((figures[name](out),), columns=1)] if name in figures else []
        blocks.append(doc.Paragraph(link))
    about = "What `cldrank demo` found; all data are synthetic and measure nothing of the real world."
    return doc.Document("From a click log to a ranker", blocks, about)


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
    """Every method by the measure that the report compares by, as in the report of the experiment."""
    from cldrank.experiment.results import load_results
    from cldrank.report.contents import figures, method_looks
    from cldrank.report.sections import sections

    (section,) = sections(load_results(out / "experiment"))
    drawn = figures(section, method_looks(section.methods.values()))
    return next(figure for figure in drawn if figure.title == DECISIVE)
