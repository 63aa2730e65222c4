"""Pictures of the documentation are what `tools/pictures.py` draws."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pictures
import pytest


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_pictures_are_in_the_documentation(name: str) -> None:
    page = (pictures.DOCS / name).read_text(encoding="utf-8")
    assert ElementTree.fromstring(page).tag.endswith("svg")  # noqa: S314  # of our own making
    folder = (pictures.DOCS / name).parent
    assert any(f"]({(pictures.DOCS / name).name})" in text.read_text(encoding="utf-8") for text in folder.glob("*.md"))


def test_the_causal_graph_is_up_to_date() -> None:
    name = "explanation/causal-graph.svg"
    assert (pictures.DOCS / name).read_text(encoding="utf-8") == pictures.causal_graph(), (
        f"run tools/pictures.py {name}"
    )


def test_every_arrow_joins_two_nodes() -> None:
    joined = {(start, end) for start, end, _ in pictures.ARROWS}
    assert joined == {("x", "r"), ("x", "k"), ("x", "s"), ("r", "s"), ("r", "c"), ("k", "e"), ("e", "c")}
