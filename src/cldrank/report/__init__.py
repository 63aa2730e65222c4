"""Reports: what came out of experiments, as a page, as tables for papers and repositories, as pictures."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from cldrank.errors import UsageError
from cldrank.files import make_folder, save_text

__all__ = ["save_report"]

FORMATS = ("html", "md", "csv", "latex", "png")

_ENDINGS = {"html": ".html", "md": ".md", "csv": ".csv", "latex": ".tex"}


def save_report(folder: str | PathLike[str], out: str | PathLike[str], format: str = "html") -> tuple[Path, ...]:  # noqa: A002
    """Write the report on the results in a folder; returns the files written, the one to open first.

    html    one page that needs no other file
    md      tables and links to SVG pictures, which are written beside it
    csv     the summary: a line for each method, setting and measure
    latex   tables in the style of booktabs
    png     one picture for each experiment and data set, in the folder `out`; needs Matplotlib

    Where `out` is a folder, the report is called `report` in it.
    """
    if format not in FORMATS:
        raise UsageError(f"a report is written as {', '.join(FORMATS)}, not {format!r}.")
    from cldrank.experiment.records import load_results

    table = load_results(folder)
    if format == "csv":
        from cldrank.report.listing import as_csv

        return (_saved(_target(out, format), as_csv(table)),)
    from cldrank.report.sections import sections

    found = sections(table)
    if format == "png":
        from cldrank.report.plots import save_pictures

        return save_pictures(found, make_folder(out))
    target = _target(out, format)
    if format == "html":
        from cldrank.report.report_page import render_report

        return (_saved(target, render_report(found)),)
    if format == "latex":
        from cldrank.report.latex import render_latex

        return (_saved(target, render_latex(found)),)
    from cldrank.report.markdown import render_markdown, section_pictures

    if target.exists() and not target.is_file():
        raise UsageError(f"{target} is not a file, and pictures are written beside the text; name a file to write.")
    beside = {name: _saved(target.with_name(f"{target.stem}-{name}.svg"), svg) for name, svg in section_pictures(found)}
    text = render_markdown(found, {name: path.name for name, path in beside.items()})
    return (_saved(target, text), *beside.values())


def _target(out: str | PathLike[str], format: str) -> Path:  # noqa: A002
    target = Path(out)
    if target.is_dir():
        return target / f"report{_ENDINGS[format]}"
    return make_folder(target.parent) / target.name


def _saved(target: Path, text: str) -> Path:
    save_text(target, text)
    return target
