"""The world of the demo: its data, its two devices, its experiment."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

KIND = "web10k-like"
DEPTH, NOISE, PAGES, SESSIONS = 10, 0.1, "5e4", 100_000
DEVICES = {"phone": 1.4, "desktop": 0.7}  # how fast examination falls: (1/position)^eta
STUDIED = "phone"  # the device of the experiment: its clicks, and the curve that was estimated for it
HELD_OUT = 0.2
MEASURES = ("nDCG@1", "nDCG@3", "AP")
DECISIVE = MEASURES[1]
# The share of labels that the production ranker has learned from. It is small, so that both biases show: a better one
# leaves little to gain, as Naive inherits its order. The last lines of the demo invite to try that.
FRACTION = 0.002

_METHODS = """Naive = { model = "mlp" }
IPS = { model = "mlp" }
"Heckman^rank" = {}
RankAgg = {}
CLD = {}
CLD-pair = {}
"CLD-pair trees" = { use = "cld-pair", model = "trees" }
Oracle = { model = "mlp" }"""  # as in the paper's table 1, and trees
_LINEAR_METHODS = """Naive = {}
IPS = {}
"Heckman^rank" = {}
CLD = {}
Oracle = {}"""


def candidates(linear: bool) -> dict[str, str]:
    """What is trained on the log, to choose from: a name, and what `cldrank train` is asked for."""
    if linear:
        return {"naive": "naive", "ips": "ips", "cld": "cld"}
    return {f"{name}-trees": f"{name} --model trees" for name in ("naive", "ips", "cld-pair")}


def methods_to_try(linear: bool) -> str:
    """The methods of the experiment, as its file names them."""
    return _LINEAR_METHODS if linear else _METHODS


def simulate(out: Path, data: str, folder: str, device: str, seed: int, *, first: bool = False) -> str:
    """The command that makes the log of a device; the first of all trains the production ranker as well."""
    production = shell_word(out / "production")
    ranker = f"--fraction {FRACTION} --save-production {production}" if first else f"--production {production}"
    return (
        f"simulate {shell_word(out / data)} --sessions {PAGES} -k {DEPTH} --eta {DEVICES[device]} "
        f"--policy neighbour-swaps {ranker} --seed {seed} --add-column device={device} "
        f"--log {shell_word(out / folder / f'{device}.parquet')}"
    )


def logs(out: Path, folder: str) -> str:
    """The logs of all devices, as arguments of a command."""
    return " ".join(shell_word(out / folder / f"{device}.parquet") for device in DEVICES)


def shell_word(path: Path) -> str:
    """A path as the shell reads it; it has a folder, since a bare name may be a word such as `production`."""
    return shlex.quote(str(path) if path.is_absolute() or len(path.parts) > 1 else f"./{path}")


def definition(out: Path, assumed: float, seeds: int, linear: bool) -> str:
    """The experiment as a file, to be changed and run again."""
    train, test = (json.dumps(str(out / name)) for name in ("train.parquet", "test.parquet"))
    return f"""title = "Learning to rank from biased clicks"
data = {{ name = "{KIND}", train = {train}, test = {test} }}
seeds = {seeds}
measures = {json.dumps(MEASURES)}

[production]
fraction = {FRACTION}

[simulation]
sessions = {SESSIONS}
depth = {DEPTH}
eta = {DEVICES[STUDIED]} # of the {STUDIED}
assumed_eta = {assumed:.4g} # what was estimated from its log
noise = {NOISE}

[methods]
Production = {{ use = "svm-rank", fraction = {FRACTION} }}
{methods_to_try(linear)}
"""
