"""Small results of an engine, brought to memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ibis.expr.types as ir


def one_row(table: ir.Table) -> dict[str, Any]:
    """The values of a table of one row."""
    found: dict[str, Any] = table.to_pyarrow().to_pylist()[0]
    return found


def count_row(table: ir.Table) -> dict[str, int]:
    """The counts of a table of one row; a sum over nothing is 0."""
    return {name: int(value or 0) for name, value in one_row(table).items()}
