"""A run as one HTML page that needs no other file: the steps as a drawing, then what each read, decided and wrote."""

from __future__ import annotations

from cldrank.pipeline.records import RunRecord


def render_run(record: RunRecord) -> str:
    """The whole page."""
    return record.name
