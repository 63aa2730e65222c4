"""Errors of libraries that read a file, turned into errors that name the file and the reason."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cldrank.errors import CldrankError, FormatError, UsageError

_LONGEST_REASON = 300  # some libraries quote the file


@contextmanager
def reading(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Turn every error in the block, other than our own, into an error that names the file.

    Wrap only calls that look at the content of a file: a bug of ours would be reported as a fault of the file.

    >>> with reading("rho.json", "a list"):
    ...     json.loads("[1, 2")
    Traceback (most recent call last):
    cldrank.errors.FormatError: rho.json: not a list (Expecting ',' delimiter: line 1 column 6 (char 5)).
    """
    try:
        yield
    except (CldrankError, AssertionError):
        raise
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file.") from None
    except IsADirectoryError:
        raise UsageError(f"{path} is a folder, not {what}.") from None
    except MemoryError as error:
        raise FormatError(f"there is not enough memory to read it; is it really {what}?", path=path) from error
    except RecursionError as error:
        raise FormatError(f"not {what} (nested too deeply).", path=path) from error
    except PermissionError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}.", path=path) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise FormatError(f"not {what}: line {line} is not text in UTF-8 (byte {error.start}).", path=path) from error
    except Exception as error:  # each library has its own
        if "invalid UTF8" in str(error) and str(path).endswith((".csv", ".tsv")):  # Arrow does not say where
            with reading(path, what):
                Path(path).read_bytes().decode()
        raise FormatError(f"not {what} ({reason(error)}).", path=path) from error


def read_json(path: str | os.PathLike[str], what: str) -> Any:
    """The content of a JSON file."""
    with reading(path, what):
        return json.loads(Path(path).read_text(encoding="utf-8"))


def reason(error: BaseException) -> str:
    """The first line of an error's message, without a full stop; unprintable letters become �."""
    line, *_ = (str(error).strip() or type(error).__name__).splitlines()
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line.rstrip("."))
    return shown if len(shown) <= _LONGEST_REASON else shown[: _LONGEST_REASON - 1] + "…"
