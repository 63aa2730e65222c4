"""Every option of every command: each name means one thing everywhere, and raw logs are described in three places."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import click
import pytest

from cldrank import cli

RAW_LOG = {"--first-position", "--one-query", "--exclude-users", "--exclude-bots", "--memory-limit", "--time-zone"}
SAME = [  # what stands for the value, in words that mean the same
    {"FILE", "FOLDER", "PATH"},  # of --out: what the command writes
    {"INTEGER", "COUNT", "POSITION"},
    {"NAME=VALUES", "KEY=VALUE"},  # of --set: what is set
    {"NAME", "METHOD", "FORMAT", "MODEL", "a choice"},
]


def options(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """All options with the command that has them."""
    context = click.Context(command)
    if hasattr(command, "list_commands"):
        for name in command.list_commands(context):
            yield from options(command.get_command(context, name), (*path, name))
        return
    for parameter in command.get_params(context):
        if parameter.param_type_name == "option":
            yield " ".join(path), parameter


@pytest.fixture(scope="module")
def every() -> list[tuple[str, Any]]:
    return list(options(cli.app))


def test_a_short_name_belongs_to_one_option(every: list[tuple[str, Any]]) -> None:
    meanings = defaultdict(set)
    for _, option in every:
        long = next(name for name in option.opts if name.startswith("--"))
        for short in (name for name in option.opts if not name.startswith("--")):
            meanings[short].add(long)
    twice = {short: longs for short, longs in meanings.items() if len(longs) > 1}
    assert twice == {}


def kind_of_value(option: Any) -> str | None:
    """What stands for the value of an option; None where help does not say it."""
    if option.is_flag or option.metavar is None:
        return "a flag" if option.is_flag else None
    words = option.metavar.split("|")
    word = "a choice" if all(word.islower() for word in words) else option.metavar
    return next((min(same) for same in SAME if word in same), word)


def test_a_long_name_takes_the_same_kind_of_value_everywhere(every: list[tuple[str, Any]]) -> None:
    kinds: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for command, option in every:
        kind = kind_of_value(option)
        for name in (*option.opts, *option.secondary_opts) if kind else ():
            kinds[name][str(kind)].append(command)
    twice = {name: dict(of) for name, of in kinds.items() if len(of) > 1}
    assert twice == {}


def test_choices_are_the_same_or_fewer(every: list[tuple[str, Any]]) -> None:
    choices: dict[str, list[set[str]]] = defaultdict(list)
    for _, option in every:
        words = set((option.metavar or "").split("|"))
        if len(words) > 1 and all(word.islower() for word in words):
            choices[option.opts[0]].append(words)
    assert {name: of for name, of in choices.items() if set.union(*of) not in of} == {}


def test_raw_logs_are_described_where_they_are_counted(every: list[tuple[str, Any]]) -> None:
    commands = {command for command, option in every if RAW_LOG & set(option.opts)}
    assert commands == {"clicks aggregate", "clicks audit", "clicks import", "online analyse"}
