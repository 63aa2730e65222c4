"""Reports: what came out of experiments, as a page, as tables for papers and repositories, as pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from cldrank.errors import UsageError
from cldrank.files import make_folder, replacing

if TYPE_CHECKING:
    from cldrank.experiment.report.contents import Block

FORMATS = ("html", "md", "csv", "latex", "png")

_ENDINGS = {"html": ".html", "md": ".md", "csv": ".csv", "latex": ".tex"}


def write(folder: str | PathLike[str], out: str | PathLike[str], format: str = "html") -> tuple[Path, ...]:  # noqa: A002
    """Write the report on the results in a folder; returns the files written, the one to open first.

    html    one page that needs nothing else
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
        from cldrank.experiment.report.listing import as_csv

        return (_saved(_target(out, format), as_csv(table)),)
    from cldrank.experiment.report.contents import blocks

    found = blocks(table)
    if format == "png":
        from cldrank.experiment.report.pictures import save

        return save(found, make_folder(out))
    target = _target(out, format)
    if format == "md" and target.exists() and not target.is_file():
        raise UsageError(f"{target} is not a file, and pictures are written beside the text; name a file to write.")
    if format == "md":
        from cldrank.experiment.report.markdown import pictures, render

        beside = {name: _saved(target.with_name(f"{target.stem}-{name}.svg"), svg) for name, svg in pictures(found)}
        text = render(found, {name: path.name for name, path in beside.items()})
        return (_saved(target, text), *beside.values())
    return (_saved(target, _renderer(format)(found)),)


def _renderer(format: str) -> Callable[[Sequence[Block]], str]:  # noqa: A002
    if format == "html":
        from cldrank.experiment.report.page import render
    else:
        from cldrank.experiment.report.latex import render
    return render


def _target(out: str | PathLike[str], format: str) -> Path:  # noqa: A002
    target = Path(out)
    if target.is_dir():
        return target / f"report{_ENDINGS[format]}"
    return make_folder(target.parent) / target.name


def _saved(target: Path, text: str) -> Path:
    with replacing(target) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")
    return target
