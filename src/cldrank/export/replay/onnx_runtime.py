"""What ONNX Runtime computes: the engine itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.errors import MissingDependencyError
from cldrank.export.replay.table import NamedTable

_ROWS = 4096  # at a time, so that what the engine keeps between nodes stays small


def scores(content: bytes, table: NamedTable) -> NDArray[np.float64]:
    """A score per row, by ONNX Runtime on the CPU; columns in the order that the model says."""
    session = _session(content)
    rows = np.ascontiguousarray(table.values, dtype=np.float32)
    parts = [session.run(["score"], {"features": rows[at : at + _ROWS]})[0] for at in range(0, len(rows), _ROWS)]
    return np.concatenate([np.zeros((0, 1)), *parts])[:, 0].astype(np.float64)


def _session(content: bytes) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise MissingDependencyError("ONNX needs onnx and onnxruntime: pip install 'cldrank[onnx]'.") from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors alone
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
