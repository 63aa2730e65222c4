"""`cldrank export`."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cldrank.cli import options
from cldrank.cli.derived import with_options
from cldrank.cli.output import console, print_json, print_line, say, working
from cldrank.errors import UsageError
from cldrank.wording import count, listed

if TYPE_CHECKING:
    from cldrank.export import Shipment
    from cldrank.rankers import Ranker

# formats by their files, so that `--help` need not import them
_FORMATS = [module.name for module in pkgutil.iter_modules([str(Path(__file__).parents[1] / "export" / "formats")])]


@dataclass(frozen=True)
class Shipping:
    """How to write a ranker, and what to compare it on, as the options say."""

    version: Annotated[
        str | None,
        options.spelled("--for VERSION", "The version of the engine that will load it; the newest if left out."),
    ] = None
    name: Annotated[str, options.spelled("--name", "What the engine is to call the model.")] = "cldrank"
    rename: Annotated[
        list[str] | None,
        options.spelled("--rename OURS=THEIRS", "What the engine calls a feature. Repeat it for several."),
    ] = None
    approximate: Annotated[
        bool,
        options.spelled(
            "--approximate", "Write what the format cannot say as nearly as it can; needs --check, which measures it."
        ),
    ] = False
    check: Annotated[
        list[str] | None,
        options.spelled(
            "--check FILE", "Replay the engine on these features, and compare its scores with the ranker's."
        ),
    ] = None

    def arguments(self, ranker: Ranker, folder: Path, reading: options.Reading) -> dict[str, Any]:
        """As `export_ranker` takes them."""
        return {
            "name": self.name,
            "version": self.version,
            "renamed": _renamed(self.rename, ranker.feature_names),
            "approximate": self.approximate,
            "check": options.load_for_ranker(ranker, folder, reading, self.check) if self.check else None,
        }


@with_options
def export(
    ranker: Annotated[Path, typer.Argument(help="The folder of a saved ranker.", show_default=False)],
    to: Annotated[
        str,
        options.spelled("--to FORMAT", f"{listed(_FORMATS, 'or')}.", show_default=False),
    ],
    out: Annotated[Path, options.spelled("--out -o PATH", "The file or the folder to write.", show_default=False)],
    *,
    shipping: Shipping,
    reading: options.Reading,
    as_json: options.Json = False,
) -> None:
    """Write a ranker for an engine, and prove that the engine will score as the ranker does.

    Example: `cldrank export ranker/ --to opensearch --for 3.6 --check test.parquet --out ltr/`
    """
    from cldrank.export import export_ranker
    from cldrank.export.format import format_named
    from cldrank.rankers import load_ranker

    options.check_outside(out, ranker)
    if format_named(to).one_file:
        options.check_outputs([out], [*(shipping.check or ()), ranker])
    else:
        options.check_folder(out)
    loaded = load_ranker(ranker)
    arguments = shipping.arguments(loaded, ranker, reading)
    with working(f"writing {out} …"):
        shipped = export_ranker(loaded, to, out, **arguments)
    if as_json:
        print_json(_facts(shipped, ranker))
    else:
        _print(shipped)


def _renamed(given: list[str] | None, features: Sequence[str]) -> dict[str, str]:
    """What each feature is called in the engine; the longest that fits is meant, for names may hold = themselves."""
    found: dict[str, str] = {}
    for one in given or ():
        fitting = [name for name in features if name and one.startswith(f"{name}=") and one != f"{name}="]
        ours = max(fitting, key=len, default=one.partition("=")[0])
        theirs = one[len(ours) + 1 :]
        if not ours or not theirs:
            raise UsageError(f"--rename {one!r} is not of the form OURS=THEIRS, such as f1=title_bm25.")
        if ours in found:
            raise UsageError(f"--rename says twice what {ours!r} is called.")
        found[ours] = theirs
    return found


def _print(shipped: Shipment) -> None:
    exported = shipped.exported
    for loss in exported.losses:
        console.print("[yellow]approximate:[/]", end=" ")
        print_line(loss)
    if shipped.parity is None:
        say("not compared: --check FEATURES replays the engine and shows the difference")
    else:
        print_line(str(shipped.parity))
    for file in shipped.kept:
        say(f"note: {shipped.path / file} was edited and is left as it is")
    for note in exported.notes:
        say(f"note: {note}")
    for file, left in shipped.to_do.items():
        if left:
            places = count(left, "placeholder")
            say(f"to do: {shipped.path / file} has {places} to complete (TODO); README.md has the steps")
    inside = "" if shipped.format.one_file else f" ({', '.join(exported.files)})"
    print_line(f"written for {shipped.target}: {shipped.path}{inside}")


def _facts(shipped: Shipment, ranker: Path) -> dict[str, object]:
    exported = shipped.exported
    return {
        "ranker": str(ranker),
        "format": shipped.format.name,
        "out": str(shipped.path),
        "files": [] if shipped.format.one_file else list(exported.files),
        "for": shipped.version,
        "kept": list(shipped.kept),
        "to_do": dict(shipped.to_do),
        "shift": exported.shift,
        "losses": list(exported.losses),
        "notes": list(exported.notes),
        "parity": shipped.parity.as_dict() if shipped.parity else None,
    }
