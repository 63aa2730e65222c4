"""The summary as a file of comma-separated values."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import fields
from typing import Any

import pyarrow as pa

from cldrank.experiment.results import Summary, summary

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # what a formula begins with, to one spreadsheet or another


def as_csv(table: pa.Table) -> str:
    """A line for each method, setting and measure; what is not known stays empty, numbers keep all their digits.

    A text that a spreadsheet would read as a formula gets an apostrophe before it, which spreadsheets hide.
    """
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    names = [field.name for field in fields(Summary)]
    lines.writerow(names)
    quoted = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)  # the other leaves a lone "\r" bare
    for row in summary(table):
        cells = [_written(row.as_dict()[name]) for name in names]
        (quoted if any("\r" in cell for cell in cells) else lines).writerow(cells)
    return text.getvalue()


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    return "" if isinstance(value, float) and math.isnan(value) else str(value)
