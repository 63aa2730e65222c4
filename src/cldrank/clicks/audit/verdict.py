"""What an audit says of a log: findings, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

NOTHING_TO_DO = "Nothing to do."


class Severity(StrEnum):
    """How bad a finding is."""

    ok = "ok"
    note = "note"
    warning = "warning"
    blocking = "blocking"


@dataclass(frozen=True)
class Finding:
    """What was found about a topic, in one sentence, and what to do, in another."""

    topic: str
    severity: Severity
    found: str
    advice: str


@dataclass(frozen=True)
class Verdict:
    """The overall judgement, as bad as the worst finding; findings come in order of severity."""

    severity: Severity
    sentence: str
    findings: tuple[Finding, ...]
