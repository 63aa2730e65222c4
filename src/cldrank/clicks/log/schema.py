"""The schema of an impression log: from whatever columns a log has to the ones that everything else knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cldrank.arguments import check_choice
from cldrank.clicks.log.engines import Engine, querying
from cldrank.clicks.log.paths import LogSource, Paths, existing
from cldrank.errors import DataError, FormatError, Spelling, UsageError
from cldrank.wording import some

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from numpy.typing import NDArray

KEYS = ("session_id", "query_id", "doc_id")
REQUIRED = (*KEYS, "position", "clicked")
PAGE = ("session_id", "query_id", "documents", "clicked_positions")
OPTIONAL = ("timestamp", "user_id", "ranker_id", "surface", "propensity")
ONE_QUERY = "all"
DEEPEST = 10_000  # a position beyond it is a mistake, and so are more clicks on one result in one session
ODD_POSITION = -(1 << 40)  # marks a position or a click count that is not a number
TRUE, FALSE = ("true", "t", "yes", "y"), ("false", "f", "no", "n")
_MOST_NAMED = 20  # columns, in a message
_MOST_WHOLE = 1 << 53  # from here on, floating point cannot hold every whole number
_FEW_ROWS = 10
COLUMNS = Spelling("columns", "--column")


@dataclass(frozen=True)
class Log:
    """An impression log, open in an engine.

    rows       one row per displayed result: session_id, query_id, doc_id, position (from 1), clicks (0 for none), and
               those of timestamp, user_id, ranker_id, surface, propensity that the log has
    phantoms   clicks on positions that their page does not have, in logs with one row per page; else None
    optional   which optional columns there are
    once       whether clicks are always 0 or 1
    """

    rows: ir.Table
    phantoms: ir.Table | None
    optional: tuple[str, ...]
    once: bool = False


def open_log(
    paths: Paths,
    engine: Engine,
    *,
    columns: Mapping[str, str] | None = None,
    first_position: int | None = None,
    one_query: bool | str = False,
) -> Log:
    """Open the files of a log.

    A log has one row per displayed result, with columns session_id, query_id, doc_id, position and clicked (true and
    false, or a number of clicks; null means none), or one row per page, with session_id, query_id, documents (a list,
    top first) and clicked_positions (a list). A session_id stands for one page of results: one search of one person.

    columns          what the columns are called, where it differs
    first_position   the number of the top position, 1 or, for logs that count from 0, 0
    one_query        treat all pages as answers to one query, for logs without queries, such as recommendations; a text
                     is the id of that query
    """
    if first_position is not None:
        check_choice("first_position", first_position, (0, 1))
    files = existing(paths)
    names: dict[str, str] = {}

    def choose(there: Sequence[str]) -> list[str]:
        names.update(_roles(there, files[0], columns or {}, bool(one_query)))
        return list(names.values())

    table = engine.open(files, choose)
    reader = _Reader(table, names, files, 1 if first_position is None else first_position, one_query)
    optional = tuple(role for role in OPTIONAL if role in names)
    if "documents" in names:
        rows, phantoms = reader.unnested()
        return Log(rows.select(*KEYS, "position", "clicks", *optional), phantoms, optional, once=True)
    rows = reader.flat()
    once = table[names["clicked"]].type().is_boolean()
    return Log(rows.select(*KEYS, "position", "clicks", *optional), None, optional, once)


def only_query(query_ids: Sequence[object] | NDArray[Any]) -> str:
    """The query of all pages of a log without queries: the only one of the dataset, whatever its id."""
    if len(query_ids) != 1:
        raise UsageError(
            "{} treats all pages as answers to one query, but the dataset has {:,} queries; give the candidates of one "
            "query, or a log that names the query of each page.",
            Spelling("one_query=True", "--one-query"),
            len(query_ids),
        )
    return str(query_ids[0])


# -- which columns -----------------------------------------------------------------------------------------------------


def _roles(there: Sequence[str], path: LogSource, columns: Mapping[str, str], one_query: bool) -> dict[str, str]:
    """The column of each role."""
    known = (*REQUIRED, *PAGE[2:], *OPTIONAL)
    for role, column in columns.items():
        if role not in known:
            raise UsageError("{} maps {!r}, which is not one of {}.", COLUMNS, role, ", ".join(known))
        if column not in there:
            raise FormatError(f"there is no column {column!r} (for {role}); {columns_of(there)}.", path=path)
    names = {role: columns.get(role, role) for role in known if columns.get(role, role) in there}
    if one_query:
        names.pop("query_id", None)
    needed = PAGE if "documents" in names else REQUIRED
    for role in needed:
        if role not in names and not (one_query and role == "query_id"):
            raise FormatError(
                "there is no column {!r}; {}. Name the right one with {}.",
                role,
                columns_of(there),
                mapping(role),
                path=path,
            )
    names = {role: column for role, column in names.items() if role in (*needed, *OPTIONAL)}
    _check_roles(names, columns)
    return names


def _check_roles(names: Mapping[str, str], columns: Mapping[str, str]) -> None:
    """Refuse a column in two roles, unless one of them is an optional role that it has only by its name."""
    roles: dict[str, str] = {}
    for role, column in names.items():
        if role in OPTIONAL and role not in columns:
            continue
        if column in roles:
            raise UsageError(f"column {column!r} cannot be both {roles[column]} and {role}; name two columns.")
        roles[column] = role


def columns_of(names: Sequence[str]) -> str:
    """The columns of a log, for messages."""
    return f"the log has {some(names, _MOST_NAMED)}"


def mapping(role: str) -> Spelling:
    """How to say which column has a role.

    >>> mapping("timestamp").shell
    '--column timestamp=NAME (--log-column where --column is for features)'
    """
    option = f"--column {role}=NAME (--log-column where --column is for features)"
    return Spelling(f"columns={{{role!r}: NAME}}", option)


# -- which values ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Reader:
    """The columns of a log, and how to read them."""

    table: ir.Table
    names: Mapping[str, str]
    files: Sequence[LogSource]
    first_position: int
    one_query: bool | str

    def flat(self) -> ir.Table:
        """One row per displayed result."""
        import ibis

        table = self.table
        position, odd_position = self._whole(table[self.names["position"]], "position")
        clicked, odd_clicks = self._whole(table[self.names["clicked"]], "clicked")
        clicks = ibis.coalesce(clicked, 0)
        if not table[self.names["clicked"]].type().is_boolean():
            self._check_clicks(clicks)
            senseless = ~clicks.between(0, DEEPEST)
            odd_clicks = senseless if odd_clicks is None else senseless | odd_clicks
            clicks = senseless.ifelse(0, clicks)
        if self.first_position != 1:
            position = self._from_1(position)
        for odd in (odd_position, odd_clicks):
            if odd is not None:  # the common types cannot be odd, and cost nothing here
                position = odd.ifelse(ODD_POSITION, position)
        doc_id = self._ids(table, table[self.names["doc_id"]], "doc_id")
        return table.select(**self._common(), doc_id=doc_id, position=position, clicks=clicks)

    def unnested(self) -> tuple[ir.Table, ir.Table]:
        """One row per displayed result from one row per page, and the clicks on positions that a page lacks."""
        for role in PAGE[2:]:
            column = self.table[self.names[role]]
            if not column.type().is_array():
                raise self._refusal(role, column, "lists")
        clicked, kind = self._clicked_positions()
        pages = self.table.select(
            **self._common(), documents=self.table[self.names["documents"]], clicked_positions=clicked
        )
        rows = pages.unnest("documents", offset="place")
        rows = rows.mutate(doc_id=self._ids(rows, rows.documents, "documents"), position=rows.place.cast("int64") + 1)
        hit = rows.clicked_positions.contains((rows.position - 1 + self.first_position).cast(kind))
        rows = rows.mutate(clicks=hit.fill_null(False).cast("int64"))
        clicks = pages.mutate(length=pages.documents.length().fill_null(0)).unnest("clicked_positions")
        whole, odd = self._whole(clicks.clicked_positions, "clicked_positions")
        if kind == "string":
            odd |= (whole.cast("string") != clicks.clicked_positions).fill_null(False)
        position = self._from_1(whole)
        clicks = clicks.mutate(position=position if odd is None else odd.ifelse(ODD_POSITION, position))
        within = clicks.position.between(1, clicks.length).fill_null(False)
        return rows, clicks.filter(~within).select("session_id", "query_id", "position")

    def _from_1(self, position: ir.IntegerValue) -> ir.IntegerValue:
        far = (position > DEEPEST).fill_null(False)  # left as it is: one more could overflow its type
        return far.ifelse(position, far.ifelse(0, position).cast("int64") + (1 - self.first_position))

    def _clicked_positions(self) -> tuple[ir.ArrayValue, str]:
        """The clicked positions of pages, and their type: one that any position can be compared with."""
        clicked = self.table[self.names["clicked_positions"]]
        kind = clicked.type().value_type
        self._check_numbers(kind, "clicked_positions", clicked)
        if kind.is_string() or kind.is_uint64():
            return clicked, str(kind)
        wide = "int64" if kind.is_integer() else "float64"
        return clicked.cast(f"array<{wide}>"), wide

    def _common(self) -> dict[str, ir.Value]:
        import ibis

        table = self.table
        values = {role: table[self.names[role]] for role in OPTIONAL if role in self.names}
        if "propensity" in values:
            values["propensity"] = self._number(values["propensity"], "propensity")
        values["session_id"] = self._ids(table, table[self.names["session_id"]], "session_id")
        if self.one_query:
            values["query_id"] = ibis.literal(ONE_QUERY if self.one_query is True else self.one_query)
        else:
            values["query_id"] = self._ids(table, table[self.names["query_id"]], "query_id")
        return values

    # -- ids -----------------------------------------------------------------------------------------------------------

    def _ids(self, table: ir.Table, value: ir.Value, role: str) -> ir.Value:
        """Ids as whole numbers or text; checked first where a cast could change them."""
        kind = value.type()
        if kind.is_string() or (kind.is_integer() and not kind.is_uint64()):
            return value
        if kind.is_uint64() or (kind.is_decimal() and kind.scale == 0):
            low, high = self._row(table.aggregate(low=value.min(), high=value.max()))
            fits = low is None or (low >= -(1 << 63) and high < 1 << 63)
            return value.cast("int64" if fits else "string")
        if kind.is_floating() or kind.is_decimal():
            number = value.cast("float64")
            number = number.isnan().ifelse(None, number)
            odd = number.isinf() | (number.abs() >= _MOST_WHOLE) | (number % 1 != 0)
            found = self._row(table.filter(odd.fill_null(False)).select(id=number).limit(1))
            if found:
                raise FormatError(
                    f"column {self.names[role]!r} ({role}) holds {found[0]}, as {kind}; ids are text or whole numbers, "
                    "and floating point holds every whole number only below 2^53.",
                    path=self.files[0],
                )
            return number.cast("int64")
        if kind.is_nested() or kind.is_binary() or kind.is_json():
            raise self._refusal(role, value, "text or whole numbers")
        return value.cast("string")  # dates, UUIDs, booleans

    def _row(self, query: ir.Table) -> tuple[Any, ...]:
        """The only row of a query; () if there is none."""
        with querying(self.files):
            rows = query.to_pyarrow().to_pylist()
        return tuple(rows[0].values()) if rows else ()

    # -- numbers -------------------------------------------------------------------------------------------------------

    def _whole(self, value: ir.Value, role: str) -> tuple[ir.IntegerValue, ir.BooleanValue | None]:
        """The values as whole numbers, and where they are something else; None if they cannot be."""
        kind = value.type()
        if kind.is_uint64():
            small = value <= 1 << 40
            return small.ifelse(value, None).cast("int64"), ~small.fill_null(True)
        if kind.is_integer():
            return value, None
        if kind.is_boolean() and role == "clicked":
            return value.cast("int32"), None
        number, odd = self._number(value, role), None
        if kind.is_string():
            odd = (value.strip() != "").fill_null(False) & number.isnull()
        sensible = (number >= -DEEPEST) & (number <= 1 << 40) & (number % 1 == 0)
        fraction = number.notnull() & ~sensible.fill_null(False)
        whole = sensible.fill_null(False).ifelse(number, None).try_cast("int64")
        return whole, fraction if odd is None else odd | fraction

    def _number(self, value: ir.Value, role: str) -> ir.FloatingValue:
        """The values as numbers; null for empty text, and for what is not a number."""
        kind = value.type()
        self._check_numbers(kind, role, value)
        if not kind.is_string():
            return value.cast("float64")
        text = value.strip().lower()  # as in CSV
        if role == "clicked":
            text = text.isin(TRUE).ifelse("1", text.isin(FALSE).ifelse("0", text))
        return text.try_cast("float64")

    def _check_numbers(self, kind: ir.DataType, role: str, value: ir.Value) -> None:
        if not (kind.is_numeric() or kind.is_string()):
            raise self._refusal(role, value, "numbers")

    def _check_clicks(self, clicks: ir.IntegerValue) -> None:
        """Refuse a column that cannot hold clicks: one that counts, but never counts 0."""
        table = self.table.select(clicks=clicks)
        if self._row(table.filter(table.clicks == 0).limit(1)):
            return
        rows, most = self._row(table.aggregate(rows=table.count(), most=table.clicks.max()))
        if rows >= _FEW_ROWS and most > 1:
            raise DataError(
                f"column {self.names['clicked']!r} (clicked) is never 0 and goes up to {most}: these are not clicks. "
                "Name the column that says which of the displayed results were clicked."
            )

    def _refusal(self, role: str, value: ir.Value, wanted: str) -> FormatError:
        name = self.names[role]
        return FormatError(f"column {name!r} ({role}) holds {value.type()}, not {wanted}.", path=self.files[0])
