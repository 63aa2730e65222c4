"""Small stand-ins of warehouses: `python -m warehouse` runs the queries of docs/how-to/warehouses.md, and checks them.

Both visitors see red shoes a, b and c or a alone, and one clicks b; events that must not count lie beside them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow
import sqlglot

import cldrank as cr

COLUMNS = ("query_id", "doc_id", "position", "clicked")
SEEN = [("1", "a", 1, False), ("1", "b", 2, True), ("1", "c", 3, False), ("2", "a", 1, False)]
LOG = [(visitor, "red shoes", *seen) for visitor, *seen in SEEN]
SHOWN = [  # page, query, product, position, seconds after ten
    ("1", " Red Shoes", "a", 1, 0), ("1", " Red Shoes", "b", 2, 0), ("1", " Red Shoes", "b", 2, 9),
    ("1", " Red Shoes", "c", 3, 9), ("2", "red shoes", "a", 1, 13), ("0", "red shoes", "too early", 1, -900_000),
]  # fmt: skip
TIME = "TIMESTAMP '2026-05-04 10:00:00' + to_seconds(?)"
CLICKED = [("1", "b", 10), ("1", "b", 11), ("1", "never shown", 12), ("2", "a", 13 + 1801)]  # the last is too late


TABLES = """
    ATTACH ':memory:' AS shop;
    CREATE SCHEMA shop.analytics_1;
    CREATE TABLE shop.analytics_1."events_*" AS FROM ga4;
    CREATE TABLE impressions(page_id TEXT, query TEXT, product_id TEXT, position DECIMAL(38, 0), occurred_at TIMESTAMP);
    CREATE TABLE clicks(page_id TEXT, product_id TEXT, occurred_at TIMESTAMP);
    CREATE VIEW events AS
        SELECT 'impression' AS event, * RENAME (occurred_at AS time) FROM impressions UNION ALL BY NAME
        SELECT 'click' AS event, 'red shoes' AS query, * RENAME (occurred_at AS time) FROM clicks WHERE page_id = '1';
"""


def ga4(name: str, user: int, items: str, term: str | None = " Red Shoes", day: str = "20260504") -> dict[str, Any]:
    """An event as GA4 exports it; of each item its place, from 0, and its id."""
    parameters = [
        {"key": "ga_session_id", "value": {"int_value": user, "string_value": None}},
        {"key": "search_term", "value": {"int_value": None, "string_value": term}},
    ]
    listed = [{"item_list_index": one[0], "item_id": one[1:]} for one in items.split()]
    named = {"event_name": name, "event_timestamp": 1_777_888_800_000_000, "_TABLE_SUFFIX": day}
    return {**named, "user_pseudo_id": "u", "event_params": parameters, "items": listed}


GA4 = pyarrow.Table.from_pylist([
    ga4("view_item_list", 1, "0a 1b"), ga4("view_item_list", 1, "0a 1b 2c"), ga4("select_item", 1, "1b"),
    ga4("view_item_list", 1, "0x", term=None), ga4("select_item", 1, "4z"), ga4("view_item_list", 2, "0a"),
    ga4("view_item_list", 2, "0late", day="20260601"),
])  # fmt: skip


def main() -> None:
    """Check the queries, and leave their logs."""
    warehouse = duckdb.connect()
    warehouse.register("ga4", GA4)
    warehouse.execute(TABLES)
    warehouse.executemany(f"INSERT INTO impressions VALUES (?, ?, ?, ?, {TIME})", SHOWN)
    warehouse.executemany(f"INSERT INTO clicks VALUES (?, ?, {TIME})", CLICKED)
    for name, dialect in {"ga4": "bigquery", "snowflake": "snowflake", "clickhouse": "clickhouse"}.items():
        (query,) = sqlglot.transpile(Path(f"{name}.sql").read_text(), read=dialect, write="duckdb")
        rows = warehouse.sql(query).to_arrow_table().to_pylist()
        found = [
            (row["session_id"][-1], row["query_id"], row["doc_id"], row["position"], row["clicked"]) for row in rows
        ]
        assert sorted(found) == LOG, (name, found)
        warehouse.sql(query).write_parquet(f"{name}.parquet")
        clicks = cr.ClickTable.read(f"{name}.parquet")
        assert (clicks.impressions.sum(), clicks.clicks.sum()) == (4, 1), name


if __name__ == "__main__":
    main()
