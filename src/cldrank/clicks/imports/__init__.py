"""Logs of other programs, turned into the plain log that everything else takes.

recognising   a look at the first record: is it the format that was named?
ubi, metarank, yandex   from files to records, in the terms that all formats share
paging, joining   from records to rows, with an account of every record
import_report   what became of the records
importing     `import_log`: all of this, and the files that are written
"""

from __future__ import annotations

from cldrank.clicks.imports.import_report import ImportReport, SetAside
from cldrank.clicks.imports.importing import import_log

__all__ = ["ImportReport", "SetAside", "import_log"]
