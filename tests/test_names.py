"""One name, one thing: no class is defined twice, no public function in two rooms, no constant with two meanings."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from cldrank import cli

SOURCE = Path(__file__).parents[1] / "src" / "cldrank"


@cache
def modules() -> dict[Path, ast.Module]:
    return {path.relative_to(SOURCE): ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}


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


def test_every_class_name_is_defined_once() -> None:
    places: dict[str, set[str]] = defaultdict(set)
    for path, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                places[node.name].add(f"{path}:{node.lineno}")
    assert not repeated(places)


def test_every_public_function_name_belongs_to_one_room() -> None:
    called = set(commands(cli.app))
    places: dict[str, set[str]] = defaultdict(set)
    for path, tree in modules().items():
        for node in tree.body:
            if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
                continue
            if path.parts[0] != "cli" or node.name not in called:
                places[node.name].add(path.parts[0])
    assert not repeated(places)


def test_every_module_name_belongs_to_one_module() -> None:
    places: dict[str, set[str]] = defaultdict(set)
    for path in modules():
        name = path.parent.name if path.name == "__init__.py" else path.stem
        if path.parts[0] != "cli":  # whose modules are called like the rooms that they call
            places[name].add(str(path))
    assert not repeated(places)


def test_every_public_constant_has_one_meaning() -> None:
    values: dict[str, set[str]] = defaultdict(set)
    for tree in modules().values():
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                for name in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(name, ast.Name) and name.id.isupper() and not name.id.startswith("_"):
                        values[name.id].add(ast.dump(node.value))
    assert not repeated(values)
