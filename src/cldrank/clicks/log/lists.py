"""One row per page, with lists of results, turned into one row per displayed result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cldrank.clicks.log.nested import Located
from cldrank.clicks.log.places import from_1
from cldrank.clicks.log.values import ODD_POSITION, ValueReader
from cldrank.errors import FormatError

if TYPE_CHECKING:
    import ibis.expr.types as ir

OF_CLICKS = ("clicked_positions", "clicked_documents")  # lists of what was clicked, not of results
_OF_RESULTS = ("clicked", "position", "row", "column", "dwell")  # a page has a list of them
NEVER_SHOWN, UNEQUAL = "click never shown", "unequal lists"


@dataclass(frozen=True)
class Spread:
    """The results of pages, one per row.

    rows       the table of them, with session_id and query_id
    raw        the value of each role, as it was logged
    place      the place of a result in its list, from 0
    unequal    whether the lists of its page differ in length; None if there is only one
    phantoms   clicks on what the page does not show, with the reason to set them aside; None if there cannot be any
    """

    rows: ir.Table
    raw: Mapping[str, ir.Value]
    place: ir.IntegerValue
    unequal: ir.BooleanValue | None
    phantoms: ir.Table | None


@dataclass(frozen=True)
class PageReader:
    """Pages with lists of results.

    table     one row per page
    places    where each role is found
    keys      session_id and query_id
    top       the number of the first position
    """

    table: ir.Table
    places: Mapping[str, Located]
    keys: Mapping[str, ir.Value]
    values: ValueReader
    top: int

    @property
    def documents(self) -> str:
        """The role of the documents."""
        return "documents" if "documents" in self.places else "doc_id"

    def spread(self) -> Spread:
        """One row per displayed result. Lists are matched by place; a list that is missing has no values."""
        import ibis

        lists, single, pages = self._pages()
        results = lists[self.places[self.documents].name]
        others = [pages[column] for column in lists.values() if column != results]
        unequal = None
        if others:
            size = pages[results].length().fill_null(0)
            differ = [(other.length() != size).fill_null(False) for other in others]
            pages = pages.mutate(unequal=ibis.or_(*differ))
        rows = pages.unnest(results, offset="place")
        place = rows.place.cast("int64")
        raw = {role: rows[role] for role in single}
        for role, found in self.places.items():
            if role in single:
                continue
            column = rows[lists[found.name]]
            if lists[found.name] != results:  # some engines stop at a place beyond the end
                column = rows.unequal.ifelse(ibis.null(column.type()), column)[place]
            raw[role] = found.of(column)
        phantoms = []
        if others:
            unequal = rows.unequal
            lost = pages.filter(pages.unequal & (pages[results].length().fill_null(0) == 0))
            phantoms.append(_phantoms(lost, UNEQUAL))
        if "clicked_positions" in raw:
            phantoms.append(self._beyond(pages, results))
        if "clicked_documents" in raw:
            phantoms.append(self._not_there(pages, results))
        clicks_off_the_page = phantoms[0].union(*phantoms[1:]) if len(phantoms) > 1 else next(iter(phantoms), None)
        return Spread(rows, raw, place, unequal, clicks_off_the_page)

    def _pages(self) -> tuple[dict[str, str], list[str], ir.Table]:
        """The column of each list of results, the roles that a page has once, and a table of both."""
        single = [role for role, found in self.places.items() if not found.is_list or role in OF_CLICKS]
        for role in (role for role in (self.documents, *OF_CLICKS, *_OF_RESULTS) if role in self.places):
            if not self.places[role].is_list or (role in OF_CLICKS and self.places[role].inner):
                raise self.values.refusal(role, self.places[role].value, "lists")
        found = {place.name: place.value for role, place in self.places.items() if role not in single}
        lists = {name: f"list_{number}" for number, name in enumerate(found)}
        columns = {role: self.places[role].value for role in single if role not in self.keys}
        if "clicked_positions" in columns:
            columns["clicked_positions"] = self._clicked_positions(columns["clicked_positions"])
        columns |= {column: found[name] for name, column in lists.items()}
        return lists, single, self.table.select(**self.keys, **columns)

    # -- what was clicked ----------------------------------------------------------------------------------------------

    def clicked(self, spread: Spread) -> ir.IntegerValue:
        """How often each result is among those that its page says were clicked."""
        if "clicked_positions" in spread.raw:
            clicked = spread.raw["clicked_positions"]
            sought = (spread.place + self.top).cast(clicked.type().value_type)
        else:
            clicked, sought = self._alike(spread.raw["clicked_documents"], spread.raw[self.documents])
        return clicked.filter(lambda one: one == sought).length().fill_null(0).cast("int64")

    def _clicked_positions(self, clicked: ir.ArrayValue) -> ir.ArrayValue:
        """The clicked positions of pages, in a type that any position can be compared with."""
        kind = clicked.type().value_type
        self.values.check_numbers(kind, "clicked_positions", clicked)
        if kind.is_string() or kind.is_uint64():
            return clicked
        return clicked.cast("array<int64>" if kind.is_integer() else "array<float64>")

    def _beyond(self, pages: ir.Table, results: str) -> ir.Table:
        """Clicks on positions that their page does not have."""
        clicks = pages.mutate(length=pages[results].length().fill_null(0)).unnest("clicked_positions")
        whole, odd = self.values.whole(clicks.clicked_positions, "clicked_positions")
        if clicks.clicked_positions.type().is_string() and odd is not None:
            odd |= (whole.cast("string") != clicks.clicked_positions).fill_null(False)
        position = from_1(whole, self.top)
        clicks = clicks.mutate(position=position if odd is None else odd.ifelse(ODD_POSITION, position))
        within = clicks.position.between(1, clicks.length).fill_null(False)
        return _phantoms(clicks.filter(~within), NEVER_SHOWN)

    def _not_there(self, pages: ir.Table, results: str) -> ir.Table:
        """Clicks on documents that their own page does not have."""
        clicks = pages.unnest("clicked_documents")
        clicks = clicks.mutate(doc_id=clicks.clicked_documents.cast("string"))
        place, shown = self.places[self.documents], clicks[results]
        if place.inner:
            shown = shown.map(place.of)
        there = shown.cast("array<string>").contains(clicks.doc_id).fill_null(False)
        return _phantoms(clicks.filter(~there), NEVER_SHOWN)

    def _alike(self, clicked: ir.ArrayValue, document: ir.Value) -> tuple[ir.ArrayValue, ir.Value]:
        """Clicked and displayed documents in one type."""
        kinds = [clicked.type().value_type.copy(nullable=True), document.type().copy(nullable=True)]
        if all(kind.is_integer() for kind in kinds):
            return clicked.cast("array<int64>"), document.cast("int64")
        if all(kind.is_integer() or kind.is_string() for kind in kinds):
            return clicked.cast("array<string>"), document.cast("string")
        if kinds[0] != kinds[1]:
            raise FormatError(
                f"clicked_documents are {kinds[0]}, documents are {kinds[1]}; write ids with one type.",
                path=self.values.files[0],
            )
        return clicked, document


def _phantoms(table: ir.Table, reason: str) -> ir.Table:
    """Clicks to set aside, with as much as is known of them."""
    import ibis

    known = {"doc_id": "string", "position": "int64"}
    values = {n: table[n].cast(kind) if n in table.columns else ibis.null(kind) for n, kind in known.items()}
    return table.select("session_id", "query_id", **values, reason=ibis.literal(reason))
