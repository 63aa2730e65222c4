"""What the values of a table of results must be: other code relies on it and need not ask again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cldrank.errors import CldrankError
from cldrank.experiment.decoding import check_plain, leaves, shown
from cldrank.measures import parse
from cldrank.reading import reason

_LARGEST = 1e100  # of a value: its square is still a number


def problems(table: pa.Table) -> Iterator[str]:
    """What is wrong with the values of a table of the right columns and types."""
    for name in table.column_names:
        if name != "value" and table[name].null_count:  # a missing value is a unit that failed
            yield f"{name} is missing in row {pc.index(pc.is_null(table[name]), True).as_py()}"
            return
    over = pc.and_(pc.is_finite(table["value"]), pc.greater(pc.abs(table["value"]), _LARGEST))
    ok = pc.equal(table["status"], "ok")
    rules = {
        "status": pc.and_(pc.invert(ok), pc.not_equal(table["status"], "failed")),
        "seed": pc.less(table["seed"], 0),
        "value": pc.fill_null(over, False),
        "seconds": pc.or_(_impossible(table["seconds"]), pc.and_(ok, pc.is_nan(table["seconds"]))),
        "peak_mib": _impossible(table["peak_mib"]),
    }
    for name, wrong in rules.items():
        row = pc.index(wrong, True).as_py()
        if row >= 0:
            yield f"{name} is {shown(table[name][row].as_py())} in row {row}"
    for name, check in _TEXTS.items():
        for text in pc.unique(table[name]).to_pylist():
            try:
                check(text)
            except (CldrankError, ValueError, RecursionError) as error:
                yield f"{name} {shown(text)} is not what it should be ({reason(error)})"
                return


def _impossible(amounts: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.or_(pc.less(amounts, 0), pc.greater(amounts, 1e15))


def _check_setting(text: str) -> None:
    check_plain(_parsed(text, dict))


def _check_configuration(text: str) -> None:
    found = _parsed(text, dict)
    for _ in leaves(found):  # not too deep
        pass
    sections = {name: found.get(name, {}) for name in ("data", "production", "simulation", "propensities", "method")}
    sections |= {name: found.get(name, {}) for name in ("tuning", "tuned")}
    if isinstance(sections["method"], dict):
        sections |= {f"method.{name}": sections["method"].get(name, {}) for name in ("parameters", "defaults")}
    for name, section in sections.items():
        if not isinstance(section, dict):
            raise ValueError(f"{name} is {shown(section)}")


def _check_warnings(text: str) -> None:
    if not all(isinstance(entry, str) for entry in _parsed(text, list)):
        raise ValueError("not a list of texts")


def _parsed(text: str, kind: type) -> Any:
    found = json.loads(text)
    json.dumps(found, ensure_ascii=False).encode()  # half a character cannot be written again
    if not isinstance(found, kind):
        raise ValueError("not a table" if kind is dict else "not a list")  # as json itself raises
    return found


_TEXTS: dict[str, Callable[[str], object]] = {
    "setting": _check_setting,
    "configuration": _check_configuration,
    "warnings": _check_warnings,
    "versions": lambda text: _parsed(text, dict),
    "measure": parse,
}
