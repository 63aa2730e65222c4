"""Requests to search engines: JSON out, no more of them a second than wanted, repeated where one fails.

Credentials come from the environment alone, and are never part of an address, a message or a file.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self
from urllib.parse import urlsplit

from cldrank.arguments import check_number, check_whole
from cldrank.errors import CldrankError, MissingDependencyError, UsageError
from cldrank.reading import reading, reason

_FIRST_WAIT, _LONGEST_WAIT = 0.5, 60.0  # seconds, before a request is repeated; doubled each time
_LONGEST_ASKED = 3600.0  # seconds, that an engine may ask to wait
_TIMEOUT = 60.0  # seconds


class EngineError(CldrankError):
    """A search engine that does not answer, or refuses a request."""


class Client:
    """Requests to the engine at an address, from any thread.

    per_second   the most requests a second; None: as many as it answers
    retries      how often a request is repeated that the network or the engine lets fail (429 and 5xx)

    The environment holds CLDRANK_ENGINE_USER and CLDRANK_ENGINE_PASSWORD, CLDRANK_ENGINE_API_KEY, or
    CLDRANK_ENGINE_TOKEN (a bearer token); SSL_CERT_FILE names the certificates to trust.

    >>> Client("http://me:secret@localhost:9200")
    Traceback (most recent call last):
    cldrank.errors.UsageError: `url` must be an address that begins with https:// or http://, ...
    """

    def __init__(self, url: str, *, per_second: float | None = None, retries: int = 5) -> None:
        try:
            parts = urlsplit(url)
            is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:  # brackets that do not match, a port in letters
            is_address = False
        if not is_address or "@" in parts.netloc or parts.query:
            raise UsageError(
                "`url` must be an address that begins with https:// or http://, without a name or password, such as "
                "https://localhost:9200/products; set "
                "CLDRANK_ENGINE_USER and CLDRANK_ENGINE_PASSWORD for these."
            )
        check_whole("retries", retries, least=0)
        if per_second is not None:
            check_number("per_second", per_second, above=0)
        try:
            import httpx
        except ImportError:
            raise MissingDependencyError("asking engines needs httpx: pip install 'cldrank[collect]'.") from None
        self.url, self._retries, self._pause = url.rstrip("/"), retries, 1 / per_second if per_second else 0.0
        self._lock, self._next, self._stopped = threading.Lock(), 0.0, threading.Event()
        self._broken = httpx.TransportError
        with reading(os.environ.get("SSL_CERT_FILE", url), "a file of certificates"):
            self._client = httpx.Client(timeout=_TIMEOUT, headers=_authorization())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()  # whoever waits in another thread
        self._client.close()

    def ask(self, path: str, json: Any = None, form: Mapping[str, str] | None = None) -> Any:
        """The answer at a path below the address."""
        for attempt in range(self._retries + 1):
            self._take_turn()
            wait = min(_FIRST_WAIT * 2**attempt, _LONGEST_WAIT)
            try:
                answer = self._client.post(self.url + path, json=json, data=form)
            except self._broken as error:
                problem = f"does not answer ({type(error).__name__}: {reason(error)})"
            else:
                if answer.is_success and (whole := _whole(answer)) is not None:
                    return whole
                problem = f"answers {answer.status_code}: {' '.join(answer.text.split())[:300]}"
                if answer.is_redirect or (answer.is_client_error and answer.status_code != 429):
                    break
                with suppress(ValueError):  # a date, which no engine sends
                    wait = max(wait, min(float(answer.headers.get("Retry-After", 0)), _LONGEST_ASKED))
            if attempt < self._retries and self._stopped.wait(wait):
                break
        if "answers 401" in problem or "answers 403" in problem:
            problem += f". Credentials come from the environment ({_credentials()})"
        elif "answers 200" in problem:
            problem += ". That is not what an engine answers; check the address"
        raise EngineError(f"{self.url}{path} {problem}.")

    def _take_turn(self) -> None:
        """Wait until the next request may be sent."""
        with self._lock:
            now = time.monotonic()
            turn = self._next = max(now, self._next + self._pause)
        if self._stopped.wait(turn - now):
            raise EngineError("stopped.")


def _whole(answer: Any) -> Any:
    """The content of an answer; None if it is no JSON, or says itself that documents are left out."""
    with suppress(ValueError, AttributeError):
        content = answer.json()
        search, solr, vespa = (content.get(name) or {} for name in ("_shards", "responseHeader", "root"))
        lacking = content.get("timed_out") or search.get("failed") or solr.get("partialResults") or vespa.get("errors")
        return None if lacking or vespa.get("coverage", {}).get("full") is False else content
    return None


def _credentials() -> str:
    """Which of the variables for credentials are set, without their values."""
    names = [f"CLDRANK_ENGINE_{name}" for name in ("USER", "PASSWORD", "API_KEY", "TOKEN")]
    return ", ".join(f"{name}: {'set' if os.environ.get(name, '').strip() else 'not set'}" for name in names)


def _authorization() -> dict[str, str]:
    """The header for the credentials in the environment."""
    import base64

    names = (f"CLDRANK_ENGINE_{name}" for name in ("USER", "PASSWORD", "API_KEY", "TOKEN"))
    user, password, key, token = (os.environ.get(name, "").strip() for name in names)
    basic = user and f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
    given = [value for value in (basic, key and f"ApiKey {key}", token and f"Bearer {token}") if value]
    if len(given) > 1:
        raise UsageError("the environment holds several credentials; set one of CLDRANK_ENGINE_USER, _API_KEY, _TOKEN.")
    if given and not (given[0].isascii() and given[0].isprintable()):
        raise UsageError("the credentials in the environment hold letters that no header can have; set them again.")
    return {"Authorization": given[0]} if given else {}
