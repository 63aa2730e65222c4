from __future__ import annotations

import re
from pathlib import Path

import pytest
from jinja2 import Environment, UndefinedError

from cldrank.drawing.looks import THEMES
from cldrank.drawing.templating import _environment, marked, render_page

EVIL = "</title><script>alert('x')</script>&\"'"


@pytest.fixture
def environment() -> Environment:
    return _environment("cldrank.drawing")


def test_a_page_needs_nothing_else_and_has_every_colour() -> None:
    page = render_page("cldrank.drawing", "base.html", {"title": EVIL})
    assert "<title>&lt;/title&gt;&lt;script&gt;" in page
    assert page.endswith("</main></body></html>\n")
    assert not re.search(r"url\(|@import|https?:", page)
    light, dark = page.split("prefers-color-scheme: dark")[:2]
    for part, theme in ((light, THEMES["light"]), (dark, THEMES["dark"])):
        assert all(f"--{name}: {colour};" in part for name, colour in theme.items())


def test_every_variable_of_a_style_sheet_has_a_colour() -> None:
    root = Path(__file__).parents[2] / "src" / "cldrank"
    sheets = list(root.rglob("templates/*.css"))
    assert len(sheets) == 6
    local = {"columns", "tone", "tone-ground", "w"}  # set where they are used
    for sheet in sheets:
        assert set(re.findall(r"var\(--([a-z-]+)\)", sheet.read_text())) <= {*THEMES["light"], *local}, sheet


def test_texts_cannot_break_out(environment: Environment) -> None:
    parts = environment.get_template("parts.html").module
    tiles = parts.tiles({EVIL: EVIL}, [EVIL])  # type: ignore[attr-defined]
    table = parts.table((EVIL, "b"), [(EVIL, EVIL)], (EVIL,))  # type: ignore[attr-defined]
    facts = parts.facts([(EVIL, [EVIL], True), ("none", [], False)])  # type: ignore[attr-defined]
    for made in (tiles, table, facts, marked(f"`{EVIL}`")):
        assert "<script" not in made
        assert "&lt;script&gt;" in made
    assert '<div class="bad">' in tiles
    assert "none" not in facts


def test_a_name_that_is_missing_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="title"):
        render_page("cldrank.drawing", "base.html", {})
