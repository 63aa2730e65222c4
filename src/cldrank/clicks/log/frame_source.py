"""Frames as sources of cells: known by their content, as files are, so that none is counted twice unnoticed."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from cldrank.clicks.log.layout import LogLayout
from cldrank.clicks.log.nested import root_of
from cldrank.clicks.log.paths import LogFile, LogFrame, LogSource
from cldrank.clicks.log.roles import roles_of

_SHORT = 8  # digits of a fingerprint, in a name


def frame_sources(sources: Sequence[LogSource], layout: LogLayout) -> dict[LogSource, LogFile]:
    """The fingerprint of a frame: of the columns that are read. One that is yet to be computed has none."""
    from cldrank.data.frames import is_lazy

    frames = [one for one in sources if isinstance(one, LogFrame) and not is_lazy(one.frame)]
    return {frame: _source(frame, layout) for frame in frames}


def _source(log: LogFrame, layout: LogLayout) -> LogFile:
    names = log.part.names
    wanted = dict.fromkeys(root_of(names, name) or name for name in roles_of(names, log, layout).values())
    digest = _Digest()
    for name in sorted(wanted):
        column = log.part.table([name]).combine_chunks()  # a frame may be in other pieces the next time
        with pa.ipc.new_stream(pa.PythonFile(digest, "w"), column.schema) as stream:
            stream.write_table(column)
    found = digest.sha256.hexdigest()
    return LogFile(f"{log.name} {found[:_SHORT]}", digest.size, found)


class _Digest(io.RawIOBase):
    """A file that is not kept, only its hash."""

    def __init__(self) -> None:
        super().__init__()
        self.sha256, self.size = hashlib.sha256(), 0

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self.sha256.update(content)
        self.size += len(content)
        return len(content)
