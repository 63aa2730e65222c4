"""The file that keeps the trials of a search: Optuna's journal, made to survive a crash and a full disk."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from optuna.storages.journal import JournalFileBackend

from cldrank.errors import CldrankError, CldrankWarning, FormatError, warn
from cldrank.files import holding

_BEGINNING = b'{"op_code":'  # of every record


class Journal(JournalFileBackend):
    """A line per event; nothing is ever appended to a line that was cut short.

    Optuna appends to whatever there is: after a crash in the middle of a line it would join two records into one that
    cannot be read. The file itself is locked while it is written: unlike a lock file, the lock ends with the process.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        super().__init__(str(path))
        with holding(path):
            is_cut = self._cut()
            self._check()
        if is_cut:
            warn(
                CldrankWarning(
                    f"{path}: its last line was cut short, by a crash or a full disk, and is dropped; trials before "
                    "it are kept."
                )
            )

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Add records, all of them or none."""
        text = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs)
        with holding(self._path):
            self._cut()
            size = self._path.stat().st_size
            try:
                with self._path.open("ab") as file:
                    file.write(text.encode())
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                os.truncate(self._path, size)
                raise CldrankError(
                    f"{self._path} cannot be written: {error.strerror}. The trials in it are kept; make room there, "
                    "and the same call continues with them."
                ) from error

    def _cut(self) -> bool:
        """Drop an incomplete record at the end of the file; we hold the lock, so no process is writing it."""
        with self._path.open("rb") as file:
            file.seek(max(0, self._path.stat().st_size - 1))
            if file.read() in (b"", b"\n"):
                return False
        content = self._path.read_bytes()
        rest = content[content.rfind(b"\n") + 1 :]
        written = rest.rstrip(b"\0")  # a power failure may leave zeros for what had not reached the disk
        if not (written.startswith(_BEGINNING) or _BEGINNING.startswith(written)):
            return False
        os.truncate(self._path, len(content) - len(rest))
        return True

    def _check(self) -> None:
        """Refuse a file that is something else, or damaged in the middle."""
        for number, line in enumerate(self._path.read_bytes().splitlines(), start=1):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                record = None
            if not isinstance(record, dict) or not isinstance(record.get("op_code"), int):
                raise FormatError(
                    "this is not a record of trials. Remove this line and those after it to continue with the "
                    "trials before, or name another folder.",
                    path=self._path,
                    line=number,
                )
