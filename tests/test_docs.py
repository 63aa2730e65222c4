"""Generated documentation is what the code says now; every link in the documentation leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import docs
from cldrank.estimators import methods

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", ["docs/cli.md", "docs/datasets.md", "docs/methods.md", "docs/propensity-methods.md"])
def test_generated_pages_are_up_to_date(name: str) -> None:
    written = (ROOT / name).read_text(encoding="utf-8")
    assert written == docs.GENERATED[name](), f"{name} is stale: run `make docs`"


def test_every_method_has_its_place() -> None:
    table = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    commands = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for name, kind in methods().items():
        (row,) = [line for line in table.splitlines() if line.startswith(f"| {kind.label} | `{name}` |")]
        assert kind.sentence in row
        for bias in kind.corrects:
            assert bias in row
        assert commands.count(f"### `cldrank train {name}`\n") == 1


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))])
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing
