"""Fields inside of columns, found by their path: `event_attributes.object.object_id`, also through a list."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ibis.expr.datatypes as dt
    import ibis.expr.types as ir


@dataclass(frozen=True)
class Located:
    """Where a path leads to in a table.

    name    the path up to its end or to the first list on its way
    value   what is there
    inner   the fields to take from each element of the list
    """

    name: str
    value: ir.Value
    inner: tuple[str, ...] = ()

    @property
    def is_list(self) -> bool:
        """Whether there is a list of values for each row."""
        return bool(self.inner) or self.value.type().is_array()

    def of(self, element: ir.Value) -> ir.Value:
        """The value in an element of the list."""
        return field_of(element, self.inner)


def root_of(columns: Collection[str], path: str) -> str | None:
    """The column that a path begins with; a column of that very name, dots included, comes first.

    >>> root_of(["a", "a.b"], "a.b"), root_of(["a", "a.b"], "a.b.c"), root_of(["a"], "b.a")
    ('a.b', 'a.b', None)
    """
    return next((head for head, _ in _splits(path) if head in columns), None)


def locate(table: ir.Table, path: str) -> Located | None:
    """What a path leads to; None where it leads nowhere."""
    for head, rest in _splits(path):
        if head not in table.columns:
            continue
        way = _way(table[head].type(), rest)
        if way is not None:
            fields, inner = way
            return Located(".".join([head, *fields]), field_of(table[head], fields), inner)
    return None


def paths_below(kind: dt.DataType, name: str) -> Iterator[str]:
    """The paths of all values below a column.

    >>> import ibis.expr.datatypes as dt
    >>> list(paths_below(dt.dtype("struct<a: int64, b: array<struct<c: string>>>"), "x"))
    ['x.a', 'x.b.c']
    """
    while kind.is_array():
        kind = kind.value_type
    if not kind.is_struct():
        yield name
        return
    for field, inner in kind.items():
        yield from paths_below(inner, f"{name}.{field}")


def field_of(value: ir.Value, fields: tuple[str, ...]) -> ir.Value:
    """A field of a field … of a value."""
    for name in fields:
        value = value[name]
    return value


def _splits(path: str) -> Iterator[tuple[str, str]]:
    """All ways to cut a path in two at a dot, the longest head first."""
    yield path, ""
    for at in range(len(path) - 1, 0, -1):
        if path[at] == ".":
            yield path[:at], path[at + 1 :]


def _way(kind: dt.DataType, path: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The fields from a value down a path: those before the first list, and those behind it."""
    if not path:
        return (), ()
    if kind.is_array():
        inside = _way(kind.value_type, path)
        return ((), inside[0]) if inside and not inside[1] else None
    if not kind.is_struct():
        return None
    for head, rest in _splits(path):
        below = _way(kind[head], rest) if head in kind.names else None
        if below is not None:
            return (head, *below[0]), below[1]
    return None
