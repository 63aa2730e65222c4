"""Requests to search engines: JSON in and out, no more of them a second than wanted, repeated where one fails.

Credentials come from the environment alone, and are never part of an address, a message or a file.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any, Self
from urllib.parse import urlsplit

from cldrank.errors import CldrankError, MissingDependencyError, UsageError
from cldrank.reading import reason

CREDENTIALS = ("CLDRANK_ENGINE_USER", "CLDRANK_ENGINE_PASSWORD", "CLDRANK_ENGINE_API_KEY", "CLDRANK_ENGINE_TOKEN")
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 60.0  # seconds, before a request is repeated; doubled each time
_TIMEOUT = 60.0  # seconds
_LONGEST_ANSWER = 300  # letters of an error's answer in a message


class EngineError(CldrankError):
    """A search engine that does not answer, or refuses a request; `status` is that of HTTP, 0 without an answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class PartialAnswerError(Exception):
    """An answer that says itself that it is not whole."""


class Client:
    """Requests to the engine at an address, from any thread.

    url          where the engine listens, perhaps with a path
    per_second   the most requests a second; None: as many as it answers
    retries      how often a request is repeated that fails by the network, by 429, or by a fault of the engine

    The environment holds a name and a password (CLDRANK_ENGINE_USER, CLDRANK_ENGINE_PASSWORD), an API key of
    Elasticsearch or OpenSearch (CLDRANK_ENGINE_API_KEY), or a bearer token (CLDRANK_ENGINE_TOKEN); SSL_CERT_FILE names
    the certificates to trust.

    >>> Client("http://me:secret@localhost:9200")
    Traceback (most recent call last):
    cldrank.errors.UsageError: `url` holds a name or a password, ...; set CLDRANK_ENGINE_USER and ... instead.
    """

    def __init__(self, url: str, *, per_second: float | None = None, retries: int = 5) -> None:
        parts = urlsplit(url)
        if parts.username is not None or parts.password is not None:
            raise UsageError(
                "`url` holds a name or a password, which histories and messages would keep; set CLDRANK_ENGINE_USER and "
                "CLDRANK_ENGINE_PASSWORD instead."
            )
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"`url` must be an address such as https://localhost:9200, not {url!r}.")
        try:
            import httpx
        except ImportError:
            raise MissingDependencyError("asking engines needs httpx: pip install 'cldrank[collect]'.") from None
        self.url, self._retries, self._pause = url.rstrip("/"), retries, 1 / per_second if per_second else 0.0
        self._lock, self._next, self._stopped = threading.Lock(), 0.0, threading.Event()
        self._broken: type[Exception] = httpx.TransportError
        self._client = httpx.Client(timeout=_TIMEOUT, headers=_authorization(os.environ))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._client.close()

    def stop(self) -> None:
        """End all waiting; requests in other threads fail."""
        self._stopped.set()

    def ask(
        self,
        path: str,
        *,
        json: Any = None,
        form: Mapping[str, Any] | None = None,
        method: str = "POST",
        check: Any = None,
    ) -> Any:
        """The answer at a path below the address; `check` raises `PartialAnswerError` for one to ask for again."""
        for attempt in range(self._retries + 1):
            self._take_turn()
            wait = min(_FIRST_WAIT * 2**attempt, _LONGEST_WAIT)
            try:
                answer = self._client.request(method, self.url + path, json=json, data=form)
            except self._broken as error:
                problem, status = f"does not answer ({type(error).__name__}: {reason(error)})", 0
            else:
                status = answer.status_code
                problem = f"answers {status} {answer.reason_phrase}: {_shortened(answer.text)}"
                if answer.is_success:
                    try:
                        content = answer.json()
                        if check is not None:
                            check(content)
                        return content
                    except (ValueError, PartialAnswerError) as error:
                        problem = f"sends an answer that is not whole ({reason(error)})"
                elif status != 429 and status < 500:
                    break
                wait = max(wait, _retry_after(answer.headers.get("Retry-After", "")))
            if attempt < self._retries and self._stopped.wait(wait):
                break
        raise EngineError(f"{self.url}{path} {problem}.", status)

    def _take_turn(self) -> None:
        """Wait until the next request may be sent."""
        with self._lock:
            now = time.monotonic()
            turn = self._next = max(now, self._next + self._pause)
        if self._stopped.wait(turn - now):
            raise EngineError("stopped.")


def _authorization(environment: Mapping[str, str]) -> dict[str, str]:
    """The header for the credentials in the environment.

    >>> _authorization({"CLDRANK_ENGINE_USER": "me", "CLDRANK_ENGINE_PASSWORD": "secret"})
    {'Authorization': 'Basic bWU6c2VjcmV0'}
    """
    import base64

    user, password, key, token = (environment.get(name, "") for name in CREDENTIALS)
    if sum(map(bool, (user, key, token))) > 1:
        raise UsageError(f"the environment has several credentials; set one: {', '.join(CREDENTIALS)}.")
    if user:
        return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}
    if key or token:
        return {"Authorization": f"ApiKey {key}" if key else f"Bearer {token}"}
    return {}


def _retry_after(text: str) -> float:
    """The seconds that a header asks to wait: a number, or a date.

    >>> _retry_after("7"), _retry_after("soon"), _retry_after("Thu, 01 Jan 2015 00:00:00 GMT")
    (7.0, 0.0, 0.0)
    """
    with suppress(ValueError):
        return max(0.0, float(text))
    with suppress(ValueError, TypeError):
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    return 0.0


def _shortened(text: str) -> str:
    """The beginning of an answer, on a line."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_ANSWER else f"{line[:_LONGEST_ANSWER]} …"
