"""`Fingerprints`: the SHA-256 of files, computed once for each version of a file.

A file of the same path, size, time of change and inode is taken for the same, as git does; so a second run over a large
log does not read it again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cldrank.decoding import canonical, hashed
from cldrank.files import save_json
from cldrank.reading import reading


@dataclass
class Fingerprints:
    """The hashes of files that are known, and the file that remembers them."""

    memory: Path
    known: dict[str, list[Any]] = field(default_factory=dict)

    @classmethod
    def remembered(cls, memory: Path) -> Fingerprints:
        """Those that an earlier run left; a damaged file is as good as none."""
        try:
            known = json.loads(memory.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            known = {}
        sound = isinstance(known, dict) and all(isinstance(one, list) and len(one) == 4 for one in known.values())
        return cls(memory, known if sound else {})

    def of(self, path: Path) -> str:
        """The SHA-256 of a file."""
        with reading(path, "a file"):
            state = path.stat()
            version = [state.st_size, state.st_mtime_ns, state.st_ino]
            name = str(path.resolve())
            before = self.known.get(name)
            if before is None or before[:3] != version:
                with path.open("rb") as content:
                    self.known[name] = [*version, hashlib.file_digest(content, "sha256").hexdigest()]
        return str(self.known[name][3])

    def of_files(self, files: Mapping[str, Path]) -> dict[str, str]:
        """The hashes of several files, by name."""
        return {name: self.of(path) for name, path in files.items()}

    def save(self) -> None:
        """Remember those of files that are still there."""
        self.known = {name: one for name, one in self.known.items() if Path(name).exists()}
        save_json(self.memory, self.known, indent=0)


def content_hash(files: Mapping[str, str]) -> str:
    """One hash for several files, from their names and hashes.

    >>> content_hash({"a": "1", "b": "2"}) == content_hash({"b": "2", "a": "1"})
    True
    """
    return hashed(canonical(dict(files)))
