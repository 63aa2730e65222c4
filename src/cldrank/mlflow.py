"""Rankers in MLflow: logged with their card and verdict, and loaded as what MLflow calls a pyfunc.

MLflow keeps the ranker's own folder, which holds data only: unlike most models there, loading it unpickles nothing.
"""

from __future__ import annotations

import json
import re
import tempfile
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from cldrank._version import __version__
from cldrank.documents import render_html
from cldrank.errors import MissingDependencyError, UsageError
from cldrank.rankers import GroupRanker, Ranker, TreeRanker, load_ranker, model_card, ranker_fingerprint

__all__ = ["log_model"]


def log_model(
    ranker: Ranker, comparison: Any = None, *, name: str = "ranker", registered_model_name: str | None = None
) -> Any:
    """Log a ranker to MLflow, in the active run or in one of its own; the result is MLflow's `ModelInfo`.

    The run gets the ranker's card (`model_card.md`) and, with a comparison, the verdict (`verdict.html`,
    `verdict.json`, and a tag `verdict`) and the difference of each measure with its interval, such as
    `DCG_at_5.difference`.
    `mlflow.pyfunc.load_model(info.model_uri).predict(frame)` scores as `ranker.predict(frame)` does.

    comparison              the result of `cldrank.compare` for two rankers, such as this one and production
    name                    of the model in MLflow
    registered_model_name   also register it under this name
    """
    if comparison is not None and "measures" not in comparison.as_dict():
        raise UsageError("`comparison` is of several rankers; take that of this one: `comparison[name]`.")
    mlflow = _mlflow()
    extra = "[trees]" if _has_trees(ranker) else ""
    with mlflow.start_run() if mlflow.active_run() is None else nullcontext(), tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "ranker"
        ranker.save(place)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*input example was not provided")  # the signature says it all
            info = mlflow.pyfunc.log_model(
                name=name,
                loader_module=__name__,
                data_path=str(place),
                signature=_signature(ranker),
                pip_requirements=[f"cldrank{extra}=={__version__}", "pandas"],
                metadata={"kind": ranker.kind, "fingerprint": ranker_fingerprint(ranker)},
                registered_model_name=registered_model_name,
            )
        mlflow.log_text(model_card(ranker), "model_card.md")
        if comparison is not None:
            _log_comparison(mlflow, comparison)
    return info


def _log_comparison(mlflow: Any, comparison: Any) -> None:
    values = comparison.as_dict()
    mlflow.log_text(render_html(comparison.document()), "verdict.html")
    mlflow.log_text(json.dumps(values, indent=2), "verdict.json")
    if "verdict" in values:  # by clicks
        mlflow.set_tag("verdict", values["verdict"])
    for measure, measured in values["measures"].items():
        parts = {part: measured[part] for part in ("difference", "low", "high") if measured.get(part) is not None}
        name = re.sub(r"[^\w.-]+", "_", measure.replace("@", "_at_"))  # MLflow takes no brackets, as in AP(rel=2)
        mlflow.log_metrics({f"{name}.{part}": value for part, value in parts.items()})


def _signature(ranker: Ranker) -> Any:
    """Features by name; of any type of number, since MLflow refuses whole numbers where it expects others."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema
    from mlflow.types.schema import AnyType

    inputs = [ColSpec(AnyType(), feature) for feature in ranker.feature_names]
    return ModelSignature(inputs=Schema(inputs), outputs=Schema([ColSpec("double", "score")]))


def _load_pyfunc(path: str) -> Ranker:
    """What MLflow calls to load a logged ranker; it then calls its `predict`."""
    return load_ranker(path)


def _has_trees(ranker: Ranker) -> bool:
    return isinstance(ranker, TreeRanker) or (isinstance(ranker, GroupRanker) and any(map(_has_trees, ranker.members)))


def _mlflow() -> Any:
    try:
        with warnings.catch_warnings(action="ignore"):  # MLflow warns itself of its own parts
            import mlflow
            import mlflow.pyfunc
    except ImportError:
        raise MissingDependencyError("MLflow is not installed: pip install 'cldrank[mlflow]'.") from None
    return mlflow
