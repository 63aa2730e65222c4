"""The service as a process: signals, workers, and rankers swapped while requests come in."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import made_rankers
import pytest

from cldrank.rankers import ranker_fingerprint

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
TOKEN = "0123456789abcdef"  # noqa: S105
_LIMIT = 120.0  # seconds, on a busy machine
BODY = {"ids": [f"d{row}" for row in range(20)], "features": made_rankers.FEATURES[:20].tolist()}
OLD, NEW = made_rankers.linear(), made_rankers.voter(1.0, -2.0, 0.5, 0.0)
OLD_NAME, NEW_NAME = ranker_fingerprint(OLD), ranker_fingerprint(NEW)


@dataclass
class Service:
    """A running service: its process, address and the lines that it printed."""

    process: subprocess.Popen[str]
    folder: Path
    address: str = ""
    lines: list[str] = field(default_factory=list)

    def client(self) -> httpx.Client:
        # verify: certificates, which are not needed here, take a tenth of a second to read
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        return httpx.Client(base_url=self.address, timeout=_LIMIT, headers=bearer, verify=False)  # noqa: S501

    def ranked_by(self) -> str:
        with self.client() as client:
            return str(client.post("/rank", json=BODY).json()["ranker"]["fingerprint"])

    def listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if found := re.search(r"at (http://\S+) \(", line):
                self.address = found.group(1)

    def begun(self) -> None:
        self.until(lambda: self.address or self.process.poll() is not None)
        assert self.address, "".join(self.lines)

    def until(self, happened: Callable[[], object]) -> None:
        """Wait; the limit only guards against hanging."""
        end = time.monotonic() + _LIMIT
        while not happened():
            assert time.monotonic() < end, "".join(self.lines)
            time.sleep(0.02)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(_LIMIT)

    def metric(self, name: str) -> float:
        with self.client() as client:
            found = re.search(rf"^{re.escape(name)} (\S+)$", client.get("/metrics").text, re.MULTILINE)
        return float(found.group(1)) if found else 0.0


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """Starts services, and ends them."""
    started: list[Service] = []

    def begin(*options: str, wait: bool = True) -> Service:
        folder = tmp_path / "ranker"
        OLD.save(folder)
        process = subprocess.Popen(
            [sys.executable, "-m", "cldrank", "serve", folder, "--port", "0", *options],
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ
            | {"CLDRANK_TOKEN": TOKEN, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)},  # killed, it leaves files
            start_new_session=True,  # a group of processes, as in a terminal
        )
        service = Service(process, folder)
        started.append(service)
        threading.Thread(target=service.listen, daemon=True).start()
        if wait:
            service.begun()
        return service

    yield begin
    for service in started:
        with suppress(ProcessLookupError):
            service.process.kill()
        service.process.wait()
        assert service.process.stderr is not None
        service.process.stderr.close()


def load(service: Service, stop: threading.Event, answers: list[Any]) -> None:
    """Ask again and again, on a connection that is kept open."""
    with service.client() as client:
        while not stop.is_set():
            try:
                answer = client.post("/rank", json=BODY)
                answers.append((answer.status_code, answer.json()))
            except Exception as error:
                answers.append((0, repr(error)))


def test_the_folder_to_interleave_with_is_watched_too(start: Callable[..., Service], tmp_path: Path) -> None:
    other = tmp_path / "other"
    OLD.save(other)
    service = start("--against", str(other))
    with service.client() as client:
        interleaved = client.post("/interleave", json={**BODY, "depth": 5, "key": "ada"}).json()
        assert interleaved["experiment"] == f"{OLD_NAME}-{OLD_NAME}"
        assert {result["team"] for result in interleaved["results"]} == {"both"}
        NEW.save(other)
        service.until(lambda: client.get("/health").json()["against"]["fingerprint"] == NEW_NAME)
        interleaved = client.post("/interleave", json={**BODY, "depth": 5, "key": "ada"}).json()
        assert interleaved["experiment"] == f"{OLD_NAME}-{NEW_NAME}"
        NEW.save(service.folder)
        service.until(lambda: client.get("/health").json()["ranker"]["fingerprint"] == NEW_NAME)
    assert service.stop() == 0


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_rankers_are_swapped_under_load_and_no_request_is_dropped(start: Callable[..., Service], workers: int) -> None:
    service = start("--workers", str(workers))
    with service.client() as client:
        expected = {OLD_NAME: client.post("/rank", json=BODY).json()}
        NEW.save(service.folder)
        assert client.post("/reload").status_code == 200
        service.until(lambda: service.metric(serving(NEW_NAME)) == workers)
        expected[NEW_NAME] = client.post("/rank", json=BODY).json()
    assert expected.keys() == {answer["ranker"]["fingerprint"] for answer in expected.values()}
    stop, answers = threading.Event(), list[Any]()
    threads = [threading.Thread(target=load, args=(service, stop, answers)) for _ in range(3)]
    for thread in threads:
        thread.start()
    with service.client() as client:
        for number in range(6):
            (OLD, NEW)[number % 2].save(service.folder)
            swapped, name = client.post("/reload").json(), (OLD_NAME, NEW_NAME)[number % 2]
            assert swapped["ranker"]["fingerprint"] == name
            # the worker that was asked has swapped, the others follow
            service.until(lambda: service.metric(serving(name)) == workers)  # noqa: B023
            for _ in range(4 * workers):
                assert service.ranked_by() == name
    stop.set()
    for thread in threads:
        thread.join()
    assert len(answers) > 20
    assert all(status == 200 for status, _ in answers), next(one for one in answers if one[0] != 200)
    assert all(answer == expected[answer["ranker"]["fingerprint"]] for _, answer in answers)
    assert len({answer["ranker"]["fingerprint"] for _, answer in answers}) == 2
    assert service.metric('cldrank_reloads_total{outcome="swapped"}') >= 7


def serving(fingerprint: str) -> str:
    """The metric that counts the workers that serve a ranker."""
    return f'cldrank_ranker_workers{{fingerprint="{fingerprint}",kind="linear"}}'


def workers_of(service: Service) -> list[int]:
    """The processes of the two workers; there is a third child, which tracks resources."""
    children = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children").read_text().split()
    return [int(one) for one in children if "spawn_main" in Path(f"/proc/{one}/cmdline").read_text()]


@LINUX
def test_workers_watch_the_folder_and_are_replaced(start: Callable[..., Service]) -> None:
    service = start("--workers", "2")
    service.until(lambda: service.metric(serving(OLD_NAME)) == 2)
    NEW.save(service.folder)  # nobody is told
    service.until(lambda: service.metric(serving(NEW_NAME)) == 2)
    assert service.metric(serving(OLD_NAME)) == 0

    (service.folder / "weights.safetensors").write_bytes(b"broken")
    service.until(lambda: service.metric('cldrank_reloads_total{outcome="refused"}') == 2)
    with service.client() as client:
        refused = client.post("/reload")
    assert refused.status_code == 409
    assert "weights.safetensors" in refused.json()["error"]
    assert {service.ranked_by() for _ in range(10)} == {NEW_NAME}

    killed = workers_of(service)[0]
    os.kill(killed, signal.SIGKILL)  # its place is taken once the folder is whole; until then the other answers
    assert {service.ranked_by() for _ in range(10)} == {NEW_NAME}
    service.until(lambda: any("a worker cannot start" in line for line in service.lines))
    NEW.save(service.folder)
    service.until(lambda: Path(f"/proc/{killed}").exists() is False and len(workers_of(service)) == 2)
    service.until(lambda: service.metric(serving(NEW_NAME)) == 2)
    assert {service.ranked_by() for _ in range(10)} == {NEW_NAME}
    assert service.metric('cldrank_reloads_total{outcome="swapped"}') >= 2  # what the dead have counted stays counted
    assert service.stop() == 0


def begun(service: Service, content: bytes) -> socket.socket:
    """A connection with a request of which a part has been sent."""
    host, port = service.address.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=_LIMIT)
    head = f"POST /rank HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    connection.sendall(head.encode() + content[:50])
    return connection


@pytest.mark.parametrize(
    ("workers", "number", "code"),
    [(1, signal.SIGTERM, 0), pytest.param(1, signal.SIGINT, 130, marks=pytest.mark.slow), (2, signal.SIGINT, 130)],
)
def test_requests_in_flight_are_answered_before_the_end(
    start: Callable[..., Service], workers: int, number: int, code: int
) -> None:
    service, content = start("--workers", str(workers)), json.dumps(BODY).encode()
    with closing(begun(service, content)) as connection:
        assert service.ranked_by() == OLD_NAME  # by now the other request has come, too
        service.process.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            service.process.wait(0.3)
        connection.sendall(content[50:])
        with connection.makefile("rb") as answer:
            assert answer.readline() == b"HTTP/1.1 200 OK\r\n"
    assert service.process.wait(_LIMIT) == code
    assert not any("Traceback" in line for line in service.lines)


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_request_that_outlasts_the_stop_does_not_hold_it_up(start: Callable[..., Service], workers: int) -> None:
    service = start("--workers", str(workers), "--stop-timeout", "1", "--body-timeout", "60")
    with closing(begun(service, b"x" * 100)) as connection, connection.makefile("rb") as answer:
        assert service.ranked_by() == OLD_NAME
        assert service.stop() == 0
        assert answer.read().startswith(b"HTTP/1.1 503 ")
    assert not any("Traceback" in line for line in service.lines)


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_hangup_reloads(start: Callable[..., Service], workers: int) -> None:
    service = start("--workers", str(workers))
    service.until(lambda: service.metric(serving(OLD_NAME)) == workers)

    def hung_up() -> bool:
        # again until it is heard: a worker ignores hangups before it watches the folder
        service.process.send_signal(signal.SIGHUP)
        return service.metric('cldrank_reloads_total{outcome="swapped"}') >= workers

    service.until(hung_up)
    assert service.stop() == 0


@LINUX
def test_a_supervisor_that_is_killed_takes_its_workers_along(start: Callable[..., Service]) -> None:
    service = start("--workers", "2")
    service.until(lambda: service.metric(serving(OLD_NAME)) == 2)
    children = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children").read_text().split()
    service.process.kill()
    assert len(children) >= 2
    service.until(lambda: not any(Path(f"/proc/{one}/cmdline").exists() for one in children))
