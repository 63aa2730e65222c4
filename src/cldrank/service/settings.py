"""`ServiceSettings`: limits of the service, and what a reload needs."""

from __future__ import annotations

from dataclasses import dataclass, field

from cldrank.arguments import check_number

MEBIBYTE = 1 << 20
LONGEST_TIMEOUT = 3600


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

    def __post_init__(self) -> None:
        for name in ("body_timeout", "stop_timeout"):
            check_number(name, getattr(self, name), above=0, most=LONGEST_TIMEOUT)
