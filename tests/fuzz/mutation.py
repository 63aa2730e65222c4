"""One engine of mutations, over bytes, text, JSON, TOML and Arrow tables; all that is random comes from a generator."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pyarrow as pa

Random = np.random.Generator

NUMBERS = [
    "0", "-0", "1", "-1", "2", "1.5", "0.1", "1e-320", "1e308", "-1e308", "1e999", "nan", "NaN", "inf", "-Infinity",
    "9007199254740993", "2147483648", "9223372036854775807", "9223372036854775808", "18446744073709551616",
    "400000000", "1" + "0" * 400, "1_000", "0x10", "٣", "",
]  # fmt: skip
TEXTS = [
    "",
    " ",
    "\x00",
    "null",
    "None",
    "true",
    "../../x",
    "a" * 3000,
    "=cmd|' /C calc'!A0",
    "\ufeff",
    "é́",
    "\ud7ff",
    "'\"\\",
]
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**30, 10**400, 0.0, -0.0,
    0.5, 1.5, 1e-320, 1e308, -1e308, float("nan"), float("inf"), float("-inf"), [], {}, [[]], [1, [2]],
    {"a": {"b": []}}, *TEXTS,
]  # fmt: skip


def _pick(random: Random, choices: Any) -> Any:
    return choices[int(random.integers(len(choices)))]


# -- bytes -------------------------------------------------------------------------------------------------------------


def mutate_bytes(content: bytes, random: Random) -> bytes:
    """A few edits: bits flipped, ranges cut, repeated, overwritten or moved, or the end missing."""
    edited = bytearray(content)
    for _ in range(int(random.integers(1, 5))):
        if not edited:
            break
        at = int(random.integers(len(edited)))
        length = int(random.integers(1, 17)) if random.random() < 0.8 else int(random.integers(1, len(edited) + 1))
        match int(random.integers(6)):
            case 0:
                edited[at] ^= 1 << int(random.integers(8))
            case 1:
                del edited[at : at + length]
            case 2:
                edited[at:at] = edited[at : at + length]
            case 3:
                edited[at : at + length] = random.bytes(length)
            case 4:
                edited[at : at + 8] = _pick(random, [b"\xff" * 8, b"\x00" * 8, b"\x7f" * 8, b"\x80" * 8])
            case _:
                del edited[at:]
    return bytes(edited)


# -- text --------------------------------------------------------------------------------------------------------------


def mutate_text(content: str, random: Random, separators: str = " \t\n:,=") -> str:
    """Edits of whole words: replaced by odd numbers or texts, dropped, doubled, swapped; or of the separators."""
    words: list[str] = [""]
    for letter in content:
        if letter in separators:
            words += [letter, ""]
        else:
            words[-1] += letter
    for _ in range(int(random.integers(1, 4))):
        at = int(random.integers(len(words)))
        match int(random.integers(6)):
            case 0 | 1:
                words[at] = _pick(random, NUMBERS)
            case 2:
                words[at] = _pick(random, TEXTS)
            case 3:
                words[at] = ""
            case 4:
                words.insert(at, words[at])
            case _:
                other = int(random.integers(len(words)))
                words[at], words[other] = words[other], words[at]
    return "".join(words)


# -- JSON --------------------------------------------------------------------------------------------------------------


def mutate_tree(tree: Any, random: Random) -> Any:
    """One place of a tree of lists and tables replaced, dropped, doubled, or nested deeper."""
    tree = json.loads(json.dumps(tree))
    for _ in range(int(random.integers(1, 3))):
        places = list(_places(tree))
        if not places:
            return deepcopy(_pick(random, VALUES))
        holder, key = _pick(random, places)
        match int(random.integers(6)):
            case 0 | 1 | 2:
                holder[key] = deepcopy(_pick(random, VALUES))  # else the next case would find it changed
            case 3:
                del holder[key]
            case 4 if isinstance(holder, list):
                holder.insert(key, deepcopy(holder[key]))
            case 4:
                holder[str(_pick(random, TEXTS))] = deepcopy(holder[key])
            case _:
                deep: Any = holder[key]
                for _ in range(int(_pick(random, [1, 5, 60]))):
                    deep = [deep]
                holder[key] = deep
    return tree


def _places(tree: Any) -> Any:
    found: Any = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(found):
        yield tree, key
        yield from _places(value)


def as_json(tree: Any, random: Random) -> str:
    """A tree as JSON, which may be nested beyond any reason, or hold a number of thousands of digits."""
    text = json.dumps(tree)
    if random.random() < 0.02:
        return "[" * 100_000 + text
    if random.random() < 0.02:
        return text.replace("1", "1" * 5000, 1)
    return text


def as_toml(tree: dict[str, Any]) -> str:
    """A tree as TOML; what TOML has no word for is left out."""
    return "".join(f"{_toml_key(key)} = {_toml(value)}\n" for key, value in tree.items() if value is not None)


def _toml_key(key: str) -> str:
    return json.dumps(key)


def _toml(value: Any) -> str:
    match value:
        case dict():
            inside = [f"{_toml_key(key)} = {_toml(entry)}" for key, entry in value.items() if entry is not None]
            return "{" + ", ".join(inside) + "}"
        case list():
            return "[" + ", ".join(_toml(entry) for entry in value if entry is not None) + "]"
        case float():
            return repr(value)  # nan and inf are TOML's words too
        case _:
            return json.dumps(value)


# -- Arrow -------------------------------------------------------------------------------------------------------------


def mutate_table(table: pa.Table, random: Random) -> pa.Table:
    """One or two columns of another type, with odd values, missing, doubled or renamed; fewer rows; odd metadata."""
    for _ in range(int(random.integers(1, 3))):
        if not table.num_columns:
            break
        at = int(random.integers(table.num_columns))
        name = table.column_names[at]
        match int(random.integers(9)):
            case 0 | 1 | 2 | 3:
                table = table.set_column(at, name, _odd_column(table.column(at), random))
            case 4:
                table = table.remove_column(at)
            case 5:
                table = table.append_column(name, table.column(at))  # the same name twice
            case 6:
                names = list(table.column_names)
                names[at] = str(_pick(random, [*TEXTS, *table.column_names]))
                table = table.rename_columns(names)
            case 7:
                table = table.slice(0, int(_pick(random, [0, 1, max(0, len(table) - 1)])))
            case _:
                metadata = dict(table.schema.metadata or {})
                key = _pick(random, list(metadata) or [b"odd"])
                metadata[key] = _pick(random, [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b"1" * 5000, b'{"a": 1e999}'])
                table = table.replace_schema_metadata(metadata)
    return table


def _odd_column(column: pa.ChunkedArray, random: Random) -> pa.Array:
    size = len(column)
    odd = _pick(random, _ODD_COLUMNS)
    try:
        values = column.to_pylist()
        return odd(values, size, random)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return pa.nulls(size)


def _with_one(value: Any, kind: pa.DataType | None = None) -> Callable[[list[Any], int, Random], pa.Array]:
    """The column with one entry replaced, of a type that can hold it."""

    def made(values: list[Any], size: int, random: Random) -> pa.Array:
        if size:
            values[int(random.integers(size))] = value
        return pa.array(values, kind)

    return made


def _all(kind: pa.DataType) -> Callable[[list[Any], int, Random], pa.Array]:
    return lambda values, *_: pa.array(values).cast(kind, safe=False)


_ODD_COLUMNS: list[Callable[[list[Any], int, Random], pa.Array]] = [
    _with_one(None),
    _with_one(2**63, pa.uint64()),
    _with_one(2**64 - 1, pa.uint64()),
    _with_one(2**63 - 1, pa.int64()),
    _with_one(-(2**63), pa.int64()),
    _with_one(-1),
    _with_one(0),
    _with_one(float("nan"), pa.float64()),
    _with_one(float("inf"), pa.float64()),
    _with_one(1.5, pa.float64()),
    _with_one(1e300, pa.float64()),
    _with_one(2.0**53 + 2, pa.float64()),
    *[
        _all(kind)
        for kind in (
            pa.string(), pa.large_string(), pa.binary(), pa.float32(), pa.float16(), pa.uint8(), pa.int16(),
            pa.uint64(), pa.bool_(), pa.decimal128(20, 2), pa.date32(), pa.timestamp("ns", "Europe/Berlin"),
            pa.timestamp("s"), pa.time64("us"), pa.duration("ms"),
        )
    ],
    lambda values, _, __: pa.array([str(value) for value in values]).dictionary_encode(),
    lambda values, _, __: pa.array([[value] for value in values]),
    lambda values, _, __: pa.array([{"a": value} for value in values]),
    lambda values, _, __: pa.array([[] if place % 2 else [value, value] for place, value in enumerate(values)]),
    lambda _, size, random: pa.array([str(_pick(random, TEXTS)) for _ in range(size)]),
    lambda _, size, random: pa.array([_pick(random, NUMBERS) for _ in range(size)]),
    lambda _, size, __: pa.nulls(size),
]  # fmt: skip
