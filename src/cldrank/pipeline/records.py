"""What is known of a step, and of a run, as values that JSON holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, Self

from cldrank.errors import FormatError
from cldrank.files import save_json
from cldrank.reading import read_json

RECORD = "record.json"
FORMAT = "cldrank-pipeline-run"
State = Literal["not needed", "not run", "running", "done", "reused", "stopped", "failed"]
Status = Literal["running", "shipped", "stopped", "failed", "interrupted"]


@dataclass(frozen=True)
class StepRecord:
    """What a step read, decided and wrote.

    key        the hash of all that decides its result: `settings`, and `read`, the hashes of what it reads by name
    decided    in a sentence
    brief      in a few words
    stop       why nothing may follow, in a word or two, such as "blocking" or "worse"; empty where a gate is open
    facts      numbers, by name
    wrote      the hash of each file, by its path in the folder of the step
    seconds    that it took when it ran
    reused     of a gate that stopped: whether an earlier result says so

    >>> StepRecord("audit", state="stopped", stop="blocking").stop
    'blocking'
    """

    name: str
    state: State = "not run"
    key: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    read: Mapping[str, str] = field(default_factory=dict)
    decided: str = ""
    brief: str = ""
    stop: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    wrote: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    reused: bool = False

    @property
    def was_run(self) -> bool:
        """Whether it was computed in this run."""
        return self.state in ("running", "done", "stopped", "failed") and not self.reused

    @property
    def folder(self) -> str:
        """The name of its folder among the results of all steps."""
        return f"{self.name}-{self.key}"

    @classmethod
    def from_json(cls, content: Any) -> Self:
        """As `asdict` wrote it, perhaps before some fields were added; ValueError where it is something else."""
        known = {entry.name for entry in fields(cls)}
        if not isinstance(content, dict) or not {"name", "state"} <= set(content) <= known:
            raise ValueError("not the record of a step")
        return cls(**content)


@dataclass(frozen=True)
class RunRecord:
    """What came of a run.

    name          of its folder
    started       in UTC
    status        how it ended; "running" while it does, and of a run that was killed until the next one begins
    reason        why it ended so, in a sentence
    stopped_by    the word of the gate that stopped it, such as "blocking" or "worse"
    override      why a ranker was shipped against the verdict, in the words of who did so; empty where nobody did
    inputs        the hash of every file that was read, by name, for each input
    versions      of Python and the packages
    shipped       the key of what is shipped at its end, whoever shipped it; empty where nothing is
    new           whether that is something else than at the end of the run before that ended well
    """

    name: str
    pipeline: str
    started: str
    status: Status = "running"
    reason: str = ""
    stopped_by: str = ""
    override: str = ""
    seconds: float = 0.0
    seed: int = 0
    command: str = ""
    commit: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    shipped: str = ""
    new: bool = False
    steps: tuple[StepRecord, ...] = ()

    def with_step(self, step: StepRecord) -> Self:
        """The same with a step in place of what was known of it."""
        return replace(self, steps=tuple(step if one.name == step.name else one for one in self.steps))

    def step(self, name: str) -> StepRecord | None:
        """The step of a name."""
        return next((one for one in self.steps if one.name == name), None)

    @property
    def verdict(self) -> str:
        """What the verdict decided; empty where it was not asked."""
        found = self.step("verdict")
        return "" if found is None else str(found.facts.get("decision", ""))

    @property
    def changed(self) -> bool:
        """Whether any step had to run."""
        return any(one.was_run for one in self.steps)

    def save(self, folder: Path) -> None:
        """Write it, whole or not at all."""
        save_json(folder / RECORD, {"format": FORMAT, **asdict(self)})

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The record of the run in a folder."""
        path = folder / RECORD
        content: Any = read_json(path, "JSON")
        try:
            if content.pop("format") != FORMAT:
                raise ValueError("another format")
            steps = tuple(StepRecord.from_json(one) for one in content.pop("steps"))
            return cls(**content, steps=steps)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise FormatError("this is not the record of a pipeline's run.", path=path) from None
