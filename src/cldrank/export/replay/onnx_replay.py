"""What ONNX Runtime computes: the engine itself, on the CPU and on one thread."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.errors import MissingDependencyError
from cldrank.export.replay import NamedTable

_ROWS = 4096  # at a time, so that what the engine keeps between nodes stays small


def scores(files: Mapping[str, bytes], table: NamedTable, version: str | None = None) -> NDArray[np.float64]:
    """A score per row; the model says which features it takes, and in which order."""
    del version
    session = _session(files["model"])
    names = json.loads(session.get_modelmeta().custom_metadata_map["features"])
    return _run(session, table.columns(names))


def row_scores(content: bytes, rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """A score per row of features that are in order already."""
    return _run(_session(content), rows)


def _run(session: Any, rows: NDArray[np.float32]) -> NDArray[np.float64]:
    parts = [session.run(["score"], {"features": rows[at : at + _ROWS]})[0] for at in range(0, len(rows), _ROWS)]
    return np.concatenate([np.zeros((0, 1)), *parts])[:, 0].astype(np.float64)


def _session(content: bytes) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise MissingDependencyError("ONNX needs onnx and onnxruntime: pip install 'cldrank[onnx]'.") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # several threads add up trees in an order of their own
    options.log_severity_level = 3  # errors alone
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
