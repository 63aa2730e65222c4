"""The options that several commands share, so that they have the same names and explanations."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from cldrank.cli.option_names import CONVERTED, columns_by
from cldrank.cli.output import console, working
from cldrank.errors import CldrankError, DataError, FormatError, UsageError
from cldrank.files import check_writable
from cldrank.wording import some

if TYPE_CHECKING:
    from cldrank.data.dataset import RankingDataset
    from cldrank.rankers import Ranker


STDOUT = "-"


def spelled(usage: str, about: str, **more: Any) -> Any:
    """An option, from its names and what stands for its value, as help writes them: `--out -o FILE`."""
    *names, last = usage.split()
    if last.startswith("-"):
        return typer.Option(*names, last, help=about, **more)
    return typer.Option(*names, metavar=last, help=about, **more)


def of_reading(usage: str, about: str, **more: Any) -> Any:
    """An option about how files are read."""
    return spelled(usage, about, rich_help_panel="Reading files", show_default=False, **more)


Engine = Annotated[
    str,
    of_reading("--engine local|spark", "Where features are read and used: here, or on Spark. [default: local]"),
]
Master = Annotated[str, of_reading("--master URL", "Spark: where it runs. [default: local[*]]")]
Json = Annotated[bool, spelled("--json", "Print the result as JSON, for programs.")]
JsonFile = Annotated[
    str | None,
    spelled(
        "--json FILE",
        "Print the result as JSON, for programs; with a file, which ends in .json, write it there and print tables.",
        show_default=False,
    ),
]
Features = Annotated[
    list[str],
    spelled(
        "--features -f FILE",
        "The candidates: Parquet, CSV or LETOR files, a folder, a pattern, or a data set such as `msrd:test`. Repeat "
        "it for several.",
        show_default=False,
    ),
]
OptionalFeatures = Annotated[list[str] | None, spelled("--features -f FILE", "The candidates to align the cells to.")]
Seed = Annotated[int, spelled("--seed", "The same seed gives the same result.", min=0)]


class JsonFileCommand(TyperCommand):
    """A command whose `--json` may be followed by a file, which typer's options cannot say."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse options; `--json` without a file means standard output."""
        named = list(args)  # parsing takes them out
        try:
            return super().parse_args(ctx, _with_json_file(args))
        except Exception as error:
            if "unexpected extra argument" in str(error) and "--json" in named[:-1]:
                word = named[named.index("--json") + 1]
                raise UsageError(f"if {word} is the file of --json, write --json={word}, or end it in .json.") from None
            raise


