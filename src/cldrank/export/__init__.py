"""Export: a ranker in the form that an engine reads, and a replay of the engine's documented arithmetic.

A format is one file of `formats/`; its replay, the file of that name in `replay/`, reads the written files alone and
shares no code with the writer.
"""

from cldrank.export.format import Exported, ExportFormat, export_formats
from cldrank.export.format import ExportRequest as ExportRequest
from cldrank.export.shipping import Parity, Shipment, export_ranker

__all__ = [
    "ExportFormat", "Exported", "Parity", "Shipment", "export_formats", "export_ranker",
]  # fmt: skip
