"""Every reader of the package, by name."""

from __future__ import annotations

from click_readers import CLICK_READERS
from curve_readers import CURVE_READERS
from data_readers import DATA_READERS
from experiment_readers import EXPERIMENT_READERS
from frame_readers import FRAME_READERS
from import_readers import IMPORT_READERS
from odd_log_readers import ODD_LOG_READERS
from output_readers import OUTPUT_READERS
from ranker_readers import RANKER_READERS
from reader import Reader

READERS: dict[str, Reader] = {
    **DATA_READERS,
    **FRAME_READERS,
    **CLICK_READERS,
    **ODD_LOG_READERS,
    **IMPORT_READERS,
    **CURVE_READERS,
    **RANKER_READERS,
    **OUTPUT_READERS,
    **EXPERIMENT_READERS,
}
