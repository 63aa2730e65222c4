"""`export_ranker`: write a ranker for an engine, and prove on features that the engine scores as the ranker does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, Spelling, UsageError, setting
from cldrank.export.folders import RECORD, completed_files, export_record
from cldrank.export.format import Exported, ExportFormat, ExportRequest, version_parts
from cldrank.export.parity import Parity
from cldrank.export.registry import format_named
from cldrank.export.replay.table import NamedTable
from cldrank.files import replacing, replacing_folder
from cldrank.rankers import Ranker, check_features
from cldrank.wording import kind_of, some

_TOLERANCE = 1e-4  # of the spread of scores: engines compute in float32, over hundreds of features or trees
_ROUNDING = 1e-5  # of the largest score: what float32 can do to it
_PLACEHOLDER = re.compile(rb"TODO(?!:)")  # `TODO: …` is a comment beside one
_SAMPLE = 200_000  # about how many rows a replay looks at


@dataclass(frozen=True, eq=False, repr=False)
class Shipment:
    """What was written where, and how it compares.

    version  of the engine; "" where versions do not matter
    kept     files with definitions of features that were there, edited, and so were left as they are
    to_do    how many placeholders are left in each file with definitions
    parity   the engine's scores against the ranker's on the features that were given; None without them

    >>> import tempfile
    >>> from cldrank import scaling
    >>> from cldrank.rankers import LinearRanker
    >>> one = LinearRanker(feature_names="ab", scaling=scaling.fit(None, [[1, 2]]), coefficients=[1, 2])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     shipped = export_ranker(one, "solr", f"{folder}/solr")
    >>> shipped.target, sorted(shipped.exported.files), shipped.parity
    ('Solr 10.0', ['README.md', 'features.json', 'model.json'], None)
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
    check: RankingDataset | None = None,
) -> Shipment:
    """Write a ranker in the form that an engine loads: a file or a folder, there whole or not at all.

    ranker       a ranker, or a fitted method, which has one
    to           the format: "onnx", "opensearch", "elasticsearch", "solr", "vespa" or "json"
    name         what the engine is to call the model
    version      of the engine that will load it, such as "3.6"; the newest known by default
    renamed      what the engine calls a feature, where it has another name there
    approximate  write what the format cannot say exactly as nearly as it can; needs `check`
    check        features to replay the engine on, of more than 400,000 rows a sample of queries; nothing is written
                 if its scores are not the ranker's

    >>> import tempfile
    >>> from cldrank import scaling
    >>> from cldrank.rankers import LinearRanker
    >>> data = RankingDataset.from_arrays([[3, 1], [1, 2], [0, 9]], [1, 1, 1], feature_names="ab")
    >>> one = LinearRanker(feature_names="ab", scaling=scaling.fit(None, data.features), coefficients=[1, 2])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     shipped = export_ranker(one, "json", f"{folder}/ranker.json", check=data)
    >>> shipped
    Shipment(JSON, in ...ranker.json; 3 rows of 1 query: largest difference 0 (scores up to 18), no two candidates
    change order)
    """
    ranker = getattr(ranker, "ranker_", ranker)
    if not isinstance(ranker, Ranker):
        raise UsageError(f"a ranker or a fitted method can be exported, not {kind_of(ranker)}.")
    found = format_named(to)
    if approximate and check is None:
        raise UsageError(
            "{} needs features to measure the difference on; name some with {}.",
            setting("approximate"),
            setting("check"),
        )
    if version is not None and not found.newest:
        raise UsageError("{} is the same for all versions; leave {} out.", found.label, Spelling("version", "--for"))
    request = ExportRequest(name=name, version=version, renamed=dict(renamed or {}), approximate=approximate)
    exported = found.write(ranker, request)
    exported = replace(exported, notes=(*exported.notes, *_version_note(found, request), *_sign_note(found, check)))
    path = Path(out)
    kept = {} if found.one_file else completed_files(path, found, request, exported)
    parity = None if check is None else _checked_parity(ranker, found, request, exported, check)
    if found.one_file:
        with replacing(path) as temporary:
            temporary.write_bytes(exported.files["model"])
        return Shipment(found, version or found.newest, path, exported, parity=parity)
    files = {**exported.files, **kept, RECORD: export_record(ranker, found, request, exported, parity)}
    with replacing_folder(path) as folder:
        for file, content in files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(content)
    to_do = {file: len(_PLACEHOLDER.findall(files[file])) for file in exported.to_fill}
    return Shipment(found, version or found.newest, path, exported, tuple(kept), to_do, parity)


def _version_note(found: ExportFormat, request: ExportRequest) -> list[str]:
    if request.version is None or version_parts(request.version) <= version_parts(f"{found.newest}.999"):
        return []
    return [f"{request.version} is newer than {found.label} {found.newest}, the newest that this was written for"]


def _sign_note(found: ExportFormat, check: RankingDataset | None) -> list[str]:
    """A warning of features that the engine cannot compute."""
    if check is None or found.takes_negative:
        return []
    negative = np.any([(part.features < 0).any(axis=0) for part in check.blocks()], axis=0)
    names = [check.feature_names[place] for place in np.flatnonzero(negative)]
    if not names:
        return []
    return [
        f"a feature is the score of a query here, which cannot be negative, and {some(names, most=3)} "
        f"{'is' if len(names) == 1 else 'are'} below 0 in these features: train on values that the engine can compute"
    ]


def replayed(
    ranker: Ranker, found: ExportFormat, request: ExportRequest, exported: Exported, data: RankingDataset
) -> NDArray[np.float64]:
    """The scores that the engine gives to the candidates of a dataset, without the shift."""
    check_features(ranker.feature_names, data.feature_names)
    return found.replay(exported.files, NamedTable(request.names(ranker), data.features), request)


def _checked_parity(
    ranker: Ranker, found: ExportFormat, request: ExportRequest, exported: Exported, data: RankingDataset
) -> Parity:
    sample = data[:: max(1, data.n_rows // _SAMPLE)].in_memory()
    engine = replayed(ranker, found, request, exported, sample)
    parity = Parity.of(ranker.predict(sample), engine, sample.offsets, exported.shift)
    if exported.losses or parity.largest <= (_TOLERANCE * parity.spread or _ROUNDING * parity.scale):
        return parity
    if not parity.largest <= _ROUNDING * parity.scale:
        raise DataError(
            f"{found.label} would not score as the ranker does ({parity}); nothing is written. Please report it."
        )
    if not request.approximate:
        raise DataError(
            "the scores of this ranker lie within {:.2g} of each other, which is too close for the rounding of {} "
            "({}); nothing is written. {} writes it all the same.",
            parity.spread,
            found.label,
            parity,
            setting("approximate", True),
        )
    return parity
