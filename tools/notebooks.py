"""Run the notebooks in examples/ and keep what they show: `python tools/notebooks.py`.

Code runs in this process, so that no Jupyter is needed; values are shown as a notebook shows them.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"
RICH = {"text/html": "_repr_html_", "image/svg+xml": "_repr_svg_"}  # what a notebook asks of a value, besides its text


def notebooks() -> list[Path]:
    """All notebooks."""
    return sorted(EXAMPLES.glob("*.ipynb"))


def run(notebook: dict[str, Any]) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Each code cell of a notebook with its outputs, run in the current folder."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate((cell for cell in notebook["cells"] if cell["cell_type"] == "code"), start=1):
        yield cell, outputs("".join(cell["source"]), names, number)


def outputs(source: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """What a cell prints, then what its last line is, if that is a value."""
    tree = ast.parse(source)
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        tree.body.pop()
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), names)  # noqa: S102  # of our own notebooks
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)  # noqa: S307
    made: list[dict[str, Any]] = []
    if printed.getvalue():
        made.append({"name": "stdout", "output_type": "stream", "text": lines(printed.getvalue())})
    if value is not None:
        shown = {"text/plain": lines((str if hasattr(value, "_repr_html_") else repr)(value))}
        shown |= {kind: lines(getattr(value, method)()) for kind, method in RICH.items() if hasattr(value, method)}
        made.append({"data": shown, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return made


def lines(text: str) -> list[str]:
    """A text as notebooks keep it."""
    return text.splitlines(keepends=True)


def main() -> None:
    """Run each in an empty folder, and write it with its outputs."""
    for path in notebooks():
        notebook = json.loads(path.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            for number, (cell, shown) in enumerate(run(notebook), start=1):
                cell |= {"execution_count": number, "outputs": shown}
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
        print(f"wrote {path.relative_to(EXAMPLES.parent)}, {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
