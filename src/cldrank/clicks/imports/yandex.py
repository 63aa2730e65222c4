"""The log of Yandex's relevance prediction challenge: tab-separated lines of queries with ten URLs, and of clicks.

SessionID TimePassed Q QueryID RegionID URL…
SessionID TimePassed C URL

A click belongs to the last query of its session that showed the URL, by time and, at equal times, by line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from cldrank.clicks.counting import count_row
from cldrank.clicks.imports.fields import constant
from cldrank.clicks.imports.joining import KNOWN, Records
from cldrank.clicks.imports.recognising import first_line
from cldrank.clicks.log.engines import Engine
from cldrank.clicks.log.paths import files_below
from cldrank.errors import DataError, FormatError
from cldrank.wording import some

if TYPE_CHECKING:
    import ibis.expr.types as ir

_ID = "[0-9]{1,18}"
_QUERY = f"^{_ID}\t{_ID}\tQ\t{_ID}\t{_ID}(\t{_ID})+$"
_CLICK = f"^{_ID}\t{_ID}\tC\t{_ID}$"
_OTHER = f"^{_ID}\t{_ID}\t[^QC\t]+(\t|$)"
_LONGEST_EXAMPLE = 60


def yandex_records(paths: Sequence[Path], engine: Engine, held: ExitStack, progress: Callable[[str], None]) -> Records:
    """The queries and clicks of some files."""
    files = [file for file, _ in files_below(paths)]
    for file in files:
        _check_challenge(file)
    progress("reading lines …")
    read = held.enter_context(_read(engine.lines(files)).cache())
    counts = count_row(
        read.aggregate(
            **{kind: read.count(where=read.kind == kind) for kind in ("query", "click", "broken", "unknown")}
        )
    )
    if not counts["query"]:
        raise DataError(
            f"{some(paths, 3)}: there are no lines of queries (SessionID TimePassed Q QueryID RegionID URL…)."
        )
    serps = held.enter_context(_serps(read).cache())
    clicks = held.enter_context(_attributed(read, serps).cache())
    pages = serps.select("page", "query", key="page", **{name: constant(None, "string") for name in KNOWN})
    listed = serps.select("page", "documents").unnest("documents", offset="place")
    found = clicks.filter(clicks.turn.notnull())
    events = found.select(
        "doc_id",
        "mark",
        record=constant("click"),
        key=found.session.cast("string") + "-" + found.turn.cast("string"),
        text=constant(True),
        page=constant(None, "string"),
        position=constant(None, "int64"),
        action=constant(None, "string"),
    )
    return Records(
        pages=pages,
        known=pages.select("key", "page", text=constant(True)),
        returned=listed.select(key="page", doc_id="documents", position=listed.place.cast("int64") + 1),
        events=events,
        shown=False,
        came_in={"query": counts["query"], "click": counts["click"], "other": counts["broken"] + counts["unknown"]},
        rejects=[_odd_lines(read), _too_early(clicks)],
        id="session",
        action="line",
    )


def _read(lines: ir.Table) -> ir.Table:
    """Lines by kind, in fields that are whole numbers where they should be."""
    import ibis

    line = lines.line.re_replace("\r$", "")
    lines = lines.mutate(line=line).filter(line.strip() != "")
    kind = ibis.cases(
        (lines.line.re_search(_QUERY), "query"),
        (lines.line.re_search(_CLICK), "click"),
        (lines.line.re_search(_OTHER), "unknown"),
        else_="broken",
    )
    lines = lines.mutate(kind=kind)
    good = lines.kind.isin(["query", "click"])
    return lines.select(
        "number",
        "kind",
        parts=good.ifelse(lines.line, None).split("\t"),
        line=good.ifelse(None, lines.line.substr(0, _LONGEST_EXAMPLE)),
    )


def _serps(read: ir.Table) -> ir.Table:
    """Pages of results, numbered within their session."""
    import ibis

    found = read.filter(read.kind == "query")
    found = found.select(
        "number",
        session=found.parts[0].cast("int64"),
        time=found.parts[1].cast("int64"),
        query=found.parts[3].cast("int64"),
        documents=found.parts[5:].try_cast("array<int64>"),  # DuckDB before 2.0 casts what lies outside the slice, too
    )
    turn = ibis.row_number().over(group_by="session", order_by=["time", "number"]).cast("int64") + 1
    found = found.mutate(turn=turn)
    return found.mutate(page=found.session.cast("string") + "-" + found.turn.cast("string"))


def _attributed(read: ir.Table, serps: ir.Table) -> ir.Table:
    """Clicks, each with the number of its page in the session; null if no page before it showed the URL."""
    clicks = read.filter(read.kind == "click")
    clicks = clicks.select(
        "number",
        session=clicks.parts[0].cast("int64"),
        doc_id=clicks.parts[3].cast("int64"),
        time=clicks.parts[1].cast("int64"),
        mark=clicks.parts[1],
    )
    shown = serps.select("session", "turn", "documents", at="time", line="number").unnest("documents")
    shown = shown.select("session", "turn", "at", "line", doc_id="documents")
    both = clicks.inner_join(shown, ["session", "doc_id"])
    before = both.filter((both["at"] < both.time) | ((both["at"] == both.time) & (both.line < both.number)))
    last = before.group_by("number").aggregate(turn=before.turn.max())
    return clicks.left_join(last, "number").select(*clicks.columns, "turn")


def _odd_lines(read: ir.Table) -> ir.Table:
    odd = read.filter(read.line.notnull())
    return odd.select(
        record=constant("other"),
        reason=(odd.kind == "unknown").ifelse("unknown type", "broken line"),
        action=odd.line,
        rows=constant(1),
    )


def _too_early(clicks: ir.Table) -> ir.Table:
    lost = clicks.filter(clicks.turn.isnull())
    return lost.select(
        "doc_id", record=constant("click"), reason=constant("never shown"), session_id=lost.session, rows=constant(1)
    )


def _check_challenge(path: Path) -> None:
    """Refuse the log of Yandex's other challenge, which has SERP ids, terms and domains."""
    parts = first_line(path).split("\t")
    if parts[1:2] == ["M"] or any("," in part for part in parts[3:]):
        raise FormatError(
            "this is the layout of the Personalized Web Search Challenge (records M, terms, URL,domain); imported are "
            "logs of the Relevance Prediction Challenge.",
            path=path,
        )
