"""The report of an import: every record became part of the log, or was set aside with a reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from cldrank.wording import count, listed

REASONS = {
    "no id": "it does not name its page",
    "not a query": "an event among the queries",
    "no text": "the query is missing or blank",
    "excluded user": "of a user who is excluded on request",
    "bot": "of a user who does not look like a person, excluded on request",
    "no results": "no result of this page was shown",
    "repeated": "a copy of another record",
    "second place": "the same document at another position of the same page; the uppermost counts",
    "no document": "it does not name a document",
    "unknown page": "no query with this id came in",
    "page without text": "the query of its page is missing or blank",
    "no position": "it has no position, and its page does not list the document",
    "position out of range": "its position lies before the first, or beyond 10,000",
    "never shown": "a click on something that its page did not show",
    "other action": "neither a click nor an impression",
    "broken line": "it lacks fields, or an id in it is not a whole number",
    "unknown type": "the type of the record is neither Q nor C",
}
RECORDS = {  # how they are counted: one, several
    "query": ("query", "queries"),
    "ranking": ("ranking", "rankings"),
    "impression": ("impression", "impressions"),
    "result": ("result returned", "results returned"),
    "click": ("click", "clicks"),
    "other": ("other record", "other records"),
}


@dataclass(frozen=True)
class SetAside:
    """Records that were set aside for one reason, and one of them as an example."""

    record: str
    reason: str
    count: int
    example: str

    def __str__(self) -> str:
        such = f"; such as {self.example}" if self.example else ""
        return f"{self.count:>12,}  {self.record}, {self.reason}: {REASONS[self.reason]}{such}"


@dataclass(frozen=True)
class ImportReport:
    """What became of the records of an import.

    source        the format: ubi, metarank or yandex
    out           the log that was written
    came_in       how many records of each kind were read
    pages         pages in the log: one query of one person each
    rows          rows of the log: results that were shown
    clicked       rows with a click
    clicks        clicks in the log; several on one result count each
    set_aside     all that did not become part of the log
    joined        shares: of impressions and clicks that found their page, of clicks that found what was clicked
    notes         what to know before the log is used
    """

    source: str
    out: str
    came_in: Mapping[str, int]
    pages: int
    rows: int
    clicked: int
    clicks: int
    set_aside: tuple[SetAside, ...] = ()
    joined: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    def aside(self, record: str, reason: str | None = None) -> int:
        """How many records of a kind were set aside, for one reason or for any."""
        return sum(entry.count for entry in self.set_aside if entry.record == record and reason in (None, entry.reason))

    @property
    def returned_only(self) -> bool:
        """Whether what counts as shown is all that was returned, seen or not."""
        return self.source == "ubi" and "result" in self.came_in

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {**asdict(self), "notes": list(self.notes), "seconds": round(self.seconds, 3)}

    def __str__(self) -> str:
        read = listed(count(number, *RECORDS[record]) for record, number in self.came_in.items())
        aside = sum(entry.count for entry in self.set_aside)
        lines = [f"{read} read, {aside:,} set aside", *map(str, self.set_aside)]
        lines += [f"{share:.1%} of {what}" for what, share in self.joined.items()]
        lines += [f"note: {note}." for note in self.notes]
        lines.append(
            f"{count(self.rows, 'row')} of {count(self.pages, 'page')} written, {self.clicked:,} of them clicked "
            f"({count(self.clicks, 'click')})"
        )
        return "\n".join(lines)
