"""A run as a document: how it ended, the steps with what each read, decided and wrote, and how to repeat it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from cldrank import documents as doc
from cldrank.decoding import dotted
from cldrank.pipeline.running import RunRecord
from cldrank.pipeline.steps import STEPS
from cldrank.runs import TaskRecord
from cldrank.wording import count, duration

_SEVERITIES: dict[str, doc.Severity] = {"shipped": "ok", "stopped": "warning", "failed": "blocking"}
_PAGES = (".html", ".svg", ".md")  # what a browser shows
_SHORT = 12  # letters of a hash that are shown


def render_run(record: RunRecord) -> str:
    """The run as one HTML page that needs no other file, with links from its folder to what steps wrote."""
    summary = run_document(record)
    blocks = [*summary.blocks]
    for step in record.steps:
        blocks += _details(step) if step.state != "not run" else ()
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    origin = {"command": record.command, "seed": str(record.seed), "versions": versions, "commit": record.commit}
    blocks += [doc.Heading("To repeat it"), doc.Facts({name: text for name, text in origin.items() if text})]
    for name, files in record.inputs.items():
        listing = doc.Table(("file", "SHA-256"), [(file, doc.Mono(key)) for file, key in files.items()], text=("file",))
        blocks.append(doc.Details(f"{name}: {count(len(files), 'file')}", [listing]))
    return doc.render_html(replace(summary, blocks=blocks))


def run_document(record: RunRecord) -> doc.Document:
    """How a run ended, and each of its steps in a line."""
    reason = [f" {record.reason}"] if record.reason else []
    verdict = {"verdict": record.verdict} if record.verdict else {}
    override = f"Shipped against the verdict, for this reason: {record.override}"
    rows = [
        (step.name, record.states[step.name], duration(step.seconds) if step.state == "done" else "", step.decided)
        for step in record.steps
    ]
    blocks: list[doc.Block] = [
        doc.Notice(_SEVERITIES.get(record.status, "note"), [doc.Strong(_headline(record)), *reason], large=True),
        *([doc.Notice("warning", [override])] if record.override else []),
        doc.Facts({**verdict, "time": duration(record.seconds)}, large=True),
        doc.Heading("Steps"),
        doc.Table(("step", "state", "time", "result"), rows, text=("step", "state", "result"), wide=True),
    ]
    blocks += [doc.Notice("warning", text, title=step.name) for step in record.steps for text in step.warnings]
    return doc.Document(
        f"Pipeline run {record.name}",
        blocks,
        about=[f"{record.pipeline}, started {record.started[:19].replace('T', ' ')} UTC"],
        footer="The folder of the run holds the pipeline file as it was; hashes are SHA-256.",
    )


def _headline(record: RunRecord) -> str:
    if record.status == "shipped":
        return "The ranker is shipped." if record.changed else "Nothing has changed: what is shipped stays."
    if record.status == "stopped":
        where = next(name for name, state in reversed(record.states.items()) if state == "stopped")
        return f"The run was stopped by its {where} step; production stays as it is."
    return {
        "failed": "The run failed; production stays as it is.",
        "interrupted": "The run was interrupted; the next one goes on from there.",
        "running": "The run is going on.",
    }[record.status]


def _details(step: TaskRecord) -> Iterator[doc.Block]:
    sentence = (STEPS[step.name].__doc__ or "").partition("\n")[0] if step.name in STEPS else ""
    took = duration(step.seconds)
    ran = f"Reused; it took {took} when it ran." if step.state == "reused" else f"It took {took}."
    yield doc.Heading(step.name, level=3)
    yield doc.Paragraph(f"{sentence} {ran}", quiet=True)
    files = [("read", name, doc.Mono(key[:_SHORT])) for name, key in step.inputs.items()]
    for name, key in step.wrote.items():
        link = doc.Link(name, f"../steps/{step.folder}/{name}")
        files.append(("wrote", link if name.endswith(_PAGES) else name, doc.Mono(key[:_SHORT])))
    if files:
        yield doc.Table(("", "file", "hash"), files, text=("", "file", "hash"))
    for title, entries in (("In numbers", step.facts), ("Settings", step.parameters)):
        known = [(name, value) for name, value in dotted(entries) if value not in (None, "", [], ())]
        rows = [(name, value if isinstance(value, str) else json.dumps(value)) for name, value in known]
        if rows:
            yield doc.Details(title, [doc.Table(("", "value"), rows, text=("", "value"))])
