"""Fields inside of columns, found by their path: `event_attributes.object.object_id`, also through a list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types

from cldrank.errors import FormatError
from cldrank.tables import Relation, quoted
from cldrank.tables.columns import root_column
from cldrank.tables.types import is_list
from cldrank.wording import some

_MOST_NAMED = 20


@dataclass(frozen=True)
class Field:
    """Where a path leads to in a table.

    path    as far as its end, or the first list on its way
    sql     SQL for what is there
    kind    its type
    inner   the fields to take from each element of the list
    """

    path: str
    sql: str
    kind: pa.DataType
    inner: tuple[str, ...] = ()

    @property
    def is_list(self) -> bool:
        """Whether there is a list of values for each row."""
        return is_list(self.kind)

    def element(self, sql: str) -> Field:
        """The value in an element of the list, given SQL for the element."""
        kind = self.kind.value_type
        for name in self.inner:
            sql, kind = f"({sql}).{quoted(name)}", kind.field(name).type
        return Field(self.path, sql, _plain_type(kind))


def locate(table: Relation, path: str) -> Field:
    """What a path leads to in a table that has the column which it begins with."""
    place = find_field(table, path)
    if place is None:
        root = root_column(table.columns, path)
        there = some(paths_below(table.schema.field(root).type, root), _MOST_NAMED) if root else "no such column"
        raise FormatError(f"there is no field {path!r}; there is {there}.", path=table.where)
    return place


def find_field(table: Relation, path: str) -> Field | None:
    """What a path leads to; None if nothing is there. A column whose own name has dots comes first."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        head = ".".join(parts[:end])
        if head in table.columns:
            place = _below(head, quoted(head), table.schema.field(head).type, parts[end:])
            if place is not None:
                return place
    return None


def _below(path: str, sql: str, kind: pa.DataType, names: list[str]) -> Field | None:
    """From a value down some names; behind the first list, they are taken from its elements."""
    for at, name in enumerate(names):
        if is_list(kind):
            inner = _below(path, sql, kind.value_type, names[at:])
            return None if inner is None or is_list(inner.kind) else Field(path, sql, kind, tuple(names[at:]))
        if not types.is_struct(kind) or kind.get_field_index(name) < 0:
            return None
        path, sql, kind = f"{path}.{name}", f"({sql}).{quoted(name)}", kind.field(name).type
    return Field(path, sql, _plain_type(kind))


def paths_below(kind: pa.DataType, name: str) -> Iterator[str]:
    """The paths of all values below a column."""
    while is_list(kind):
        kind = kind.value_type
    if not types.is_struct(kind):
        yield name
        return
    for entry in kind:
        yield from paths_below(entry.type, f"{name}.{entry.name}")


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of values, whether or not a dictionary holds them."""
    return kind.value_type if types.is_dictionary(kind) else kind
