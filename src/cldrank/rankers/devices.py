"""Where networks and trees are trained and scored: the CPU, or a GPU that must be there."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from cldrank.errors import MissingDependencyError, UsageError

if TYPE_CHECKING:
    import torch


def is_cpu(device: str | None) -> bool:
    """Whether a device is the CPU, which it is where none is named."""
    return device is None or device == "cpu"


def device_of(name: str | None) -> torch.device:
    """The device of this name for torch; the CPU where none is named."""
    try:
        import torch
    except ImportError:
        raise MissingDependencyError(f"`device={name!r}` needs torch: pip install 'cldrank[neural]'.") from None
    try:
        device = torch.device("cpu" if name is None else name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, TypeError):
        has = "cpu and cuda" if torch.cuda.is_available() else "cpu alone"
        raise UsageError(f"`device={name!r}` cannot be used here; torch has {has}.") from None
    return device


def check_tree_device(device: str | None) -> None:
    """Refuse a device that XGBoost does not find: the engine itself would go on without it."""
    if is_cpu(device):
        return
    import xgboost

    tiny = xgboost.DMatrix(np.zeros((1, 1)))  # without features, any device would be refused
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            settings: dict[str, Any] = {"device": device, "fail_on_invalid_gpu_id": True}
            booster = xgboost.Booster(settings, [tiny])
            used = json.loads(booster.save_config())["learner"]["generic_param"]["device"]
    except xgboost.core.XGBoostError:
        used = "cpu"
    if used == "cpu":
        raise UsageError(f"`device={device!r}` cannot be used here; XGBoost takes cpu, or cuda where there is a GPU.")