def _with_json_file(arguments: Sequence[str]) -> list[str]:
    """The arguments with `--json` alone spelled out; only what ends in .json is its file, the rest is a ranker.

    >>> _with_json_file(["new", "--json", "old"]), _with_json_file(["new", "--json", "out.json"])
    (['new', '--json=-', 'old'], ['new', '--json', 'out.json'])
    >>> _with_json_file(["--", "--json"])  # a file of that name
    ['--', '--json']
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    found = list(arguments)
    for at in range(end):
        following = arguments[at + 1] if at + 1 < end else ""
        if arguments[at] == "--json" and not (following == "-" or following.endswith(".json")):
            found[at] = f"--json={STDOUT}"
    return found


def json_path(named: str | None) -> Path | None:
    """The file that `--json` names, if it names one."""
    return None if named in (None, STDOUT) else Path(str(named))


def check_outputs(outputs: Sequence[Path | None], inputs: Sequence[str | Path]) -> None:
    """Refuse an output that cannot be written, that is also an input, or that is named twice."""
    written = [path for path in outputs if path is not None]
    for path in written:
        try:
            check_writable(path)
        except CldrankError as error:
            raise UsageError(str(error)) from None
        if path.exists() and path.samefile("/dev/stdout"):
            console.stderr = True  # else messages would mix with the output
    places = [path.resolve() for path in written]
    for path, place in zip(written, places, strict=True):
        if places.count(place) > 1:
            raise UsageError(f"{path} would be written twice; name different files.")
        if path.is_file() and any(_reads(source, path) for source in inputs):
            raise UsageError(f"{path} is an input and would be overwritten; name another file to write.")


def _reads(source: str | Path, path: Path) -> bool:
    """Whether a source names a file, the folder that it lies in, or a pattern that it matches."""
    pattern = str(source)
    found = [Path(source)] if Path(source).exists() else map(Path, glob(pattern, recursive=True))  # noqa: PTH207
    return any(
        path.resolve().is_relative_to(one.resolve()) if one.is_dir() else one.exists() and one.samefile(path)
        for one in found
    )


def check_outside(output: Path | None, ranker: Path) -> None:
    """Refuse an output in the folder of a ranker, which is replaced as a whole and holds nothing else."""
    if output is None or ranker.is_file():  # a file of scores
        return
    if output.resolve().is_relative_to(ranker.resolve()):
        raise UsageError(
            f"{output} lies in the folder of the ranker ({ranker}), which holds nothing else; name another place."
        )


def check_folder(path: Path) -> None:
    """Refuse a folder that cannot be made or written to, before anything is computed."""
    nearest = next(one for one in (path, *path.parents) if one.exists())
    if not nearest.is_dir():
        raise UsageError(f"{nearest} is a file; name a folder to write.")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise UsageError(f"{path} cannot be written: the folder {nearest} is write-protected.")


def check_ranker_folder(path: Path) -> None:
    """The same for the folder of a ranker, which is replaced as a whole: it may hold a ranker, or nothing."""
    check_folder(path)
    if path.is_dir() and any(path.iterdir()) and not (path / "ranker.json").is_file():
        raise UsageError(f"{path} is not empty and holds no ranker; name another folder, or empty it first.")


# -- options that belong together: each field is one ---------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """How feature files are laid out."""

    column: Annotated[
        list[str] | None,
        of_reading(
            "--column ROLE=NAME",
            "Tables: which column is `query_id`, `doc_id`, `label` or `features` (one of lists, or several: a,b,c).",
        ),
    ] = None
    n_features: Annotated[
        int | None,
        of_reading("--n-features INTEGER", "LETOR: the number of features, if rows may leave out the last.", min=1),
    ] = None
    zero_based: Annotated[bool, of_reading("--zero-based", "LETOR: feature ids start at 0, not at 1.")] = False
    missing: Annotated[
        str | None,
        of_reading(
            "--missing VALUE|keep",
            "Fill in missing values with this, or keep them for trees.",
        ),
    ] = None

    def chosen(self) -> dict[str, Any]:
        """The arguments for functions that read features."""
        columns = named_columns(self.column, "--column")
        known = ("query_id", "doc_id", "label", "features")
        for role in columns or ():
            if role not in known:
                raise UsageError(
                    f"--column has the role {role!r}; the roles of features are {', '.join(known)}. Columns of a log "
                    "are named with --log-column."
                )
        options = {"n_features": self.n_features, "zero_based": self.zero_based, "missing": self._missing()}
        return {"columns": columns, **options}

    def spark_columns(self) -> dict[str, Any]:
        """The columns of `SparkDataset` by role."""
        given = self.chosen()
        for name in ("n_features", "zero_based", "missing"):
            if given.pop(name) not in (None, False):
                raise UsageError(f"`{name}` is for files that are read here, not by Spark.")
        columns: dict[str, Any] = dict(given["columns"] or {})
        if "label" in columns:
            raise UsageError("labels are not read on Spark; leave --column label=… out.")
        return columns

    def load(self, sources: list[str], *, cache: bool = False) -> RankingDataset:
        """The dataset that the sources hold."""
        from cldrank.data.loading import load

        arguments = self.chosen()
        with working(f"reading {some(sources)} …"):
            return load(sources, **arguments, cache=cache)

    def _missing(self) -> Any:
        """A number to fill in, or a word for `load` to judge."""
        try:
            return self.missing if self.missing is None else float(self.missing)
        except ValueError:
            return self.missing


@dataclass(frozen=True)
class Reading(Layout):
    """How to read feature files."""

    cache: Annotated[bool, of_reading("--cache/--no-cache", "Keep large files memory-mapped in the cache.")] = True

    def load(self, sources: list[str], *, cache: bool | None = None) -> RankingDataset:
        """The dataset that the sources hold."""
        return super().load(sources, cache=self.cache if cache is None else cache)


def place(engine: str, master: str) -> AbstractContextManager[Any]:
    """The session of Spark to compute on; None to compute here."""
    from cldrank.arguments import check_choice

    check_choice("engine", engine, ("local", "spark"))
    if engine == "local":
        if master != "local[*]":
            raise UsageError("--master says where Spark runs; say --engine spark, too.")
        return nullcontext()
    from cldrank.tables.spark_engine import spark_session

    return nullcontext(spark_session(master))


def load_for_ranker(ranker: Ranker, folder: Path, reading: Reading, sources: list[str]) -> RankingDataset:
    """Candidates with the features of a ranker, in its order; others are refused."""
    from cldrank.data.loading import feature_files

    names, dataset = ranker.feature_names, reading.load(sources)
    own = dataset.feature_names
    if own != names and names[0] == "f1" and own == names[: len(own)] and reading.n_features is None:
        if feature_files(sources)[0].format == "letor":  # whose rows may leave out the last features
            dataset = replace(reading, n_features=len(names)).load(sources)
    elif own != names and sorted(own) == sorted(names):
        places = [own.index(name) for name in names]
        dataset = dataset.with_features(places)
    check_ranker_features(ranker, folder, dataset, sources)
    return dataset


def check_ranker_features(ranker: Ranker, folder: Path, dataset: RankingDataset, sources: Sequence[str]) -> None:
    """Refuse features that are not those of a ranker, and say whose and in which file."""
    from cldrank.rankers import check_features

    try:
        check_features(ranker.feature_names, dataset.feature_names, of_file=True)
    except DataError as error:
        raise FormatError(f"does not suit the ranker in {folder}: {error}", path=some(sources)) from None


def load_features(features: list[str] | None) -> RankingDataset | None:
    """The candidates, where some are named; features may be missing, since these commands hardly look at them."""
    with renaming_columns():
        return Reading(missing="keep").load(features) if features else None


def renaming_columns() -> AbstractContextManager[None]:
    """For features in commands without options for their columns: errors advise to write them to another file."""
    return columns_by("--column", CONVERTED)


def named_columns(options: list[str] | None, name_of_option: str) -> dict[str, str | list[str]] | None:
    """The columns that options such as `query_id=qid` name, by their roles; None, if there are no such options."""
    if not options:
        return None
    columns: dict[str, str | list[str]] = {}
    for option in options:
        role, equals, name = option.partition("=")
        if not equals or not role or not name:
            raise UsageError(f"{name_of_option} {option!r} is not of the form ROLE=NAME, such as query_id=qid.")
        if role in columns:
            raise UsageError(f"{name_of_option} names two columns for {role}, {columns[role]} and {name}; name one.")
        columns[role] = name.split(",") if "," in name else name
    return columns
