"""`export_ranker`: write a ranker for an engine, replay the written files, and compare the scores with the ranker's.

`export.json` in a folder says what was written, with a digest of every file, so that the next export knows what users
have completed since, and what is theirs.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from cldrank._typing import IntArray
from cldrank._version import __version__
from cldrank.collect.featureset import FeatureSet
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, UsageError
from cldrank.export.format import Exported, ExportFormat, ExportRequest, format_named
from cldrank.export.replay import NamedTable
from cldrank.files import replacing, replacing_folder
from cldrank.rankers import Ranker, check_features
from cldrank.wording import count, kind_of, some

_RECORD = "export.json"
_NOBODYS = {"__pycache__", ".DS_Store"}
_TOLERANCE = 1e-4  # of the spread of scores: engines compute in float32, over hundreds of features or trees
_ROUNDING = 1e-5  # of the largest score: what float32 can do to it
_PLACEHOLDER = re.compile(rb"TODO(?!:)")  # `TODO: …` is a comment beside a placeholder
_SAMPLE = 200_000  # about how many rows a replay looks at


@dataclass(frozen=True)
class Parity:
    """Two scores of the same candidates, compared.

    largest     the largest absolute difference, once a constant that the format cannot hold is added
    scale       the largest absolute score
    spread      from the least to the greatest score, to judge the difference by
    swapped     pairs of candidates of the same query that the two scores put in opposite order
    tied        pairs that only one of the two scores ties
    """

    rows: int
    queries: int
    largest: float
    scale: float
    spread: float
    swapped: int
    tied: int

    @classmethod
    def of(cls, own: ArrayLike, engine: ArrayLike, offsets: IntArray, shift: float = 0.0) -> Parity:
        """The ranker's scores and the engine's; `shift` is what the engine's lack.

        >>> Parity.of([3.0, 2.0, 1.0, 5.0], [3.0, 1.0, 2.0, 5.5], np.array([0, 3, 4]))
        Parity(rows=4, queries=2, largest=1.0, scale=5.0, spread=4.0, swapped=1, tied=0)
        """
        ours, theirs = np.asarray(own, dtype=np.float64), np.asarray(engine, dtype=np.float64)
        swapped = tied = 0
        for start, end in zip(offsets[:-1], offsets[1:], strict=True):
            own_scores, other = ours[start:end], theirs[start:end]
            for place in range(len(other) - 1):  # a row of the table of pairs at a time: a query may be long
                first = np.sign(own_scores[place] - own_scores[place + 1 :])
                second = np.sign(other[place] - other[place + 1 :])
                swapped += int(np.count_nonzero(~(first * second >= 0)))  # NaN compares with nothing
                tied += int(np.count_nonzero((first == 0) != (second == 0)))
        return cls(
            rows=len(ours),
            queries=len(offsets) - 1,
            largest=float(np.abs(ours - (theirs + shift)).max(initial=0.0)),
            scale=float(np.abs(ours).max(initial=0.0)),
            spread=float(np.ptp(ours)) if len(ours) else 0.0,
            swapped=swapped,
            tied=tied,
        )

    @property
    def same_order(self) -> bool:
        """Whether every query is ranked alike."""
        return not self.swapped and not self.tied

    def __str__(self) -> str:
        order = "no two candidates change order"
        if not self.same_order:
            order = f"{count(self.swapped, 'pair')} in opposite order, {count(self.tied, 'pair')} tied by only one"
        return (
            f"{count(self.rows, 'row')} of {count(self.queries, 'query', 'queries')}: largest difference "
            f"{self.largest:.2g} (scores up to {self.scale:.3g}), {order}"
        )

    def as_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return {**asdict(self), "same_order": self.same_order}


@dataclass(frozen=True, eq=False, repr=False)
class Shipment:
    """What was written where, and how it compares.

    version  of the engine; "" where versions do not matter
    kept     files that users had completed, and that were left as they are
    to_do    how many placeholders are left in each file with definitions
    parity   the engine's scores against the ranker's on the features that were given; None without them

    >>> import tempfile
    >>> from cldrank import scaling
    >>> from cldrank.rankers import LinearRanker
    >>> ranker = LinearRanker(feature_names="ab", scaling=scaling.fit(None, [[1, 2]]), coefficients=[1, 2])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export_ranker(ranker, "solr", f"{folder}/solr").target
    'Solr 10.0'
    """

    format: ExportFormat
    version: str
    path: Path
    exported: Exported
    kept: tuple[str, ...] = ()
    to_do: Mapping[str, int] = field(default_factory=dict)
    parity: Parity | None = None

    @property
    def target(self) -> str:
        """The engine with its version."""
        return self.format.engine(self.version)

    def as_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        exported, is_file = self.exported, self.format.one_file
        return {
            "format": self.format.name,
            "out": str(self.path),
            "files": [] if is_file else list(exported.files),
            "for": self.version,
            "kept": list(self.kept),
            "to_do": dict(self.to_do),
            **{name: getattr(exported, name) for name in ("unmatched", "shift", "losses", "notes")},
            "parity": None if self.parity is None else self.parity.as_dict(),
        }

    def __repr__(self) -> str:
        proof = "not checked" if self.parity is None else str(self.parity)
        return f"Shipment({self.target}, in {self.path}; {proof})"


def export_ranker(
    ranker: Any,
    to: str,
    out: str | PathLike[str],
    *,
    name: str = "cldrank",
    version: str | None = None,
    renamed: Mapping[str, str] | None = None,
    approximate: bool = False,
    featureset: str | PathLike[str] | None = None,
    check: RankingDataset | None = None,
) -> Shipment:
    """Write a ranker in the form that an engine reads: a file or a folder, there whole or not at all.

    ranker       a ranker, or a fitted method
    to           the format, a key of `cldrank.export.export_formats()`, such as "onnx" or "opensearch"
    name         what the engine is to call the model
    version      of the engine, such as "3.6"; the newest known by default
    renamed      the engine's name of each feature that it calls otherwise
    approximate  write the nearest approximation if the format cannot express the ranker exactly; needs `check`
    featureset   the file that the features were collected with, which defines them
    check        features to replay the files on (a sample of queries above 400,000 rows); nothing is written if the
                 scores differ from the ranker's

    >>> import tempfile
    >>> from cldrank import scaling
    >>> from cldrank.rankers import LinearRanker
    >>> data = RankingDataset.from_arrays([[3, 1], [1, 2], [0, 9]], [1, 1, 1], feature_names="ab")
    >>> ranker = LinearRanker(feature_names="ab", scaling=scaling.fit(None, data.features), coefficients=[1, 2])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     shipped = export_ranker(ranker, "solr", f"{folder}/solr", check=data)
    >>> shipped
    Shipment(Solr 10.0, in ...solr; 3 rows of 1 query: largest difference 0 (scores up to 18), no two candidates
    change order)
    """
    ranker = getattr(ranker, "ranker_", ranker)
    if not isinstance(ranker, Ranker):
        raise UsageError(f"a ranker or a fitted method can be exported, not {kind_of(ranker)}.")
    engine = format_named(to)
    if approximate and check is None:
        raise UsageError("`approximate` needs features to measure the difference on; name some with `check`.")
    if version is not None and not engine.newest:
        raise UsageError(f"{engine.label} is the same for all versions; leave `version` out.")
    defined = None if featureset is None else FeatureSet.read(featureset, to)
    trained = ranker.provenance.featureset
    if defined is not None and trained not in ("", str(defined)):
        raise UsageError(f"`featureset` is {defined}, and the ranker was trained on {trained}; export with that file.")
    options: dict[str, Any] = {"name": name, "version": version, "approximate": approximate, "featureset": defined}
    request = ExportRequest(renamed=dict(renamed or {}), **options)
    exported = engine.export(ranker, request)
    if check is not None and not engine.takes_negative:
        exported = replace(exported, notes=(*exported.notes, *_below_0(check)))
    path = Path(out)
    if engine.one_file and not path.suffix:
        raise UsageError(
            f"{path} has no ending, and {engine.label} takes a file; name it {path.name}.{engine.name}, say."
        )
    kept = {} if engine.one_file else _completed(path, engine, request, exported)
    parity = None if check is None else _checked(ranker, engine, request, exported, check)
    shipment = Shipment(engine, version or engine.newest, path, exported, tuple(kept), parity=parity)
    if engine.one_file:
        with replacing(path) as temporary:
            temporary.write_bytes(exported.files["model"])
        return shipment
    files = {**exported.files, **kept, _RECORD: _record(ranker, request, shipment)}
    with replacing_folder(path) as folder:
        for file, content in files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(content)
    return replace(shipment, to_do={file: len(_PLACEHOLDER.findall(files[file])) for file in exported.to_fill})


def _below_0(check: RankingDataset) -> list[str]:
    """A note on features with values below 0, which the engine cannot compute."""
    negative = np.any([(part.features < 0).any(axis=0) for part in check.blocks()], axis=0)
    names = [check.feature_names[place] for place in np.flatnonzero(negative)]
    told = (
        "a feature is the score of a query here, which cannot be negative; below 0 in these features: "
        f"{some(names, most=3)}; train on values that the engine can compute"
    )
    return [told] if names else []


def _checked(
    ranker: Ranker, engine: ExportFormat, request: ExportRequest, exported: Exported, data: RankingDataset
) -> Parity:
    """The engine's scores of a sample of the queries against the ranker's; refused where they differ."""
    check_features(ranker.feature_names, data.feature_names)
    sample = data[:: max(1, data.n_rows // _SAMPLE)]
    scores = engine.replay(exported.files, NamedTable(exported.names, sample.features), request)
    parity = Parity.of(ranker.predict(sample), scores, sample.offsets, exported.shift)
    if exported.losses or parity.largest <= (_TOLERANCE * parity.spread or _ROUNDING * parity.scale):
        return parity
    if not parity.largest <= _ROUNDING * parity.scale:
        raise DataError(
            f"{engine.label} would not score as the ranker does ({parity}); nothing is written. Please report it."
        )
    if not request.approximate:
        raise DataError(
            f"the scores of this ranker lie within {parity.spread:.2g} of each other, which is too close for the "
            f"rounding of {engine.label} ({parity}); nothing is written. `approximate=True` writes it all the same."
        )
    return parity


# -- folders -------------------------------------------------------------------------------------------------------


class _Record(msgspec.Struct):
    """What the next export reads of `export.json`."""

    format: Literal["cldrank-exported"]
    to: str
    name: str
    unmatched: str
    files: dict[str, str]


def _record(ranker: Ranker, request: ExportRequest, shipment: Shipment) -> bytes:
    """The content of `export.json`."""
    told = shipment.as_dict()
    record = {
        "format": "cldrank-exported",
        "cldrank": __version__,
        "to": shipment.format.name,
        "name": request.name,
        "ranker": str(ranker.provenance),
        **{name: told[name] for name in ("for", "unmatched", "losses", "parity")},
        "files": {name: _digest(content) for name, content in shipment.exported.files.items()},
    }
    return (json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode()


def _completed(path: Path, engine: ExportFormat, request: ExportRequest, exported: Exported) -> dict[str, bytes]:
    """The files of a folder that users completed and that suit the new export; other edits are refused."""
    files = [file.relative_to(path) for file in sorted(path.rglob("*")) if not file.is_dir()]
    names = [file.as_posix() for file in files if not _NOBODYS & set(file.parts)]
    if not names:
        return {}
    try:
        record = msgspec.json.decode((path / _RECORD).read_bytes(), type=_Record)
    except (OSError, ValueError):
        raise UsageError(
            f"{path} is not empty and holds no export of cldrank; name another folder, or empty it first."
        ) from None
    if record.to != engine.name:
        raise UsageError(f"{path} holds an export for {record.to}; name another folder.")
    if foreign := [name for name in names if name not in record.files and name != _RECORD]:
        raise UsageError(f"{path} holds {foreign[0]!r}, which no export wrote; name another folder.")
    contents = {name: (path / name).read_bytes() for name in names if name != _RECORD}
    edited = {name: content for name, content in contents.items() if _digest(content) != record.files[name]}
    for name, content in edited.items():
        if name not in exported.to_fill:
            raise UsageError(f"{path / name} was edited and would be replaced; move it away, or name another folder.")
        if (record.name, record.unmatched) != (request.name, exported.unmatched):
            before, after = (
                f"{own!r}, to which a feature that does not match is {rest}"
                for own, rest in ((record.name, record.unmatched), (request.name, exported.unmatched))
            )
            raise UsageError(f"{path / name} was completed for {before}, not for {after}; export to another folder.")
        try:
            defined = re.findall(engine.defines, content.decode())
            _ = json.loads(content) if name.endswith(".json") else None
        except (ValueError, RecursionError):
            raise UsageError(f"{path / name} was edited and cannot be read any more; mend it.") from None
        if missing := [feature for feature in exported.to_fill[name] if feature not in defined]:
            raise UsageError(
                f"{path / name} was edited and does not define {some(map(repr, missing))}, which this ranker uses; add "
                "what is missing, or name another folder."
            )
    return edited


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
