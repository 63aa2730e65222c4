"""`ServiceSettings`: limits of the service, and what a reload needs."""

from __future__ import annotations

from dataclasses import dataclass, field

MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class ServiceSettings:
    """What a service accepts.

    max_body         largest body in bytes
    max_candidates   most candidates of one request
    body_timeout     seconds within which a body must have arrived
    stop_timeout     seconds that requests in flight are given when the service is stopped
    token            what `POST /reload` must show; without it, that path is closed
    """

    max_body: int = 32 * MEBIBYTE
    max_candidates: int = 10_000
    body_timeout: float = 10.0
    stop_timeout: float = 30.0
    token: str | None = field(default=None, repr=False)
