"""One name, one thing: no class is defined twice, and no public function in two rooms."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cldrank import cli

SOURCE = Path(__file__).parents[1] / "src" / "cldrank"

# Public functions that may have the same name in two rooms, each with the reason. Commands may: they are called as the
# functions that they call.
ALLOWED: dict[str, str] = {}


def definitions() -> Iterator[tuple[Path, ast.AST, bool]]:
    """Every node of the source with its file, and whether it stands at the top of its module."""
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        top = set(tree.body)
        for node in ast.walk(tree):
            yield path.relative_to(SOURCE), node, node in top


def commands(group: Any) -> Iterator[str]:
    """The functions behind the commands of the command line, those that are made when they are called for included."""
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if hasattr(command, "commands"):
            yield from commands(command)
        else:
            yield command.callback.__name__


def repeated(places: dict[str, set[str]]) -> dict[str, list[str]]:
    return {name: sorted(found) for name, found in sorted(places.items()) if len(found) > 1}


def listed(found: dict[str, list[str]]) -> str:
    return "".join(f"\n  {name}: {', '.join(places)}" for name, places in found.items())


def test_every_class_name_is_defined_once() -> None:
    places: dict[str, set[str]] = defaultdict(set)
    for path, node, _ in definitions():
        if isinstance(node, ast.ClassDef):
            places[node.name].add(f"{path}:{node.lineno}")
    found = repeated(places)
    assert not found, listed(found)


def test_every_public_function_name_belongs_to_one_room() -> None:
    called = set(commands(cli.app))
    places: dict[str, set[str]] = defaultdict(set)
    for path, node, at_top in definitions():
        room = path.parts[0]
        if not isinstance(node, ast.FunctionDef) or not at_top or node.name.startswith("_"):
            continue
        if room != "cli" or node.name not in called:
            places[node.name].add(room)
    found = {name: rooms for name, rooms in repeated(places).items() if name not in ALLOWED}
    assert not found, listed(found)
