"""The pictures of tutorials: runs the code of a page, and draws what it has found beside the page.

`CLDRANK_DATA=… python tools/tutorial_pictures.py docs/tutorials/ranklens.md docs/tutorials/msrd.md`
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import SkipTest

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "helpers")]

from pages import PAGES, setup, teardown  # noqa: E402

from cldrank.documents.figure import (  # noqa: E402
    Axis,
    Figure,
    Point,
    Series,
)
from cldrank.documents.svg import picture  # noqa: E402
from cldrank.measures import Interval  # noqa: E402
from cldrank.propensity.curve_document import curve_figure  # noqa: E402


def rows(title: str, values: Mapping[str, Interval], references: Mapping[str, float] | None = None) -> str:
    """A row per name: its value with its interval and, as a ring, the value to compare it with."""
    known = references or {}
    series = [
        Series(name, (Point(at, one.estimate, one.low, one.high, f"{name}: {one:.3f}", known.get(name)),))
        for at, (name, one) in enumerate(values.items())
    ]
    ends = [end for one in values.values() for end in (one.low, one.high)] + [*known.values(), 0.0]
    axis = Axis.around(ends)
    words = "by labels, test queries" if known else ""
    figure = Figure(
        title, tuple(series), Axis.of_rows(list(values)), axis, "rows", 640, marked=(0.0,), references=words
    )
    return picture([figure])


def ranklens(names: Mapping[str, Any]) -> dict[str, str]:
    """The examination curve, and what each order achieves."""
    achieved = {name: one.measures["DCG@5"].interval for name, one in names["found"].items()}
    return {
        "ranklens-curve.svg": curve_figure(
            {"Randomised": names["rho"]}, "Examination by position, films in random order"
        )._repr_svg_(),
        "ranklens-verdict.svg": rows("DCG@5 by the clicks on held-out lists", achieved),
    }


def msrd(names: Mapping[str, Any]) -> dict[str, str]:
    """What clicks said of each order, and what labels say, in the units of clicks: an irrelevant film is worth 0.1."""
    shown = [name for name in names["verdicts"] if name != "popularity"]
    said = {name: names["verdicts"][name]["DCG@5"].interval for name in shown}
    labels = {name: 0.9 * names["labels"][name].difference for name in shown}
    return {"msrd-verdict.svg": rows("DCG@5, difference from production", said, labels)}


DRAWN: dict[str, Callable[[Mapping[str, Any]], dict[str, str]]] = {"ranklens": ranklens, "msrd": msrd}


def draw(page: Path) -> None:
    """Run a page as the tests do, and write its pictures."""
    document = PAGES.parse(page)
    here = Path.cwd()
    setup(document.namespace)
    try:
        for example in document.examples():
            with suppress(SkipTest):
                example.evaluate()
        pictures = DRAWN[page.stem](document.namespace)
    finally:
        teardown(document.namespace)
        os.chdir(here)
    for name, svg in pictures.items():
        (page.parent / name).write_text(svg, encoding="utf-8")
        print(f"{page.parent / name}: {len(svg) / 1000:.0f} kB")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        draw(Path(name).absolute())
