"""The inner loop of the LETOR reader: bytes in, a dense block of rows out.

Compiled by Numba, and runs without the GIL. It does not touch files: `letor` feeds it blocks of whole lines and turns
its problem codes into messages. The text of a block must end with a newline, so that the loops need not check at every
byte whether the block has ended.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from cldrank._typing import IntArray

# What stopped the parser. OK is zero; everything else comes with the byte it happened at.
OK = 0
BAD_LABEL = 1
BAD_QUERY = 2
BAD_FEATURE = 3
BAD_VALUE = 4
DUPLICATE = 5
OUT_OF_LAYOUT = 6
NO_QUERY = 7
BAD_LABEL_RANGE = 8

_TAB, _NEWLINE, _RETURN, _SPACE, _HASH, _PLUS, _MINUS, _POINT, _ZERO, _COLON = 9, 10, 13, 32, 35, 43, 45, 46, 48, 58
_NINE = 57
_MAX_FLOAT32 = float(np.finfo(np.float32).max) * (1 + 2.0**-26)  # the largest float32 may be read a unit too high
_MAX_DIGITS = 18  # decimal digits that always fit an int64
_FULL = 10**17  # a mantissa with as many
_POWERS = 10.0 ** np.arange(309)


class RowBuffer(NamedTuple):
    """Where the parser writes the rows of a block of text; an entry per row, or per run of rows of the same query."""

    features: NDArray[np.float32]  # (rows, width), zeros beforehand
    labels: NDArray[np.float32]
    run_rows: IntArray  # first row of each run of equal query ids
    run_starts: IntArray  # byte span of its query id
    run_ends: IntArray
    comment_starts: IntArray  # byte span of each row's comment; equal where there is none
    comment_ends: IntArray
    last_row: IntArray  # per feature: the last row that set it, to catch duplicates

    @classmethod
    def for_rows(cls, features: NDArray[np.float32], labels: NDArray[np.float32]) -> RowBuffer:
        """A buffer that writes features and labels to these arrays."""
        spans = [np.zeros(len(labels), dtype=np.int64) for _ in range(5)]
        last_row = np.full(features.shape[1], -1, dtype=np.int64)
        return cls(features, labels, spans[0], spans[1], spans[2], spans[3], spans[4], last_row)


@njit(nogil=True, cache=True, inline="always")
def _is_blank(byte):
    return byte in (_SPACE, _TAB, _RETURN)


@njit(nogil=True, cache=True, inline="always")
def _ends_token(byte):
    return byte <= _SPACE or byte == _HASH


@njit(nogil=True, cache=True, inline="always")
def _number(text, at):
    """The decimal number at a byte: (value, byte after it), or (0, -1) where there is none.

    Exact where mantissa and power of ten fit a float64, to a few units in the 16th digit elsewhere.
    """
    negative = text[at] == _MINUS
    if negative or text[at] == _PLUS:
        at += 1
    mantissa, exponent, start = np.int64(0), np.int64(0), at
    while _ZERO <= text[at] <= _NINE:
        if mantissa < _FULL:
            mantissa = mantissa * 10 + np.int64(text[at] - np.uint8(_ZERO))
        else:
            exponent += 1
        at += 1
    digits = at - start
    if text[at] == _POINT:
        at += 1
        start = at
        while _ZERO <= text[at] <= _NINE:
            if mantissa < _FULL:
                mantissa = mantissa * 10 + np.int64(text[at] - np.uint8(_ZERO))
                exponent -= 1
            at += 1
        digits += at - start
    if digits == 0:
        return 0.0, np.int64(-1)
    if text[at] | 32 == 101:  # e, E
        power, at = _power(text, at + 1)
        exponent += power
    value = np.float64(mantissa)
    if exponent != 0:
        value = value / _POWERS[-exponent] if -308 <= exponent < 0 else _scaled(value, exponent)
    return (-value if negative else value), at


@njit(nogil=True, cache=True)
def _power(text, at):
    """The whole number at a byte, at most 100,000, and the byte after it; -1 where there is none."""
    falling = text[at] == _MINUS
    if falling or text[at] == _PLUS:
        at += 1
    first, power = at, np.int64(0)
    while _ZERO <= text[at] <= _NINE:
        power = min(power * 10 + np.int64(text[at] - np.uint8(_ZERO)), np.int64(100_000))
        at += 1
    return (-power if falling else power), (at if at > first else np.int64(-1))


@njit(nogil=True, cache=True)
def _scaled(value, exponent):
    """The value times a large or a tiny power of ten."""
    if value == 0 or exponent < -330:
        return 0.0
    if exponent < -308:
        return value / _POWERS[308] / _POWERS[-exponent - 308]
    return np.inf if exponent > 308 else value * _POWERS[exponent]


@njit(nogil=True, cache=True)
def _is_word(text, at, word):
    """Whether the token at a byte is this lower-case word, in any case."""
    for index in range(len(word)):
        if text[at + index] | 32 != word[index]:
            return False
    return _ends_token(text[at + len(word)])


_NULL = np.frombuffer(b"null", dtype=np.uint8)
_NAN = np.frombuffer(b"nan", dtype=np.uint8)
_NA = np.frombuffer(b"na", dtype=np.uint8)
_INF = np.frombuffer(b"inf", dtype=np.uint8)
_INFINITY = np.frombuffer(b"infinity", dtype=np.uint8)


@njit(nogil=True, cache=True)
def _odd_value(text, at):
    """A value that is missing or infinite: (value, byte after it), or (0, -1) where it is neither."""
    end = at
    while not _ends_token(text[end]):
        end += 1
    if end == at or _is_word(text, at, _NULL) or _is_word(text, at, _NAN) or _is_word(text, at, _NA):
        return np.nan, end
    if text[at] == _MINUS or text[at] == _PLUS:
        at += 1
    return (np.inf, end) if _is_word(text, at, _INF) or _is_word(text, at, _INFINITY) else (0.0, np.int64(-1))


@njit(nogil=True, cache=True)
def parse_rows(text, first_id, block):  # noqa: C901 - a loop over bytes; calls would cost its speed
    """Parse whole lines into a block: (problem, byte, feature id, rows, runs).

    `first_id` is the id of column 0. Missing values become NaN, those too large for a float32 become infinite.
    """
    width = block.features.shape[1]
    features = block.features
    size = text.size
    at = np.int64(0)
    row = np.int64(0)
    runs = np.int64(0)
    query_start = np.int64(0)
    query_end = np.int64(0)
    while at < size:
        while _is_blank(text[at]):
            at += 1
        if text[at] == _NEWLINE:
            at += 1
            continue
        if text[at] == _HASH:
            while text[at] != _NEWLINE:
                at += 1
            at += 1
            continue

        label, end = _number(text, at)
        if end < 0 or not _ends_token(text[end]):
            return BAD_LABEL, at, np.int64(0), row, runs
        if abs(label) > _MAX_FLOAT32:
            return BAD_LABEL_RANGE, at, np.int64(0), row, runs
        block.labels[row] = label
        at = end
        while _is_blank(text[at]):
            at += 1

        if not (text[at] == 113 and text[at + 1] == 105 and text[at + 2] == 100 and text[at + 3] == _COLON):  # qid:
            return NO_QUERY, at, np.int64(0), row, runs
        at += 4
        end = at
        while not _ends_token(text[end]):
            end += 1
        if end == at:
            return BAD_QUERY, at, np.int64(0), row, runs
        same = row > 0 and end - at == query_end - query_start
        if same:
            for index in range(end - at):
                if text[at + index] != text[query_start + index]:
                    same = False
                    break
        if not same:
            block.run_rows[runs] = row
            block.run_starts[runs] = at
            block.run_ends[runs] = end
            runs += 1
        query_start = at
        query_end = end
        at = end

        comment = np.int64(-1)
        while True:
            while text[at] == _SPACE:
                at += 1
            byte = text[at]
            digit = byte - np.uint8(_ZERO)
            if digit > 9 or byte < _ZERO:
                if byte == _NEWLINE:
                    break
                if _is_blank(byte):
                    at += 1
                    continue
                if byte == _HASH:
                    comment = at + 1
                    while text[at] != _NEWLINE:
                        at += 1
                    break
                return BAD_FEATURE, at, np.int64(0), row, runs

            start = at
            feature = np.int64(digit)
            at += 1
            while True:
                byte = text[at]
                digit = byte - np.uint8(_ZERO)
                if digit > 9 or byte < _ZERO:
                    break
                feature = feature * 10 + np.int64(digit)
                at += 1
            if byte != _COLON or at - start > _MAX_DIGITS:
                return BAD_FEATURE, start, np.int64(0), row, runs
            column = feature - first_id
            if column < 0 or column >= width:
                return OUT_OF_LAYOUT, start, feature, row, runs
            if block.last_row[column] == row:
                return DUPLICATE, start, feature, row, runs
            block.last_row[column] = row
            at += 1

            value, end = _number(text, at)
            if end < 0 or not _ends_token(text[end]):
                value, end = _odd_value(text, at)
                if end < 0:
                    return BAD_VALUE, at, feature, row, runs
            features[row, column] = value
            at = end

        block.comment_starts[row] = at if comment < 0 else comment
        block.comment_ends[row] = at
        row += 1
        at += 1
    return OK, at, np.int64(0), row, runs


@njit(nogil=True, cache=True)
def largest_id(text):
    """The largest feature id in a block of whole lines, comments left out; -1 if it has none."""
    largest = np.int64(-1)
    at = np.int64(0)
    size = text.size
    while at < size:
        byte = text[at]
        if byte == _HASH:
            while text[at] != _NEWLINE:
                at += 1
        elif byte == _COLON:
            value = np.int64(0)
            power = np.int64(1)
            back = at - 1
            while back >= 0 and _ZERO <= text[back] <= _NINE and at - back <= _MAX_DIGITS:
                value += power * np.int64(text[back] - np.uint8(_ZERO))
                power *= 10
                back -= 1
            if back < at - 1 and (back < 0 or _ends_token(text[back])):
                largest = max(largest, value)
        at += 1
    return largest
