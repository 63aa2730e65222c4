"""Groups of options that several commands share, each a base class of those commands; checks of files to write."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cldrank.cli.commands import declared, option
from cldrank.cli.option_names import columns_by
from cldrank.cli.output import console, working
from cldrank.errors import CldrankError, DataError, FormatError, UsageError
from cldrank.files import check_writable, recover_folder
from cldrank.wording import some

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.propensity.segment_propensities import Curve
    from cldrank.rankers import Ranker

of_reading = partial(option, panel="Reading files")
_FEATURE_ROLES = ("query_id", "doc_id", "label", "features")
CANDIDATES = "The candidates: Parquet, CSV or LETOR files, a folder, a pattern, or a set such as `msrd:test`."


@declared
class JsonOutput:
    """How a result is printed."""

    as_json: bool = option("--json", "Print the result as JSON, for programs.", False)


@declared
class Layout:
    """How feature files are laid out."""

    column: list[str] | None = of_reading(
        "ROLE=NAME", "Tables of features: which column is `query_id`, `doc_id`, `label` or `features` (several: a,b,c)."
    )
    n_features: int | None = of_reading("INTEGER", "LETOR: how many features, if rows may leave out the last.", min=1)
    zero_based: bool = of_reading("", "LETOR: feature ids start at 0, not at 1.", False)
    missing: str | None = of_reading("VALUE|keep", "Fill in missing values with this, or keep them for trees.")

    def layout(self) -> dict[str, Any]:
        """The arguments for functions that read features."""
        columns = named_columns(self.column, "--column")
        for role in columns or ():
            if role not in _FEATURE_ROLES:
                raise UsageError(
                    f"--column has the role {role!r}; the roles of features are {', '.join(_FEATURE_ROLES)}. Columns "
                    "of a log are named with --log-column."
                )
        missing: Any = self.missing
        with suppress(ValueError):  # a word is for `load` to judge
            missing = None if self.missing is None else float(self.missing)
        return {"columns": columns, "n_features": self.n_features, "zero_based": self.zero_based, "missing": missing}

    def spark_columns(self) -> dict[str, Any]:
        """The columns of `SparkDataset` by role."""
        given = self.layout()
        for name in ("n_features", "zero_based", "missing"):
            if given[name] is not None and given[name] is not False:
                raise UsageError(f"`{name}` is for files that are read here, not by Spark.")
        columns: dict[str, Any] = dict(given["columns"] or {})
        if "label" in columns:
            raise UsageError("labels are not read on Spark; leave --column label=… out.")
        return columns

    def load(self, sources: list[str], *, cache: bool = False) -> RankingDataset:
        """The dataset that the sources hold."""
        from cldrank.data.loading import load

        arguments = self.layout()
        with working(f"reading {some(sources)} …"):
            return load(sources, **arguments, cache=cache)


@declared
class Reading(Layout):
    """How to read feature files."""

    cache: bool = of_reading("--cache/--no-cache", "Keep large files memory-mapped in the cache.", True)

    def load(self, sources: list[str], *, cache: bool | None = None) -> RankingDataset:
        """The dataset that the sources hold."""
        return super().load(sources, cache=self.cache if cache is None else cache)

    def load_for_ranker(self, ranker: Ranker, folder: Path, sources: list[str]) -> RankingDataset:
        """Candidates with the features of a ranker, in its order; others are refused."""
        from cldrank.data.loading import feature_files

        names, dataset = ranker.feature_names, self.load(sources)
        own = dataset.feature_names
        if own != names and names[0] in ("f0", "f1") and own == names[: len(own)] and self.n_features is None:
            if feature_files(sources)[0].format == "letor":  # whose rows may leave out the last features
                dataset = replace(self, n_features=len(names)).load(sources)
        elif own != names and sorted(own) == sorted(names):
            dataset = dataset.with_features([own.index(name) for name in names])
        check_ranker_features(ranker, folder, dataset, sources)
        return dataset


@declared
class CandidateReading(Reading):
    """Candidates to align cells with, if --features names any."""

    features: list[str] | None = option("-f FILE", f"{CANDIDATES} Only these are counted.")

    def candidates(self) -> RankingDataset | None:
        """The candidates named by --features; values may be missing, since such commands hardly use them."""
        return replace(self, missing=self.missing or "keep").load(self.features) if self.features else None


@declared
class ComputePlace:
    """Where the work is done."""

    engine: Literal["local", "spark"] = of_reading("local|spark", "Read and compute here, or on Spark.", "local")
    master: str = of_reading("URL", "Spark: where it runs.", "local[*]")

    def session(self) -> AbstractContextManager[Any]:
        """The Spark session to compute on; None to compute here."""
        self.check_engine()
        if self.engine == "local":
            return nullcontext()
        from cldrank.tables.spark_engine import spark_session

        return nullcontext(spark_session(self.master))

    def check_engine(self) -> None:
        """Refuse a master of Spark without Spark."""
        if self.engine == "local" and self.master != "local[*]":
            raise UsageError("--master says where Spark runs; say --engine spark, too.")


# -- clicks and propensities ---------------------------------------------------------------------------------------


def event_weight_option() -> Any:
    """Declare --event-weight."""
    return of_reading("NAME=WEIGHT", "What each event is worth: `purchase=10`, say.")


def numbers_by_name(named: list[str] | None, name_of_option: str) -> dict[str, float]:
    """The numbers that options such as `purchase=10` give, by name."""
    numbers: dict[str, float] = {}
    for text in named or ():
        name, _, number = text.partition("=")
        try:
            value = float(number)
        except ValueError:
            raise UsageError(f"{name_of_option} {text!r} is not of the form NAME=NUMBER, as purchase=10 is.") from None
        if numbers.setdefault(name, value) != value:
            raise UsageError(f"{name_of_option} gives {name} two numbers, {numbers[name]:g} and {number}; choose one.")
    return numbers


@declared
class Window:
    """Which days of a folder of days are read."""

    last: str | None = of_reading("DAYS", "Read only the last days of a folder of days, such as 28d or 4w.")
    until: str | None = of_reading("DAY", "The last day of --last, if not the newest.")

    def window(self) -> dict[str, Any]:
        """The options of the window that were given."""
        return {name: value for name in ("last", "until") if (value := getattr(self, name)) is not None}


@declared
class LogReading(Window):
    """How to read clicks that may be a raw log; logs of odd layouts are aggregated first."""

    log_column: list[str] | None = of_reading(
        "ROLE=NAME", "A raw log: which column is `session_id`, … and, if it has segments, `segment`."
    )

    event_weight: list[str] | None = event_weight_option()

    def log_arguments(self) -> dict[str, Any]:
        """The arguments for `ClickTable.read`; none, if all are defaults, so that files of cells can be read too."""
        columns, weights = log_columns(self.log_column), numbers_by_name(self.event_weight, "--event-weight")
        given = {"columns": columns, "event_weights": weights}
        return {**{name: values for name, values in given.items() if values}, **self.window()}


@declared
class Sources(Reading, LogReading):
    """Candidates, clicks on them, and how likely positions are examined."""

    features: list[str] = option("-f FILE", f"{CANDIDATES} Repeat it for several.", ...)
    clicks: list[str] | None = option("-c FILE", "The clicks: a file of cells, a folder of days, or raw logs.")
    propensity: str | None = option(
        "-p power:ETA|FILE",
        "Examination probabilities: power:1.0 for 1/position, a file that `cldrank propensity estimate` wrote, or "
        "none; of segments also phone=power:1.2,desktop=rho.json.",
    )
    trust_propensity: bool = option("", "Use --propensity even where this log's own pages refute it.", False)
    depth: int | None = option("POSITION", "Treat every page as if it ended here.", min=1)
    ratings: Path | None = option(
        "FILE", "Ratings beside the clicks, by people or machines: Parquet, CSV, Quepid's CSV or TREC qrels."
    )
    person: list[str] | None = option("RATER", "A rater of --ratings who is a person; all others are machines.")
    rating_column: list[str] | None = of_reading(
        "ROLE=NAME", "A table of ratings: which column is `query_id`, `doc_id`, `rating` or `rater`."
    )

    def clicks_on(self, dataset: RankingDataset | None, session: Any = None) -> ClickTable:
        """The clicks that are named, beside ratings if there are, on the candidates of a dataset.

        A raw log is counted on Spark, given a session.
        """
        if self.ratings is None and (self.person or self.rating_column):
            raise UsageError("`people` and `rating_column` are about ratings; name these with --ratings.")
        if self.ratings is not None and session is not None:
            raise UsageError("--ratings are read here, not on Spark; leave --engine spark or --ratings out.")
        from cldrank.clicks.table import ClickTable

        named = self.clicks or []
        engine: dict[str, Any] = {}
        if session is not None:
            from cldrank.tables.spark_engine import Spark as SparkEngine

            engine = {"engine": SparkEngine(session)}
        with working("reading clicks …"), columns_by("--log-column"):
            table = ClickTable.read(named[0] if len(named) == 1 else named, dataset, **self.log_arguments(), **engine)
        if self.depth is not None and self.depth > table.depth:
            raise UsageError(
                f"--depth {self.depth} is deeper than the clicks, which reach down to position {table.depth}."
            )
        return self._rated(table if self.depth is None else table.first(self.depth))

    def _rated(self, table: ClickTable) -> ClickTable:
        """The clicks beside the ratings that are named, if any."""
        if self.ratings is None:
            return table
        columns = single_columns(self.rating_column, "--rating-column")
        with working("reading ratings …"), columns_by("--rating-column"):
            return table.rated(self.ratings, columns=columns, people=tuple(self.person or ()))

    def curve_for(self, table: ClickTable) -> Curve | None:
        """The propensities (or slopes and bases) of the positions of clicks; None where none are named."""
        from cldrank.propensity import SegmentPropensities
        from cldrank.propensity.curve_files import parse_curve

        if self.propensity is None:
            return None
        curve = parse_curve(self.propensity, table)
        if not isinstance(curve, SegmentPropensities) and len(curve) < table.depth:
            raise UsageError(
                f"{self.propensity} reaches down to position {len(curve)}, the clicks to {table.depth}; "
                f"--depth {len(curve)} treats pages as if they ended there."
            )
        return curve.trusted() if self.trust_propensity else curve


def check_ranker_features(ranker: Ranker, folder: Path, dataset: RankingDataset, sources: Sequence[str]) -> None:
    """Refuse features other than those of the ranker; the error names the ranker and the file."""
    from cldrank.rankers import check_features

    try:
        check_features(ranker.feature_names, dataset.feature_names, of_file=True)
    except DataError as error:
        raise FormatError(f"does not suit the ranker in {folder}: {error}", path=some(sources)) from None


def ranked_by(named: str, dataset: RankingDataset) -> tuple[NDArray[Any], dict[str, Any]]:
    """The score of each candidate by a ranker's folder, a file of scores or column:NAME, and where it comes from."""
    kind, _, name = named.partition(":")
    if kind == "column":
        if name not in dataset.feature_names:
            raise UsageError(f"there is no feature {name!r} to rank by; there are {some(dataset.feature_names, 5)}.")
        return dataset.features[:, dataset.feature_names.index(name)], {"kind": "column", "source": name}
    recover_folder(named)
    if Path(named).is_dir():
        from cldrank.rankers import load_ranker

        ranker, own = load_ranker(named), dataset.feature_names
        if own != ranker.feature_names and set(own) >= set(ranker.feature_names):
            dataset = dataset.with_features([own.index(name) for name in ranker.feature_names])
        return ranker.predict(dataset), {"kind": "ranker", "source": named, **ranker.provenance.as_dict()}
    from cldrank.data.scores import load_scores

    return load_scores(named, dataset), {"kind": "scores", "source": named}


