"""`open_stream`: candidates with known features from files of any size, block by block, whatever their format."""

from __future__ import annotations

from collections.abc import Sequence

from cldrank.data.checks import Missing, check_missing
from cldrank.data.formats.parquet_columns import ColumnNames
from cldrank.data.loading import Source, format_of_files, group_paths_of, source_files
from cldrank.data.row_blocks import FeatureStream
from cldrank.errors import UsageError


def open_stream(
    source: Source | Sequence[Source],
    feature_names: Sequence[str],
    *,
    columns: ColumnNames | None = None,
    groups: Source | Sequence[Source] | None = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    missing: Missing = None,
) -> FeatureStream:
    r"""Open what `load` loads as a stream; the options are the same.

    feature_names   those that a ranker knows. The ids of a LETOR file are numbers in these names (f7 has the id 7), so
                    that the layout need not be guessed; an id that is not among them is refused. A Parquet file has
                    names of its own: columns of just the ranker's features are brought into its order, and whether
                    others will do is for the caller to judge.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "test.txt"
    ...     _ = path.write_text("0 qid:7 2:0.5\n0 qid:8 1:0.25\n")
    ...     [(block.run_ids, block.features) for block in open_stream(path, ["f1", "f2"]).blocks()]
    [(array([7, 8]), array([[0.  , 0.5 ], [0.25, 0.  ]], dtype=float32))]
    """
    paths = source_files(source)
    check_missing(missing)
    group_paths = group_paths_of(groups)
    found = format_of_files(paths, columns, group_paths, n_features, zero_based)
    if found == "csv":
        raise UsageError(
            f"{paths[0]}: CSV cannot be read block by block; convert it first: "
            f"`cldrank data convert {paths[0]} --out FILE.parquet`."
        )
    if found == "parquet":
        from cldrank.data.formats.parquet_stream import ParquetStream

        return ParquetStream(paths, feature_names, columns=columns, missing=missing)
    from cldrank.data.formats.letor_stream import LetorStream

    return LetorStream(
        paths, feature_names, groups=group_paths, n_features=n_features, zero_based=zero_based, missing=missing
    )
