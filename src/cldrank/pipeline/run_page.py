"""A run as a document: how it ended, what its steps decided, the pages that they wrote, and how to repeat it."""

from __future__ import annotations

from dataclasses import replace

from cldrank import documents as doc
from cldrank.pipeline.running import RunRecord
from cldrank.runs import TaskRecord
from cldrank.wording import duration

_SEVERITIES: dict[str, doc.Severity] = {"shipped": "ok", "stopped": "warning", "failed": "blocking"}
_LOGGED = (
    " Log each page as POST /interleave answers it; name the log in [online], and the next run decides by it, too, as "
    "long as it trains this very ranker."
)
_PAGES = (".html", ".svg", ".md")  # what a browser shows


def render_run(record: RunRecord) -> str:
    """The run as an HTML page that needs no other file, with links from its folder to the pages that steps wrote."""
    summary = run_document(record)
    pages = [
        (step.name, doc.Link(name, f"../steps/{step.folder}/{name}"))
        for step in record.steps
        for name in step.wrote
        if name.endswith(_PAGES)
    ]
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    origin = {"command": record.command, "seed": str(record.seed), "versions": versions, "commit": record.commit}
    blocks = [
        *summary.blocks,
        doc.Heading("Pages"),
        doc.Table(("step", "page"), pages, text=("step", "page")),
        doc.Heading("To repeat it"),
        doc.Facts({name: text for name, text in origin.items() if text}),
    ]
    return doc.render_html(replace(summary, blocks=blocks))


def run_document(record: RunRecord) -> doc.Document:
    """How a run ended, and each of its steps in a line."""
    reason = [f" {record.reason}"] if record.reason else []
    verdict = {"verdict": record.verdict} if record.verdict else {}
    rows = [
        (step.name, record.states[step.name], duration(step.seconds) if step.state == "done" else "", step.decided)
        for step in record.steps
    ]
    blocks: list[doc.Block] = [
        doc.Notice(_SEVERITIES.get(record.status, "note"), [doc.Strong(_headline(record)), *reason], large=True),
        doc.Facts({**verdict, "time": duration(record.seconds)}, large=True),
        doc.Heading("Steps"),
        doc.Table(("step", "state", "time", "result"), rows, text=("step", "state", "result"), wide=True),
    ]
    settling = (record.step("verdict") or TaskRecord("verdict")).facts
    if record.status == "stopped" and settling.get("settle"):
        blocks += [doc.Heading("What would settle it"), doc.Paragraph([settling["settle"], _LOGGED])]
        blocks.append(doc.Code("\n".join(settling["commands"]), "sh"))
    blocks += [doc.Notice("warning", text, title=step.name) for step in record.steps for text in step.warnings]
    return doc.Document(
        f"Pipeline run {record.name}",
        blocks,
        about=[f"{record.pipeline}, started {record.started[:19].replace('T', ' ')} UTC"],
        footer="In its folder are the pipeline file as it was, and record.json: what each step read and wrote.",
    )


def _headline(record: RunRecord) -> str:
    if record.status == "shipped":
        return "The ranker is shipped." if record.changed else "Nothing has changed: what is shipped stays."
    if record.status == "stopped":
        where = next(name for name, state in reversed(record.states.items()) if state == "stopped")
        return f"The run was stopped by its {where} step; production stays as it is."
    return {
        "failed": "The run failed; production stays as it is.",
        "interrupted": "The run was interrupted; the next run goes on from there.",
        "running": "The run is going on.",
    }[record.status]
