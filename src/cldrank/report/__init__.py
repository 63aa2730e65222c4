"""Reports: what came out of experiments, as a page, as tables for repositories and spreadsheets."""

from __future__ import annotations

import math
from os import PathLike
from pathlib import Path

from cldrank.errors import UsageError
from cldrank.files import make_folder, replacing, save_text

__all__ = ["save_report"]

FORMATS = ("html", "md", "csv")


def save_report(folder: str | PathLike[str], out: str | PathLike[str], format: str = "html") -> tuple[Path, ...]:  # noqa: A002
    """Write the report on the results in a folder; returns the files written, the one to open first.

    html    one page that needs no other file
    md      tables and links to SVG pictures, which are written beside it
    csv     the summary: a line for each method, setting and measure; what is not known stays empty

    Where `out` is a folder, the report is called `report` in it.
    """
    if format not in FORMATS:
        raise UsageError(f"a report is written as {', '.join(FORMATS)}, not {format!r}.")
    from cldrank.experiment.results import load_results, summary

    table = load_results(folder)
    target = Path(out)
    target = target / f"report.{format}" if target.is_dir() else make_folder(target.parent) / target.name
    if format == "csv":
        import pyarrow as pa
        from pyarrow.csv import write_csv

        rows = [{key: _known(value) for key, value in row.as_dict().items()} for row in summary(table)]
        with replacing(target) as temporary:
            write_csv(pa.Table.from_pylist(rows), temporary)
        return (target,)
    from cldrank.documents import markdown_pictures, render_html, render_markdown
    from cldrank.report.contents import report_document
    from cldrank.report.sections import sections

    document = report_document(sections(table))
    if format == "html":
        save_text(target, render_html(document))
        return (target,)
    if target.exists() and not target.is_file():
        raise UsageError(f"{target} is not a file, and pictures are written beside the text; name a file to write.")
    pictures = {target.with_name(name): svg for name, svg in markdown_pictures(document, target.stem).items()}
    for path, svg in pictures.items():
        save_text(path, svg)
    save_text(target, render_markdown(document, target.stem))
    return (target, *pictures)


def _known(value: object) -> object:
    return None if isinstance(value, float) and math.isnan(value) else value
