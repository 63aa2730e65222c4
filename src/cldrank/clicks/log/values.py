"""The values of a column: ids as text or whole numbers, positions and clicks as whole numbers, and what is neither."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cldrank.clicks.log.engines import querying
from cldrank.clicks.log.paths import LogSource
from cldrank.errors import DataError, FormatError

if TYPE_CHECKING:
    import ibis.expr.types as ir

DEEPEST = 10_000  # a position beyond it is a mistake, and so are more clicks on one result in one session
ODD_POSITION, UNEQUAL_LISTS, OFF_THE_PAGE = (-(1 << power) for power in (40, 41, 42))
MARKS = {  # what a position says of a row that has none, and the reason to set the row aside
    ODD_POSITION: "not a number",
    UNEQUAL_LISTS: "unequal lists",
    OFF_THE_PAGE: "off the page",
}
TRUE, FALSE = ("true", "t", "yes", "y"), ("false", "f", "no", "n")
_MOST_WHOLE = 1 << 53  # from here on, floating point cannot hold every whole number
_FEW_ROWS = 10


@dataclass(frozen=True)
class ValueReader:
    """Reads values by their role; `names` and `files` are for messages."""

    names: Mapping[str, str]
    files: Sequence[LogSource]

    def ids(self, table: ir.Table, value: ir.Value, role: str) -> ir.Value:
        """Ids as whole numbers or text; checked first where a cast could change them."""
        kind = value.type()
        if kind.is_string() or (kind.is_integer() and not kind.is_uint64()):
            return value
        if kind.is_uint64() or (kind.is_decimal() and kind.scale == 0):
            low, high = self.row(table.aggregate(low=value.min(), high=value.max()))
            fits = low is None or (low >= -(1 << 63) and high < 1 << 63)
            return value.cast("int64" if fits else "string")
        if kind.is_floating() or kind.is_decimal():
            number = value.cast("float64")
            number = number.isnan().ifelse(None, number)
            odd = number.isinf() | (number.abs() >= _MOST_WHOLE) | (number % 1 != 0)
            found = self.row(table.filter(odd.fill_null(False)).select(id=number).limit(1))
            if found:
                raise FormatError(
                    f"column {self.names[role]!r} ({role}) holds {found[0]}, as {kind}; ids are text or whole numbers, "
                    "and floating point holds every whole number only below 2^53.",
                    path=self.files[0],
                )
            return number.cast("int64")
        if kind.is_nested() or kind.is_binary() or kind.is_json():
            raise self.refusal(role, value, "text or whole numbers")
        return value.cast("string")  # dates, UUIDs, booleans

    def whole(self, value: ir.Value, role: str) -> tuple[ir.IntegerValue, ir.BooleanValue | None]:
        """The values as whole numbers, and where they are something else; None if they cannot be."""
        kind = value.type()
        if kind.is_uint64():
            small = value <= 1 << 40
            return small.ifelse(value, None).cast("int64"), ~small.fill_null(True)
        if kind.is_integer():
            return value, None
        if kind.is_boolean() and role == "clicked":
            return value.cast("int32"), None
        number, odd = self.number(value, role), None
        if kind.is_string():
            odd = (stripped(value) != "").fill_null(False) & number.isnull()
        sensible = (number >= -DEEPEST) & (number <= 1 << 40) & (number % 1 == 0)
        fraction = number.notnull() & ~sensible.fill_null(False)
        whole = sensible.fill_null(False).ifelse(number, None).try_cast("int64")
        return whole, fraction if odd is None else odd | fraction

    def number(self, value: ir.Value, role: str) -> ir.FloatingValue:
        """The values as numbers; null for empty text, and for what is not a number."""
        kind = value.type()
        self.check_numbers(kind, role, value)
        if not kind.is_string():
            return value.cast("float64")
        text = stripped(value).lower()  # as in CSV
        if role == "clicked":
            text = text.isin(TRUE).ifelse("1", text.isin(FALSE).ifelse("0", text))
        return text.try_cast("float64")

    def check_numbers(self, kind: ir.DataType, role: str, value: ir.Value) -> None:
        """Refuse a column of a type that cannot hold numbers."""
        if not (kind.is_numeric() or kind.is_string()):
            raise self.refusal(role, value, "numbers")

    def check_clicks(self, table: ir.Table, clicks: ir.IntegerValue) -> None:
        """Refuse a column that cannot hold clicks: one that counts, but never counts 0."""
        table = table.select(clicks=clicks)
        if self.row(table.filter(table.clicks == 0).limit(1)):
            return
        rows, most = self.row(table.aggregate(rows=table.count(), most=table.clicks.max()))
        if rows >= _FEW_ROWS and most > 1:
            raise DataError(
                f"column {self.names['clicked']!r} (clicked) is never 0 and goes up to {most}: these are not clicks. "
                "Name the column that says which of the displayed results were clicked."
            )

    def refusal(self, role: str, value: ir.Value, wanted: str) -> FormatError:
        """The error for a column of the wrong type."""
        name = self.names[role]
        return FormatError(f"column {name!r} ({role}) holds {value.type()}, not {wanted}.", path=self.files[0])

    def row(self, query: ir.Table) -> tuple[Any, ...]:
        """The only row of a query; () if there is none."""
        found = self.rows(query)
        return tuple(found[0].values()) if found else ()

    def rows(self, query: ir.Table) -> list[dict[str, Any]]:
        """The few rows of a query."""
        with querying(self.files):
            found: list[dict[str, Any]] = query.to_pyarrow().to_pylist()
        return found


def any_of(*odd: ir.BooleanValue | None) -> ir.BooleanValue | None:
    """Whether any of some conditions holds; None stands for one that never does."""
    found = None
    for one in odd:
        if one is not None:
            found = one if found is None else found | one
    return found


def stripped(text: ir.StringValue) -> ir.StringValue:
    r"""A text in capitals without the space around it.

    In capitals, since Ibis asks Spark to strip \f and \v, and Spark strips the letters f and v.
    """
    return text.upper().strip()
