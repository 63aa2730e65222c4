"""Folders of exports: what may be replaced, and what users have completed since the last export.

`export.json` in each says what was written, with a digest of every file, so that an edited one is known.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from cldrank._version import __version__
from cldrank.errors import UsageError
from cldrank.export.format import Exported, ExportFormat, ExportRequest
from cldrank.export.parity import Parity
from cldrank.rankers import Ranker
from cldrank.wording import some

RECORD = "export.json"
_NOBODYS = ("__pycache__", ".DS_Store")


def export_record(
    ranker: Ranker, found: ExportFormat, request: ExportRequest, exported: Exported, parity: Parity | None
) -> bytes:
    """The content of `export.json`."""
    record = {
        "format": "cldrank-exported",
        "cldrank": __version__,
        "to": found.name,
        "for": request.version or found.newest,
        "name": request.name,
        "ranker": str(ranker.provenance),
        "unmatched": exported.unmatched,
        "losses": list(exported.losses),
        "parity": None if parity is None else parity.as_dict(),
        "files": {name: _digest(content) for name, content in exported.files.items()},
    }
    return (json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode()


def completed_files(path: Path, found: ExportFormat, request: ExportRequest, exported: Exported) -> dict[str, bytes]:
    """The files in a folder that users have completed, and that suit the new export; anything else is refused."""
    inside = _inside(path)
    if not inside:
        return {}
    record = _record(path)
    if record["to"] != found.name:
        raise UsageError(f"{path} holds an export for {record['to']}; name another folder.")
    if foreign := [name for name in inside if name not in (*record["files"], RECORD)]:
        raise UsageError(f"{path} holds {foreign[0]!r}, which no export wrote; name another folder.")
    contents = {name: (path / name).read_bytes() for name in inside if name != RECORD}
    edited = {name: content for name, content in contents.items() if _digest(content) != record["files"][name]}
    for name, content in edited.items():
        if name not in exported.to_fill:
            raise UsageError(f"{path / name} was edited and would be replaced; move it away, or name another folder.")
        _check_suits(path / name, content, record, found, request, exported)
    return edited


def _check_suits(
    path: Path, content: bytes, record: dict[str, Any], found: ExportFormat, request: ExportRequest, exported: Exported
) -> None:
    """Refuse a completed file that was written for another model, or does not define all that this one uses."""
    way_out = "export to another folder, and take over what you wrote"
    if record["name"] != request.name:
        raise UsageError(f"{path} was completed for the model {record['name']!r}, not {request.name!r}; {way_out}.")
    if record["unmatched"] != exported.unmatched:
        raise UsageError(
            f"{path} was completed for a model to which a feature that does not match is {record['unmatched']}, and to "
            f"this one it is {exported.unmatched}; {way_out}."
        )
    try:
        defined = found.defined_features(content)
    except (ValueError, RecursionError):
        raise UsageError(f"{path} was edited and cannot be read any more; mend it, or name another folder.") from None
    if missing := [name for name in exported.to_fill[path.name] if name not in defined]:
        raise UsageError(
            f"{path} was edited and does not define {some(map(repr, missing))}, which this ranker uses; add what is "
            "missing, or name another folder."
        )


def _inside(path: Path) -> list[str]:
    """The files of a folder, and of those in it; caches of Python and of desktops do not count."""
    found = (entry for entry in path.rglob("*") if not entry.is_dir())
    names = (entry.relative_to(path) for entry in found)
    return sorted(name.as_posix() for name in names if not set(name.parts) & set(_NOBODYS))


def _record(path: Path) -> dict[str, Any]:
    try:
        found = json.loads((path / RECORD).read_bytes())
        if found["format"] == "cldrank-exported" and isinstance(found["files"], dict):
            return {"name": None, "unmatched": None, "to": "nothing known", **found}
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        pass
    raise UsageError(f"{path} is not empty and holds no export of cldrank; name another folder, or empty it first.")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
