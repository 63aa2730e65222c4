"""A replay proves something only if it shares nothing with the writer."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import cldrank.export.replay as room

REPLAYS = sorted(Path(room.__path__[0]).glob("*.py"))


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level
            found.add(str(node.module))
    return found


@pytest.mark.parametrize("path", REPLAYS, ids=lambda path: path.stem)
def test_a_replay_imports_no_other_part_of_cldrank_than_its_errors(path: Path) -> None:
    own = {name for name in imported(path) if name.split(".")[0] == "cldrank"}
    assert all(name.startswith("cldrank.export.replay") or name == "cldrank.errors" for name in own)
