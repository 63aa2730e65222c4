"""The notebooks in examples/ run, print what they keep, and stay small enough to read on a code-hosting site."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import notebooks
import pytest

LARGEST = 200_000  # bytes


def kept(path: Path) -> dict[str, Any]:
    """A notebook as its file has it."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def texts(outputs: list[dict[str, Any]]) -> list[str]:
    """What was printed; tables and pictures may differ in the last digit."""
    return ["".join(output["text"]) for output in outputs if output["output_type"] == "stream"]


@pytest.mark.parametrize("path", notebooks.notebooks(), ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_keeps(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = list(notebooks.run(kept(path)))
    assert any(texts(outputs) for _, outputs in ran)
    for cell, outputs in ran:
        assert texts(outputs) == texts(cell["outputs"])
        assert [output.get("data", {}).keys() for output in outputs] == [
            output.get("data", {}).keys() for output in cell["outputs"]
        ]


@pytest.mark.parametrize("path", notebooks.notebooks(), ids=lambda path: path.stem)
def test_a_notebook_is_short(path: Path) -> None:
    assert path.stat().st_size < LARGEST
    assert len(kept(path)["cells"]) <= 12
