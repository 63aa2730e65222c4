"""What an audit says of a log: findings, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

NOTHING_TO_DO = "Nothing to do."


class Severity(StrEnum):
    """How bad a finding is.

    >>> list(map(str, Severity)), Severity.warning == "warning"
    (['ok', 'note', 'warning', 'blocking'], True)
    """

    ok = "ok"
    note = "note"
    warning = "warning"
    blocking = "blocking"


@dataclass(frozen=True)
class Finding:
    """What was found about a topic, in one sentence, and what to do, in another.

    >>> Finding("impressions", Severity.note, "There are few.", "Collect more.").severity.value
    'note'
    """

    topic: str
    severity: Severity
    found: str
    advice: str


@dataclass(frozen=True)
class Verdict:
    """The overall judgement, as bad as the worst finding; findings come in order of severity.

    >>> few = Finding("impressions", Severity.note, "There are few.", "Collect more.")
    >>> [finding.advice for finding in Verdict(Severity.note, "Usable.", (few,)).findings]
    ['Collect more.']
    """

    severity: Severity
    sentence: str
    findings: tuple[Finding, ...]
