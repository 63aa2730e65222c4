"""`cldrank export`."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cldrank.cli import options
from cldrank.cli.commands import argument, declared, option
from cldrank.cli.output import console, print_json, print_line, say, working
from cldrank.errors import UsageError
from cldrank.wording import count, listed

if TYPE_CHECKING:
    from cldrank.export import Shipment

# formats by their files, so that `--help` need not import them
_FORMATS = [module.name for module in pkgutil.iter_modules([str(Path(__file__).parents[1] / "export" / "formats")])]


@declared
class ExportCommand(options.Reading, options.JsonOutput):
    """Write a ranker for an engine, and replay the files by the arithmetic that the engine documents.

    Example: `cldrank export ranker/ --to opensearch --for 3.6 --check test.parquet --out ltr/`
    """

    ranker: Path = argument("RANKER", "The folder of a saved ranker.")
    to: str = option("FORMAT", f"{listed(_FORMATS, 'or')}.", ...)
    out: str = option("-o PATH", "The file or the folder to write.", ...)  # a Path would lose a slash at its end
    version: str | None = option("--for VERSION", "The version of the engine; by default the newest known.")
    name: str = option("TEXT", "What the engine is to call the model.", "cldrank")
    rename: list[str] | None = option("OURS=THEIRS", "What the engine calls a feature. Repeat it for several.")
    featureset: Path | None = option("FILE", "Define features as the file does that they were collected with.")
    approximate: bool = option(
        "", "Allow an approximation where the format cannot be exact; needs --check, which measures it.", False
    )
    check: list[str] | None = option(
        "FILE", "Replay the files on these features, and compare the scores with the ranker's."
    )

    def run(self) -> None:
        """Write the ranker's files, or nothing if the engine would score otherwise."""
        from cldrank.export import export_ranker
        from cldrank.export.format import format_named
        from cldrank.rankers import load_ranker

        out = Path(self.out)
        options.check_outside(out, self.ranker)
        if not format_named(self.to).one_file:
            options.check_folder(out)
        elif self.out.endswith("/"):
            raise UsageError(f"--to {self.to} writes a file; name it: --out {self.out}ranker.{self.to}, say.")
        else:
            options.check_outputs([out], [*(self.check or ()), self.ranker])
        ranker = load_ranker(self.ranker)
        renamed = _renamed(self.rename)
        check = self.load_for_ranker(ranker, self.ranker, self.check) if self.check else None
        names = ("name", "version", "approximate", "featureset")
        wanted: dict[str, Any] = {name: getattr(self, name) for name in names}
        with working(f"writing {self.out} …"):
            shipped = export_ranker(ranker, self.to, out, renamed=renamed, check=check, **wanted)
        if self.as_json:
            print_json({"ranker": str(self.ranker), **shipped.as_dict()})
        else:
            _print(shipped)


def _renamed(given: Sequence[str] | None) -> dict[str, str]:
    """The names of features in the engine."""
    renamed: dict[str, str] = {}
    for text in given or ():
        ours, _, theirs = text.partition("=")
        if not ours or not theirs or ours in renamed:
            raise UsageError(f"--rename {text!r} must be OURS=THEIRS, such as f1=title_bm25, once for each feature.")
        renamed[ours] = theirs
    return renamed


def _print(shipped: Shipment) -> None:
    exported = shipped.exported
    for loss in exported.losses:
        console.print("[yellow]approximate:[/]", end=" ")
        print_line(loss)
    if shipped.parity is None:
        say("not compared: --check FEATURES replays the engine and shows the difference")
    else:
        print_line(str(shipped.parity))
    kept = [f"{shipped.path / file} was edited and is left as it is" for file in shipped.kept]
    for note in (*kept, *exported.notes):
        say(f"note: {note}")
    for file, left in shipped.to_do.items():
        if left:
            say(f"to do: {shipped.path / file} has {count(left, 'placeholder')} (TODO); README.md has the steps")
    inside = "" if shipped.format.one_file else f" ({', '.join(exported.files)})"
    print_line(f"written for {shipped.target}: {shipped.path}{inside}")
