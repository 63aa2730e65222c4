"""Tables of experiments, rendered from their results: `<!-- report: msrd.parquet -->` becomes the report on them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from cldrank.documents import render_markdown
from cldrank.experiment.report import report_document
from cldrank.experiment.results import load_results


def _render(app: Any, name: str, text: list[str]) -> None:
    """Put a report in place of each comment; its pictures `msrd-1.svg` … lie beside the page."""

    def report(match: re.Match[str]) -> str:
        results = (Path(app.srcdir) / name).with_name(match[1])
        if not results.exists():
            return ""  # in a source distribution, which leaves out the data
        app.env.note_dependency(str(results))
        written = render_markdown(report_document(load_results(results)), results.stem)
        return written.partition("\n\n")[2]  # the page has a title of its own

    text[0] = re.sub(r"^<!-- report: (\S+) -->$", report, text[0], flags=re.MULTILINE)


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", _render)
    return {"parallel_read_safe": True}
