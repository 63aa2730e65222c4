"""Trials: a command is disturbed, looked at, and run again. Each returns what was wrong, in words, or nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from harness import KILLED, TOO_LARGE, Commands, Fault, junk
from scenarios import Scenario, State, copied

_NAMED = ("cannot be written", "No usable temporary directory")


class Bench:
    """One scenario with its states before and after, learned from undisturbed runs."""

    def __init__(self, commands: Commands, scene: Path, place: Path, scenario: Scenario) -> None:
        self.commands, self.place, self.scenario = commands, place, scenario
        self.before = copied(scene, place / "before")
        ended = commands.run(self.before, scenario.arguments(0))
        assert ended.code == 0, ended.output
        self.old = scenario.states(self.before)
        begin = time.perf_counter()
        self.calls = {two_steps: self._undisturbed(Fault(two_steps=two_steps)) for two_steps in (False, True)}
        self.seconds = (time.perf_counter() - begin) / 2  # that the command takes
        self.new = scenario.states(place / "undisturbed")
        assert self.old != self.new
        assert all(state is not None for state in self.new.values())

    def _undisturbed(self, fault: Fault) -> Mapping[str, int]:
        """The calls of a run that nothing disturbs, and that leaves nothing behind."""
        folder = copied(self.before, self.place / "undisturbed")
        ended = self.commands.run(folder, self.scenario.arguments(1), fault)
        assert ended.code == 0, ended.output
        assert junk(folder) == []
        return ended.calls

    def points(self) -> list[Fault]:
        """Every call that the command makes, before and after, folders swapped in one step and in two."""
        ways = (False, True) if self.calls[True] != self.calls[False] else (False,)
        return [
            Fault(call, number, after, two_steps=two_steps)
            for two_steps in ways
            for call, count in sorted(self.calls[two_steps].items())
            for number in range(1, count + 1)
            for after in (False, True)
        ]

    def trial(self, fault: Fault) -> str:
        """Disturb the command, look at what is there, and run it again undisturbed."""
        folder = copied(self.before, self.place / "disturbed")
        ended = self.commands.run(folder, self.scenario.arguments(1), fault)
        if ended.code is None:
            return "it hung"
        if ended.code not in (0, KILLED, TOO_LARGE) and not (fault.bytes is not None and ended.code == 1):
            return f"it ended with {ended.code}: {ended.output[-300:]}"
        if ended.code == 1 and ("fault in cldrank" in ended.output or "Traceback" in ended.output):
            return f"a full disk is told as {ended.output[-300:]}"
        if ended.code == 1 and not any(words in ended.output for words in _NAMED):
            return f"a full disk is not named: {ended.output[-300:]}"
        return self.judged(folder, "after the fault") or self.again(folder)

    def again(self, folder: Path) -> str:
        """Run the command again, which must mend everything."""
        ended = self.commands.run(folder, self.scenario.arguments(1))
        if ended.code != 0:
            return f"the next run ended with {ended.code}: {ended.output[-300:]}"
        if self.scenario.states(folder) != self.new:
            return "the next run gave another result"
        return f"the next run left {left}" if (left := junk(folder)) else ""

    def judged(self, folder: Path, when: str) -> str:
        """Whether every output is the old, the new or, where it grows, readable."""
        try:
            states: dict[str, State] = self.scenario.states(folder)
        except Exception as error:
            return f"{when} an output cannot be read: {error!r}"
        if self.scenario.grows:
            return ""
        bad = [name for name, state in states.items() if state not in (self.old[name], self.new[name])]
        return f"{when} {', '.join(bad)} is neither the old nor the new" if bad else ""


def random_kills(seed: int, count: int, longest: float) -> Iterator[Fault]:
    """Kills after random times, and in the middle of writing after a random number of bytes."""
    random = np.random.default_rng(seed)
    for number in range(count):
        if number % 2:
            yield Fault(bytes=int(random.integers(0, 40_000)), deadly=True)
        else:
            yield Fault(seconds=float(random.uniform(0.0, longest)))


def full_disks() -> list[Fault]:
    """Disks that take nothing, a little, and most of it."""
    return [Fault(bytes=size) for size in (100, 700, 4096, 20_000)]
