"""The schema of an impression log: from whatever columns a log has to the ones that everything else knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cldrank.clicks.log.dwell import satisfied
from cldrank.clicks.log.engines import Engine
from cldrank.clicks.log.layout import LayoutFound, LogLayout
from cldrank.clicks.log.lists import OF_CLICKS, PageReader
from cldrank.clicks.log.nested import Located, locate
from cldrank.clicks.log.paths import Paths, existing
from cldrank.clicks.log.places import PlaceReader
from cldrank.clicks.log.roles import KEYS, NO_SEGMENT, OPTIONAL, SEGMENT, missing, roles_of
from cldrank.clicks.log.times import Clock
from cldrank.clicks.log.values import DEEPEST, ODD_POSITION, UNEQUAL_LISTS, ValueReader, any_of
from cldrank.errors import Spelling, UsageError

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from numpy.typing import NDArray

ONE_QUERY = "all"


@dataclass(frozen=True)
class Log:
    """An impression log, open in an engine.

    rows        one row per displayed result: session_id, query_id, doc_id, position (from 1), clicks (0 for none), and
                those of timestamp (an instant, in UTC), user_id, ranker_id, surface, propensity that the log has;
                segment, if asked for
    phantoms    clicks on what their page does not show, with the reason to set them aside, in logs with one row per
                page; else None
    optional    which optional columns there are
    once        whether clicks are always 0 or 1
    by_clicks   whether only clicks have positions in the log, as in lists of clicked positions
    found       what was found out about the layout, in words
    clock       how timestamps are read; None where there are none
    layout      the same as data, and what the caller said of it: first_position, and where the log has them page_size,
                paging, first_page, grid_columns, time_unit (once times were looked at)
    """

    rows: ir.Table
    phantoms: ir.Table | None
    optional: tuple[str, ...]
    once: bool = False
    by_clicks: bool = False
    found: tuple[str, ...] = ()
    clock: Clock | None = None
    layout: Mapping[str, int | str] = field(default_factory=dict)

    def with_times(self) -> Log:
        """The log with what its timestamps turned out to be."""
        if self.clock is None:
            return self
        times = self.clock.found()
        return replace(self, found=(*self.found, *times.sentences), layout={**self.layout, "time_unit": times.unit})


def open_log(paths: Paths, engine: Engine, layout: LogLayout | None = None, **options: Any) -> Log:
    """Open the files of a log.

    A log has one row per displayed result, with columns session_id, query_id, doc_id, position and clicked (true and
    false, or a number of clicks; null means none), or one row per page, with lists: session_id, query_id, documents (or
    doc_id, top first) and clicked_positions, clicked_documents or clicked (one entry per document). A session_id stands
    for one page of results: one search of one person.

    layout    how to read it; `options` are those of `LogLayout`, by their names
    """
    layout = LogLayout.of(layout, options)
    files = existing(paths)
    names: dict[str, str] = {}
    there: list[str] = []

    def choose(columns: Sequence[str]) -> list[str]:
        there.extend(columns)
        names.update(roles_of(columns, files[0], layout))
        return list(names.values())

    table = engine.open(files, choose)
    places = {role: _located(table, name) for role, name in names.items()}
    reader = _LogReader(table, places, layout, ValueReader(names, files), engine.connection.name)
    if reader.has_lists:
        if "position" in places and not places["position"].is_list and "position" not in layout.columns:
            del places["position"]  # of the page, say: results have their places in the list
        return reader.pages()
    for role in ("position", "clicked"):
        if role not in names and not (role == "position" and "row" in names):
            raise missing(role, there, files[0])
    return reader.flat()


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


def _located(table: ir.Table, name: str) -> Located:
    found = locate(table, name)
    if found is None:
        raise AssertionError(f"{name!r} was chosen, but is not among {table.columns}")
    return found


@dataclass(frozen=True)
class _LogReader:
    """The columns of a log, and how to read them."""

    table: ir.Table
    places: dict[str, Located]
    layout: LogLayout
    values: ValueReader
    engine: str

    @property
    def has_lists(self) -> bool:
        """Whether a row is a page with a list of results."""
        return "documents" in self.places or self.places["doc_id"].is_list

    def flat(self) -> Log:
        """The log of a table with one row per displayed result."""
        raw = {role: place.value for role, place in self.places.items()}
        return self._log(self.table, {**raw, **self._keys()})

    def pages(self) -> Log:
        """The log of a table with one row per page."""
        reader = PageReader(self.table, self.places, self._keys(), self.values, self.layout.top)
        spread = reader.spread()
        rows, raw = spread.rows, dict(spread.raw)
        raw |= {role: rows[role] for role in KEYS[:2]}
        if any(role in raw for role in OF_CLICKS):
            raw["clicked"] = reader.clicked(spread)
        raw["doc_id"] = self.values.ids(rows, raw[reader.documents], reader.documents)
        return self._log(rows, raw, spread.place, spread.unequal, spread.phantoms)

    def _keys(self) -> dict[str, ir.Value]:
        """The ids of a row, or of a page."""
        import ibis

        named = ("session_id", "query_id") if self.has_lists else KEYS
        keys = {
            role: self.values.ids(self.table, self.places[role].value, role) for role in named if role in self.places
        }
        if self.layout.one_query:
            keys["query_id"] = ibis.literal(ONE_QUERY if self.layout.one_query is True else self.layout.one_query)
        return keys

    def _log(
        self,
        rows: ir.Table,
        raw: dict[str, ir.Value],
        place: ir.IntegerValue | None = None,
        unequal: ir.BooleanValue | None = None,
        phantoms: ir.Table | None = None,
    ) -> Log:
        """The log of a table of displayed results, whose roles have these values."""
        position, found = PlaceReader(rows, raw, self.layout, self.values).read(place)
        clicks, odd, once = self._clicks(rows, raw, found)
        if odd is not None:
            position = odd.ifelse(ODD_POSITION, position)
        if unequal is not None:
            position = unequal.ifelse(UNEQUAL_LISTS, position)
        optional = {role: raw[role] for role in OPTIONAL if role in raw}
        clock = None
        if "timestamp" in optional:
            logged = rows.select(timestamp=optional["timestamp"])
            clock = Clock(logged, self.layout.time_zone, self.engine, self.values)
            optional["timestamp"] = clock.instant(optional["timestamp"])
        if SEGMENT in raw:
            named = raw[SEGMENT].cast("string")
            optional[SEGMENT] = (named.strip() == "").fill_null(True).ifelse(NO_SEGMENT, named)
        if "propensity" in optional:
            optional["propensity"] = self.values.number(optional["propensity"], "propensity")
        keys = {role: raw[role] for role in KEYS}
        log = rows.select(**keys, position=position, clicks=clicks, **optional)
        by_clicks = "clicked_positions" in raw
        return Log(log, phantoms, tuple(optional), once, by_clicks, tuple(found.sentences), clock, found.values)

    def _clicks(
        self, rows: ir.Table, raw: dict[str, ir.Value], found: LayoutFound
    ) -> tuple[ir.IntegerValue, ir.BooleanValue | None, bool]:
        """How often each result was clicked, where that is not a number, and whether it is 0 or 1 throughout."""
        import ibis

        counted, odd = self.values.whole(raw["clicked"], "clicked")
        clicks = ibis.coalesce(counted, 0)
        once = raw["clicked"].type().is_boolean()
        if not once and not any(role in raw for role in OF_CLICKS):
            self.values.check_clicks(rows, clicks)
            senseless = ~clicks.between(0, DEEPEST)
            odd = any_of(senseless, odd)
            clicks = senseless.ifelse(0, clicks)
        if self.layout.satisfied is not None:
            clicks, odd_dwell, said = satisfied(rows, clicks, raw["dwell"], self.layout, self.values)
            odd = any_of(odd, odd_dwell)
            found.sentences.append(said)
        return clicks, odd, once
