from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from browser import Checked, cut_on_a_phone

from cldrank.documents import (
    Axis,
    Block,
    Details,
    Document,
    Facts,
    Figure,
    Heading,
    Link,
    Mono,
    Notice,
    Panels,
    Paragraph,
    Point,
    Series,
    Strong,
    Table,
    looks,
    render_html,
    render_notebook,
)
from cldrank.documents.figure import THEMES

EVIL = "</title><script>alert('x')</script>&\"'\x1b[31m"


def curves(names: tuple[str, ...] = ("one", EVIL)) -> Figure:
    chosen = looks(names)
    points = tuple(Point(at, at / 10, at / 11, at / 9, f"note {at}") for at in (1, 2, 4))
    series = tuple(Series(name, points, chosen[name]) for name in names)
    return Figure(EVIL, series, Axis.of_labels("abcde"), Axis.around([0.05, 0.45]))


def rates() -> Figure:
    points = (Point(0, 0.4, note=EVIL), Point(1, 0.2))
    return Figure(EVIL, (Series(EVIL, points),), Axis.of_labels((EVIL, "b")), Axis.from_zero(0.4), "dots", about=EVIL)


def every_block() -> list[Block]:
    table = Table((EVIL, "words", "n"), [(Strong(EVIL), EVIL, 1), (Mono(EVIL), Link(EVIL, "#x"), 2)], text=("words",))
    return [
        Notice("blocking", EVIL, EVIL, EVIL, large=True),
        Facts({EVIL: EVIL, "clicks": "1,000"}, large=True),
        Heading(EVIL),
        Paragraph(f"`{EVIL}` and **{EVIL}**"),
        Paragraph([EVIL], quiet=True),
        Notice("note", EVIL, EVIL, EVIL),
        Notice("ok", "fine"),
        rates(),
        Table(("a", "b"), [("1", EVIL)], title=EVIL, about=EVIL),
        table,
        Facts({"command": [Mono(EVIL), EVIL], "unknown": []}),
        Details(EVIL, [Paragraph(EVIL), table]),
        Panels((curves(), curves())),
    ]


def evil_document() -> Document:
    return Document(EVIL, every_block(), about=EVIL, footer=EVIL)


def test_a_page_needs_nothing_else_and_has_every_colour() -> None:
    page = render_html(evil_document())
    assert not re.search(r"url\(|@import|https?:", page)
    light, dark = page.split("prefers-color-scheme: dark")[:2]
    for part, theme in ((light, THEMES["light"]), (dark, THEMES["dark"])):
        assert all(f"--{name}: {colour};" in part for name, colour in theme.items())


@pytest.mark.parametrize("render", [render_html, render_notebook])
def test_texts_cannot_break_out(render: Any) -> None:
    page = render(evil_document())
    assert "alert('x')" not in page
    assert "\x1b" not in page
    assert r"\x1b[31m" in page
    checked = Checked(page)
    assert "script" not in checked.seen
    assert "unknown" not in page
    assert set(checked.addresses) == {"#x"}


def test_every_variable_of_a_style_sheet_has_a_colour() -> None:
    root = Path(__file__).parents[2] / "src" / "cldrank"
    local = {"columns", "tone", "tone-ground", "w"}  # set where they are used
    sheets = list(root.rglob("templates/*.css"))
    assert sheets
    for sheet in sheets:
        assert set(re.findall(r"var\(--([a-z-]+)\)", sheet.read_text())) <= {*THEMES["light"], *local}, sheet


def test_nothing_is_cut_on_a_phone(tmp_path: Path) -> None:
    long = "a_very_long_name_without_any_space_" * 4
    blocks = [*every_block(), Facts({long: long}), Table((long, "n"), [(long, "1,000")]), Notice("warning", long, long)]
    page = render_html(Document(long, [block for block in blocks if not isinstance(block, Panels)], long))
    cut = cut_on_a_phone(page, tmp_path)
    assert not {what: names for what, names in cut.items() if what not in ("clipped", "tiny")}
