"""Which column of a table means what: the only place where roles are matched with columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from cldrank.decoding import guess
from cldrank.errors import FormatError, UsageError
from cldrank.wording import listed, some

_MOST_NAMED = 20


@dataclass(frozen=True)
class Role:
    """What a column can mean.

    name       by default also the name of the column
    required   whether a table without it is refused
    by_name    whether a column of that name has the role without being asked for
    """

    name: str
    required: bool = False
    by_name: bool = True


def resolve_columns(
    available: Sequence[str],
    given: Mapping[str, str] | None,
    roles: Collection[Role],
    where: str,
    *,
    shared: Collection[str] = (),
) -> dict[str, str]:
    """The column of each role that the table has.

    available   the columns of the table, or the paths of fields in them
    given       the columns that the user named by role
    where       the table, for messages
    shared      roles that may use a column which has another role already
    """
    given = given or {}
    known = [role.name for role in roles]
    for name, named in given.items():
        if name not in known:
            raise UsageError(f"`columns` names the role {name!r}; the roles are {listed(known)}.{guess(name, known)}")
        if root_column(available, named) is None:
            raise FormatError(f"there is no column {named!r} (for {name}); {columns_there(available)}.", path=where)
    columns, missing = {}, []
    for role in roles:
        column = given.get(role.name, role.name if role.by_name and role.name in available else None)
        if column is not None:
            columns[role.name] = column
        elif role.required:
            missing.append(role.name)
    if missing:
        raise missing_columns(missing, available, where)
    own: dict[str, str] = {}
    for name, column in columns.items():
        first = name if name in shared else own.setdefault(column, name)
        if first != name:
            raise UsageError(f"column {column!r} cannot be both {first} and {name}; name two columns.")
    return columns


def missing_columns(roles: Sequence[str], available: Sequence[str], where: str) -> FormatError:
    """The error for a table that lacks columns which it needs."""
    named, mapped = listed(map(repr, roles), "or"), ", ".join(f'"{role}": ...' for role in roles)
    right = "one" if len(roles) == 1 else "ones"
    return FormatError(
        f"there is no column {named}; {columns_there(available)}. Name the right {right} with `columns={{{mapped}}}`.",
        path=where,
    )


def columns_there(available: Sequence[str]) -> str:
    """The columns of a table, for messages."""
    return f"there are {some(available, _MOST_NAMED)}" if available else "there are no columns"


def root_column(available: Collection[str], path: str) -> str | None:
    """The column that the path of a field begins with; a column of that very name, dots included, comes first."""
    heads = [path, *(path[:at] for at in range(len(path) - 1, 0, -1) if path[at] == ".")]
    return next((head for head in heads if head in available), None)


def quoted(name: str) -> str:
    """A name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(text: str) -> str:
    """A text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"
