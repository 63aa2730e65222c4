"""How commands print: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.segment import Segment

from cldrank.errors import UsageError
from cldrank.files import replacing

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.progress import Progress

_LONGEST = 2000  # letters of a message
_COMMANDS = re.compile("[\x7f-\x9f]")  # the controls that JSON may hold as they are


class SafeConsole(Console):
    r"""A console that writes out control characters, so that no text of the data can command the terminal.

    >>> SafeConsole(width=40).print("\x1b[31mred")
    \x1b[31mred
    """

    def render(self, *given: Any, **options: Any) -> Iterator[Segment]:
        """The segments to print; cursor movements of progress bars are segments of their own."""
        from cldrank.documents.document import visible

        for piece in super().render(*given, **options):
            yield piece if piece.control else Segment(visible(piece.text), piece.style)


# highlight=False: numbers keep their plain colour; emoji=False: `mq2008:train:` is not a tram; soft_wrap: a message is
# a single line however narrow the terminal
console = SafeConsole(highlight=False, emoji=False)
messages = SafeConsole(stderr=True, highlight=False, emoji=False, soft_wrap=True)


def print_error(text: str) -> None:
    """Print an error on standard error; very long paths and names are cut."""
    messages.print("[bold red]error:[/]", end=" ")
    messages.print(text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …", markup=False)


def print_warning(text: str) -> None:
    """Print a warning on standard error: something to know before a result is used."""
    messages.print("[yellow]warning:[/]", end=" ")
    messages.print(text, markup=False)


def say(text: str) -> None:
    """Print a remark, which is not a result, on standard error."""
    messages.print(text, markup=False, style="dim")


def print_json(value: Any, *, one_line: bool = False) -> None:
    """A result for programs: a JSON document, valid everywhere (without NaN), on a single line on request."""
    from cldrank.decoding import plain

    text = json.dumps(plain(value), indent=None if one_line else 2, ensure_ascii=False, allow_nan=False)
    target = sys.stderr if console.stderr else sys.stdout
    target.write(_COMMANDS.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n")


def print_title(text: str) -> None:
    """Print the title of the table that follows."""
    console.print(text, style="bold", markup=False)


def print_line(text: str) -> None:
    """Print a line of a result, which stays whole however narrow the terminal."""
    console.print(text, markup=False, soft_wrap=True)


def save_table(table: pa.Table, path: Path) -> None:
    """Write a Parquet file, whole or not at all."""
    import pyarrow.parquet as pq

    with replacing(path) as temporary:
        pq.write_table(table, temporary)


def check_parquet_name(path: Path) -> None:
    """Refuse the name of a Parquet file without its ending."""
    if path.suffix not in (".parquet", ".pq"):
        raise UsageError(f"{path}: the file to write must end in .parquet.")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table below its title, if any: the first column is aligned left, the others right."""
    from cldrank.documents import Document, Table, render_terminal

    render_terminal(Document(title, [Table(columns, rows)]), console)


@contextmanager
def working(text: str) -> Iterator[Callable[[str], None]]:
    """Show on a terminal that work is going on; the block gets a function that changes the text."""
    from rich.text import Text

    with messages.status(Text(text)) as status:
        yield lambda words: status.update(Text(words))


def progress_bar(*, shown: bool = True) -> Progress:
    """A progress bar on standard error, with the time left; hidden unless that is a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=messages, disable=not (shown and messages.is_terminal))


@contextmanager
def counting(what: str, total: int, *, shown: bool = True) -> Iterator[Callable[..., None]]:
    """A progress bar, as a function of the number done and, if they change, the words beside the bar and the total."""
    with progress_bar(shown=shown) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done, words=what, total=total: bar.update(task, completed=done, description=words, total=total)
