"""A run as one HTML page that needs no other file: the steps as a drawing, then what each read, decided and wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from cldrank.drawing.templating import render_page
from cldrank.pipeline.records import RunRecord, StepRecord
from cldrank.wording import count, duration

_TONES = {"shipped": "ok", "stopped": "warning", "failed": "blocking", "interrupted": "note", "running": "note"}
_STEP_TONES = {"done": "ok", "reused": "note", "stopped": "warning", "failed": "blocking"}
_SIGNS = {"done": "✓", "reused": "↺", "stopped": "■", "failed": "✗", "running": "…"}
_PAGES = (".html", ".svg", ".md")  # what a browser shows
_IN_A_ROW = 7  # steps
_SHORT = 12  # letters of a hash that are shown


def render_run(record: RunRecord, base: str = "") -> str:
    """The whole page.

    base   the address of the run's folder, for links to what steps wrote; empty where the page lies in it
    """
    shown = [step for step in record.steps if step.state != "not needed"]
    context = {
        "title": f"{record.pipeline}: run {record.name}",
        "record": record,
        "tone": _TONES[record.status],
        "headline": _headline(record),
        "tiles": _tiles(record, shown),
        "flow": [_box(step) for step in shown],
        "columns": len(shown) if len(shown) <= _IN_A_ROW else (len(shown) + 1) // 2,
        "steps": [_details(step, base) for step in shown if step.state != "not run"],
        "inputs": [_input(name, files) for name, files in record.inputs.items()],
        "repeat": _repeat(record),
    }
    return render_page("cldrank.pipeline", "run.html", context)


def _headline(record: RunRecord) -> str:
    match record.status:
        case "shipped":
            return "The ranker is shipped." if record.changed else "Nothing has changed: what is shipped stays."
        case "stopped":
            where = next(step.name for step in record.steps if step.state == "stopped")
            return f"The run was stopped by its {where} step; production stays as it is."
        case "failed":
            return "The run failed; production stays as it is."
        case "interrupted":
            return "The run was interrupted; the next one goes on from there."
        case _:
            return "The run is going on."


def _tiles(record: RunRecord, shown: list[StepRecord]) -> dict[str, str]:
    ran = sum(step.was_run for step in shown)
    reused = sum(step.reused or step.state == "reused" for step in shown)
    found = {"steps run": f"{ran}", "steps reused": f"{reused}", "time": duration(record.seconds)}
    cells = record.step("aggregate")
    if cells is not None and cells.facts:
        found |= {name: f"{cells.facts[name]:,}" for name in ("impressions", "clicks")}
    if record.verdict:
        found["verdict"] = record.verdict
    return found


def _box(step: StepRecord) -> dict[str, Any]:
    from cldrank.pipeline.steps import STEPS

    return {
        "name": step.name,
        "state": step.state,
        "sign": _SIGNS.get(step.state, ""),
        "tone": _STEP_TONES.get(step.state, "none"),
        "gate": any(one.gate for one in STEPS if one.name == step.name),
        "brief": step.brief,
        "warned": count(len(step.warnings), "warning") if step.warnings else "",
        "time": duration(step.seconds) if step.was_run and step.state != "failed" else "",
    }


def _details(step: StepRecord, base: str) -> dict[str, Any]:
    from cldrank.pipeline.steps import STEPS

    about = next((one.sentence for one in STEPS if one.name == step.name), "")
    took = duration(step.seconds)
    return {
        **_box(step),
        "about": f"{about[0].upper()}{about[1:]}." if about else "",
        "decided": step.decided,
        "ran": f"reused; it took {took} when it ran" if not step.was_run else f"ran, {took}",
        "warnings": step.warnings,
        "read": [(name, key[:_SHORT]) for name, key in step.read.items()],
        "wrote": [(name, _address(step, name, base), key[:_SHORT]) for name, key in step.wrote.items()],
        "settings": _lines(step.settings),
        "facts": _lines(step.facts),
        "key": step.key,
    }


def _address(step: StepRecord, name: str, base: str) -> str:
    """Where a page leads that a step wrote; empty for files that a browser does not show."""
    return f"{base}/steps/{step.name}/{name}".lstrip("/") if name.endswith(_PAGES) else ""


def _lines(entries: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    """Entries with their dotted names, in order; what is empty is left out."""
    found: list[tuple[str, str]] = []
    for name, value in entries.items():
        if isinstance(value, Mapping) and value:
            found += _lines(value, f"{before}{name}.")
        elif value not in (None, "", [], {}, ()):
            found.append((f"{before}{name}", value if isinstance(value, str) else _said(value)))
    return found


def _said(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return ", ".join(one if isinstance(one, str) else _said(one) for one in value)
    return json.dumps(value, ensure_ascii=False)


def _input(name: str, files: Mapping[str, str]) -> tuple[str, str, list[tuple[str, str]]]:
    return name, count(len(files), "file"), [(file, key) for file, key in files.items()]


def _repeat(record: RunRecord) -> list[tuple[str, list[str], bool]]:
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    return [
        ("command", [record.command] if record.command else [], True),
        ("seed", [str(record.seed)], False),
        ("versions", [versions], False),
        ("commit", [record.commit] if record.commit else [], True),
    ]
