from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from browser import Checked, cut_on_a_phone, look, seen_in
from jinja2 import UndefinedError

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
from cldrank.documents.html import render_page

EVIL = "</title><script>alert('x')</script>&\"'\x1b[31m"


def curves(names: tuple[str, ...] = ("one", EVIL)) -> Figure:
    chosen = looks(names)
    points = tuple(Point(at, at / 10, at / 11, at / 9, f"note {at}") for at in (1, 2, 4))
    series = tuple(Series(name, points, chosen[name]) for name in names)
    return Figure(EVIL, series, Axis.across([1, 2, 4], "depth", "K"), Axis.around([0.05, 0.45]))


def bars() -> Figure:
    points = (Point(0, 0.4, note=EVIL), Point(1, 0.2))
    return Figure(EVIL, (Series(EVIL, points),), Axis.of_labels((EVIL, "b")), Axis.from_zero(0.4), "bars", about=EVIL)


def every_block() -> list[Block]:
    table = Table((EVIL, "words", "n"), [(Strong(EVIL), EVIL, 1), (Mono(EVIL), Link(EVIL, "#x"), 2)], text=("words",))
    return [
        Notice("blocking", EVIL, EVIL, EVIL, large=True),
        Facts({EVIL: EVIL, "clicks": "1,000"}, large=True),
        Heading(EVIL, anchor="x"),
        Paragraph(f"`{EVIL}` and **{EVIL}**"),
        Paragraph([EVIL], quiet=True),
        Notice("note", EVIL, EVIL, EVIL),
        Notice("ok", "fine"),
        bars(),
        Table(("a", "b"), [("1", EVIL)], title=EVIL, about=EVIL, groups=(("", 1), (EVIL, 1))),
        table,
        Facts({"command": [Mono(EVIL), EVIL], "unknown": []}),
        Details(EVIL, [Paragraph(EVIL), table]),
        Panels((curves(), curves()), about=EVIL),
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
    assert checked.seen.count("script") == (1 if render is render_html else 0)
    assert "unknown" not in page
    assert set(checked.addresses) == {"#x"}
    assert checked.ids.count("x") == 1


def test_every_variable_of_a_style_sheet_has_a_colour() -> None:
    root = Path(__file__).parents[2] / "src" / "cldrank"
    local = {"columns", "tone", "tone-ground", "w"}  # set where they are used
    for sheet in root.rglob("templates/*.css"):
        assert set(re.findall(r"var\(--([a-z-]+)\)", sheet.read_text())) <= {*THEMES["light"], *local}, sheet


def test_a_name_that_is_missing_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="title"):
        render_page("cldrank.documents", "page.html", {})


def test_figures_and_titled_tables_stand_beside_each_other() -> None:
    figure, table = bars(), Table(("a",), [("1",)], title="t")
    page = render_html(Document("x", [figure, table, Paragraph("words"), Table(("a",), [("1",)])]))
    assert page.count('<div class="cards">') == 1
    assert page.count('<div class="card">') == 3


def test_nothing_is_cut_on_a_phone(tmp_path: Path) -> None:
    long = "a_very_long_name_without_any_space_" * 4
    blocks = [*every_block(), Facts({long: long}), Table((long, "n"), [(long, "1,000")]), Notice("warning", long, long)]
    page = render_html(Document(long, [block for block in blocks if not isinstance(block, Panels)], long))
    cut = cut_on_a_phone(page, tmp_path)
    assert not {what: names for what, names in cut.items() if what not in ("clipped", "tiny")}


_CLICKS = """<script>
document.querySelector("button.key").click();
document.querySelector("svg.figure[data-stops]").dispatchEvent(
  new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true}));
document.body.dataset.seen = JSON.stringify({
  hidden: document.querySelectorAll(".series.off").length,
  told: document.getElementById("tip").textContent,
});
</script></body>"""


def test_a_series_can_be_hidden_and_values_are_read_out(tmp_path: Path) -> None:
    page = render_html(Document("x", [Panels((curves(("one", "two")), curves(("one", "two"))))]))
    (tmp_path / "page.html").write_text(page.replace("</body>", _CLICKS), encoding="utf-8")
    seen = seen_in(look(tmp_path / "page.html", "--dump-dom"))
    assert seen == {"hidden": 4, "told": "K = 1twonote 1"}  # lines and bands of both figures
