"""`export_ranker`: write a ranker for an engine, and prove on features that the engine scores as the ranker does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, Spelling, UsageError, setting
from cldrank.export.format import Exported, ExportFormat, ExportRequest
from cldrank.export.parity import Parity
from cldrank.export.registry import format_named
from cldrank.export.replay.table import NamedTable
from cldrank.files import replacing, replacing_folder
from cldrank.rankers import Ranker, check_features
from cldrank.wording import some

_TOLERANCE = 1e-4  # of the largest score: engines compute in float32, over hundreds of features or trees
_SAMPLE = 200_000  # rows that a replay looks at


@dataclass(frozen=True, eq=False)
class Shipment:
    """What was written where, and how it compares.

    kept     files with definitions of features that were there, edited, and so were left as they are
    parity   the engine's scores against the ranker's on the features that were given; None without them
    """

    format: ExportFormat
    path: Path
    exported: Exported
    kept: tuple[str, ...] = ()
    parity: Parity | None = None


def export_ranker(
    ranker: Ranker,
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

    to           the format: "onnx", "opensearch", "elasticsearch", "solr", "vespa" or "json"
    name         what the engine is to call the model
    version      of the engine that will load it, such as "3.6"; the newest known by default
    renamed      what the engine calls a feature, where it has another name there
    approximate  write what the format cannot say exactly as nearly as it can; needs `check`
    check        features to replay the engine on; nothing is written if its scores are not the ranker's

    >>> import tempfile
    >>> from cldrank import scaling
    >>> from cldrank.rankers import LinearRanker
    >>> data = RankingDataset.from_arrays([[3, 1], [1, 2], [0, 9]], [1, 1, 1], feature_names="ab")
    >>> one = LinearRanker(feature_names="ab", scaling=scaling.fit(None, data.features), coefficients=[1, 2])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     shipped = export_ranker(one, "json", f"{folder}/ranker.json", check=data)
    >>> print(shipped.parity)
    3 rows of 1 query: largest difference 0 (scores up to 18), no two candidates change order
    """
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
    path = Path(out)
    kept = {} if found.one_file else _edited(path, exported)
    parity = None if check is None else _checked_parity(ranker, found, request, exported, check)
    if found.one_file:
        with replacing(path) as temporary:
            temporary.write_bytes(exported.files["model"])
        return Shipment(found, path, exported, parity=parity)
    with replacing_folder(path) as folder:
        for file, content in {**exported.files, **kept}.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(content)
    return Shipment(found, path, exported, tuple(kept), parity)


def replayed(
    ranker: Ranker, found: ExportFormat, request: ExportRequest, exported: Exported, data: RankingDataset
) -> NDArray[np.float64]:
    """The scores that the engine gives to the candidates of a dataset, without the shift."""
    check_features(ranker.feature_names, data.feature_names)
    return found.replay(exported.files, NamedTable(request.names(ranker), data.features), request)


def _checked_parity(
    ranker: Ranker, found: ExportFormat, request: ExportRequest, exported: Exported, data: RankingDataset
) -> Parity:
    sample = data[: max(1, int(np.searchsorted(data.offsets, _SAMPLE, side="right")) - 1)]
    engine = replayed(ranker, found, request, exported, sample)
    parity = Parity.of(ranker.predict(sample), engine, sample.offsets, exported.shift)
    if not exported.losses and not parity.largest <= _TOLERANCE * max(parity.scale, 1.0):
        raise DataError(
            f"{found.label} would not score as the ranker does ({parity}); nothing is written. Please report it."
        )
    return parity


def _edited(path: Path, exported: Exported) -> dict[str, bytes]:
    """The files of an earlier export that somebody has completed since; they must define all that the model uses.

    A folder that holds anything but such an export is refused.
    """
    if not path.is_dir():
        return {}
    inside = sorted(entry.relative_to(path).as_posix() for entry in path.rglob("*") if not entry.is_dir())
    foreign = [name for name in inside if name not in exported.files]
    if foreign:
        raise UsageError(f"{path} holds {foreign[0]!r}, which is not part of this export; name another folder.")
    found = {name: (path / name).read_bytes() for name in exported.to_fill if name in inside}
    edited = {name: content for name, content in found.items() if content != exported.files[name]}
    for file, content in edited.items():
        unknown = [name for name in exported.to_fill[file] if name not in content.decode("utf-8", errors="replace")]
        if unknown:
            raise UsageError(
                f"{path / file} was edited and does not mention {some(map(repr, unknown))}, which this ranker uses; "
                "add what is missing, or name another folder."
            )
    return edited
