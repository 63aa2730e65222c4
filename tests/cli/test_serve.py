from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import made_rankers
import pytest

from cldrank.service import serving

Run = Callable[..., Any]


@pytest.fixture
def ranker(folder: Path) -> Path:
    made_rankers.linear().save(folder / "ranker")
    return folder / "ranker"


def refused(run: Run, *arguments: object, code: int = 2) -> str:
    """What a call that is refused says, in one line."""
    found = run("serve", *arguments)
    assert found.code == code, found.err
    assert found.err.count("\n") == 1
    return str(found.err)


def test_rankers_that_cannot_be_served_are_refused(run: Run, folder: Path, ranker: Path) -> None:
    assert "nowhere: no such file" in refused(run, "nowhere")
    assert "is a file, not the folder of a ranker" in refused(run, "train.parquet")
    (ranker / "weights.safetensors").write_bytes(b"")
    assert "damaged, or from another ranker" in refused(run, "ranker", code=1)


def test_addresses_that_cannot_be_had_are_refused(run: Run, ranker: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port} of 127.0.0.1 is in use; choose another with --port" in refused(run, ranker, "--port", port)
    assert "the host 'no.such.host.invalid' is not known" in refused(run, ranker, "--host", "no.such.host.invalid")
    assert "the service cannot listen at 192.0.2.1:8000" in refused(run, ranker, "--host", "192.0.2.1", code=1)
    assert run("serve", ranker, "--port", "70000").code == 2
    assert run("serve", ranker, "--workers", "0").code == 2
    for timeout in ("inf", "nan", "3601"):
        assert run("serve", ranker, "--stop-timeout", timeout).code == 2
        assert run("serve", ranker, "--body-timeout", timeout).code == 2


def test_tokens_that_protect_nothing_are_refused(
    run: Run, folder: Path, ranker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "nothing.txt: no such file" in refused(run, ranker, "--token-file", "nothing.txt")
    for content in (b"", b"short", b"two lines of\nwhich it has none"):
        (folder / "token").write_bytes(content)
        assert "token" in refused(run, ranker, "--token-file", "token")
    monkeypatch.setenv("CLDRANK_TOKEN", "short")
    assert "the environment variable CLDRANK_TOKEN: a token must be" in refused(run, ranker)
    (folder / "token").write_text("0123456789abcdef\n")
    assert serving.read_token("token") == "0123456789abcdef"
    monkeypatch.setenv("CLDRANK_TOKEN", "fedcba9876543210")
    assert serving.read_token(None) == "fedcba9876543210"
    monkeypatch.delenv("CLDRANK_TOKEN")
    assert serving.read_token(None) is None


def test_options_reach_the_service(run: Run, ranker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, Any] = {}

    def noted(folder: Path, **options: Any) -> int:
        found.update(options, folder=folder)
        options["started"]("http://127.0.0.1:81", "LinearRanker(…)")
        return 130

    monkeypatch.setattr(serving, "serve_ranker", noted)
    limits = ("--max-body", "2", "--max-candidates", "7", "--body-timeout", "4")
    ended = run("serve", ranker, "--port", "81", "--workers", "3", *limits)
    assert ended.code == 130
    assert "at http://127.0.0.1:81 (3 workers; the API is explained at http://127.0.0.1:81/docs)" in ended.err
    assert (found["port"], found["workers"], found["host"]) == (81, 3, "127.0.0.1")
    settings = found["settings"]
    assert (settings.max_body, settings.max_candidates, settings.body_timeout) == (2 << 20, 7, 4.0)
