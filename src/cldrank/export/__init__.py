"""Export: a ranker in the form that an engine loads, and a replay of that engine which shows that it scores alike.

A format is one file of this room, found by its class; its replay in `export.replay` reads the written files alone and
shares no code with the writer.
"""

from cldrank.export.format import Exported, ExportFormat
from cldrank.export.format import ExportRequest as ExportRequest
from cldrank.export.parity import Parity
from cldrank.export.registry import export_formats
from cldrank.export.shipping import Shipment, export_ranker

__all__ = [
    "ExportFormat",
    "Exported",
    "Parity",
    "Shipment",
    "export_formats",
    "export_ranker",
]
