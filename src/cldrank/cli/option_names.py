"""Messages in the words of the command line: a parameter in backticks becomes an option of the running command.

The library names parameters as Python spells them: "`first_position=0` …". Where the running command has an option
of that name, the shell reads "--first-position 0 …"; everything else between backticks stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from cldrank.errors import CldrankError

_NAMED = re.compile(r"`([A-Za-z]\w*)(?:=([^`]+))?`")
_COLUMNS = re.compile(r"`columns(?:=([^`]+))?`")
_ROLE = re.compile(r"""['"]?(\w+)['"]?: *(\[[^]]*\]|[^,}]+)""")  # an entry of `columns={"doc_id": "sku"}`
_OF_RAW_LOGS = ("first_position", "one_query", "time_zone", "exclude_users", "exclude_bots")
_RUNNING: list[click.Command] = []
_OTHERWISE = {  # parameters whose option has another name
    "dataset": "features",
    "event_weights": "event_weight",
    "events": "event",
    "margin": "safe_margin",
    "people": "person",
    "production": "production_feature",
    "propensities": "propensity",
    "renamed": "rename",
    "source": "from",
    "validation": "judge_share",
    "version": "for",
}


def remember_command(command: click.Command) -> None:
    """Let messages name the options of this command, which runs now."""
    _RUNNING[:] = [command]


def as_options(text: str, options: Mapping[str, Any] | None = None) -> str:
    """A message with the options of the running command in place of the parameters that it names.

    options   the options by name, as click describes them; by default those of the running command

    >>> from types import SimpleNamespace
    >>> depth, order = SimpleNamespace(is_flag=False), SimpleNamespace(is_flag=True)
    >>> known = {"--depth": depth, "--check-order": order, "--no-check-order": order, "--column": depth}
    >>> as_options("set `depth=4` or `check_order=False`; see `eta`.", known)
    'set --depth 4 or --no-check-order; see `eta`.'
    >>> as_options("map it with `columns={'doc_id': …}`.", known)
    'map it with --column doc_id=….'
    """
    if "`" not in text:
        return text
    known = _options() if options is None else options
    return _NAMED.sub(lambda match: _option(match[1], match[2], known) or match[0], text)


def dashed(name: str) -> str:
    """How the shell spells a parameter.

    >>> dashed("max_rejected")
    '--max-rejected'
    """
    return f"--{name.replace('_', '-')}"


@contextmanager
def columns_by(option: str) -> Iterator[None]:
    """Within the block, errors that advise `columns={"doc_id": …}` advise this option."""
    try:
        yield
    except CldrankError as error:
        text = _COLUMNS.sub(lambda match: _mapped(option, match[1]), str(error.args[0]))
        error.args = (text, *error.args[1:])
        raise


def _options() -> dict[str, Any]:
    """The options of the running command by name."""
    declared = [option for command in _RUNNING for option in command.get_params(click.Context(command))]
    return {name: option for option in declared for name in (*option.opts, *option.secondary_opts)}


def _option(name: str, value: str | None, known: Mapping[str, Any]) -> str | None:
    """The option of a parameter, with its value, if any; None where the command has no such option."""
    if name == "columns":
        option = next((spelled for spelled in ("--column", "--log-column") if spelled in known), None)
        return option and _mapped(option, value)
    denied = "no_" if value == "False" else ""
    names = (dashed(denied + name), dashed(denied + _OTHERWISE.get(name, name)))
    option, owner = next((spelled for spelled in names if spelled in known), None), ""
    if option is None and name in _OF_RAW_LOGS and "--log-column" in known:
        option, owner = dashed(name), " of `cldrank clicks aggregate`"
    if option is None:
        return None
    if value is None or (value in ("True", "False") and (owner or known[option].is_flag)):
        return f"{option}{owner}"
    return f"{option} {_typed(value)}{owner}"


def _mapped(option: str, value: str | None) -> str:
    """The option that maps columns, once for each column in `{"doc_id": "sku"}`."""
    roles = _ROLE.findall(value or "")
    return " ".join(f"{option} {role}={_typed(column)}" for role, column in roles) or option


def _typed(value: str) -> str:
    """A value as typed in a shell: without quotation marks, the parts of a list separated by commas.

    >>> _typed("'keep'"), _typed("(64, 32)"), _typed("[a, b]"), _typed("..."), _typed("0.5")
    ('keep', '64,32', 'a,b', '…', '0.5')
    """
    parts = [part.strip(" '\"") for part in value.strip("[]()").split(",")]
    return ",".join("…" if part == "..." else part for part in parts if part)