def named_columns(options: list[str] | None, name_of_option: str) -> dict[str, str | list[str]] | None:
    """The columns that options such as `query_id=qid` name, by their roles; None, if there are no such options."""
    columns: dict[str, str | list[str]] = {}
    for text in options or ():
        role, _, name = text.partition("=")
        if not role or not name:
            raise UsageError(f"{name_of_option} {text!r} is not of the form ROLE=NAME, such as query_id=qid.")
        if role in columns:
            raise UsageError(f"{name_of_option} names two columns for {role}, {columns[role]} and {name}; choose one.")
        columns[role] = name.split(",") if "," in name else name
    return columns or None


def log_columns(named: list[str] | None) -> dict[str, Any] | None:
    """The columns of a log that `--log-column query_id=qid` names, by their roles."""
    return single_columns(named, "--log-column")


def single_columns(named: list[str] | None, name_of_option: str) -> dict[str, Any] | None:
    """The columns that an option names by their roles, one for each."""
    columns = named_columns(named, name_of_option)
    for role, name in (columns or {}).items():
        if not isinstance(name, str):
            raise UsageError(f"{name_of_option} {role} takes one column, not several.")
    return columns


# -- files to write ------------------------------------------------------------------------------------------------


def named(*paths: Path | None) -> list[Path]:
    """Those of the paths that were named."""
    return [path for path in paths if path is not None]


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
    inputs = [Path(source)] if Path(source).exists() else map(Path, glob(str(source), recursive=True))  # noqa: PTH207
    return any(
        path.resolve().is_relative_to(read.resolve()) if read.is_dir() else read.exists() and read.samefile(path)
        for read in inputs
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
    nearest = next(place for place in (path, *path.parents) if place.exists())
    if not nearest.is_dir():
        raise UsageError(f"{nearest} is a file; name a folder to write.")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise UsageError(f"{path} cannot be written: the folder {nearest} is write-protected.")


def check_ranker_folder(path: Path) -> None:
    """Refuse a folder that cannot be written to, or that holds anything but a ranker: it is replaced as a whole."""
    check_folder(path)
    if path.is_dir() and any(path.iterdir()) and not (path / "ranker.json").is_file():
        raise UsageError(f"{path} is not empty and holds no ranker; name another folder, or empty it first.")
