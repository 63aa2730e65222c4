"""Generated documentation is what the code says now; every link in the documentation leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import docs

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", ["docs/cli.md", "docs/datasets.md", "docs/propensity-methods.md"])
def test_generated_pages_are_up_to_date(name: str) -> None:
    written = (ROOT / name).read_text(encoding="utf-8")
    assert written == docs.GENERATED[name](), f"{name} is stale: run `make docs`"


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))])
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing
