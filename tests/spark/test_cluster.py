"""A real cluster: two executors in processes of their own, one of which is lost in the middle of a fit."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")


@pytest.mark.slow
def test_a_fit_survives_the_loss_of_an_executor() -> None:
    benchmark = Path(__file__).parents[2] / "benchmarks" / "scale.py"
    done = subprocess.run([sys.executable, str(benchmark), "--kill"], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["killed"] in found["executors_before"]
    assert found["killed"] not in found["executors_after"]
    assert found["status"] == "converged"
    assert found["difference"] < 1e-8
