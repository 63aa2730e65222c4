import itertools
import json
import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from small_networks import GIVEN, scores

from cldrank.methods import CLDPair
from cldrank.models import MLP
from cldrank.models.network.distributed import World, is_leader, local_device

SCRIPT = """
    import json, os, sys
    sys.path.insert(0, {estimators!r})
    from small_networks import GIVEN, scores
    from cldrank.methods import CLDPair
    from cldrank.models import MLP, Run

    told = []
    run = Run(checkpoint={file!r}, on_epoch=lambda epoch: told.append(epoch.number))
    model = MLP(hidden=(16,), dropout=0.0, epochs=3, batch_queries=16)
    fitted = CLDPair(target="ips", model=model, run=run).fit(*GIVEN)
    found = {{"scores": scores(fitted).tolist(), "losses": [epoch.loss for epoch in fitted.history_], "told": told}}
    with open({folder!r} + "/" + os.environ["RANK"] + ".json", "w") as file:
        json.dump(found, file)
    import torch.distributed
    torch.distributed.destroy_process_group()
"""


def test_two_processes_learn_what_one_learns(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    estimators = str(Path(__file__).parents[2] / "methods")
    file = tmp_path / "state"
    script.write_text(textwrap.dedent(SCRIPT).format(estimators=estimators, folder=str(tmp_path), file=str(file)))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    world = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, str(script)],
            env={**os.environ, **world, "RANK": str(rank), "LOCAL_RANK": str(rank)},  # as torchrun sets them
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    alone = CLDPair(target="ips", model=MLP(hidden=(16,), dropout=0.0, epochs=3, batch_queries=16)).fit(*GIVEN)
    np.testing.assert_array_equal(first["scores"], second["scores"])
    np.testing.assert_allclose(first["scores"], scores(alone), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(first["losses"], [epoch.loss for epoch in alone.history_], rtol=1e-5)
    assert (first["told"], second["told"]) == ([1, 2, 3], [])  # one speaks and writes for all
    assert file.exists()


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_shares_are_disjoint_and_leave_nothing_out(size: int) -> None:
    batch = torch.arange(7)
    shares = [World(rank, size).share(batch).tolist() for rank in range(size)]
    assert sorted(itertools.chain(*shares)) == batch.tolist()
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_process_alone_leads_and_adds_nothing_up() -> None:
    world = World.find(torch.device("cpu"))
    gradient = torch.ones(2)
    world.sum_up(gradient)
    assert world == World()
    assert world.leads
    assert is_leader()
    assert gradient.tolist() == [1, 1]
    assert world.total(torch.tensor(3.0)) == 3


def test_each_process_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert local_device("cuda") == "cuda"
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("RANK", "1")
    assert [local_device(name) for name in ("cuda", "cuda:0", "cpu", None)] == ["cuda:1", "cuda:0", "cpu", None]
    assert not is_leader()
