"""Logs in any other Ibis backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cldrank.clicks.log.engines.engine import Engine
from cldrank.clicks.log.parts import LogPart, union

if TYPE_CHECKING:
    import ibis.expr.types as ir


class Backend(Engine):
    """Any other Ibis backend that reads files, one by one."""

    def read(self, part: LogPart) -> ir.Table:
        """The rows of the files of a part."""
        read = getattr(self.connection, f"read_{part.form}")
        options = {"delimiter": part.delimiter} if part.delimiter != "," else {}
        tables = [(part, read(str(file.absolute()), **options)) for file in part.files]
        return union(tables, tables[0][1].columns)
