"""Logs of other programs, turned into the plain log that everything else takes.

importing            `import_log`: arguments, files, and what is written
format_recognition   a look at the first record: is it the format that was named?
formats              from files to pages and events: where UBI, Metarank and Yandex keep what these say
record_join          from pages and events to rows, with an account of every record
import_report        what became of the records
"""

from cldrank.clicks.imports.import_report import ImportReport, SetAside
from cldrank.clicks.imports.importing import import_log

__all__ = ["ImportReport", "SetAside", "import_log"]
