"""What all rankers share: features by name, refusals, provenance."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from made_rankers import FEATURES, NAMES, dataset, linear

from cldrank.data.query_hash import hashes_of
from cldrank.errors import DataError
from cldrank.rankers import Provenance

pd: Any = pytest.importorskip("pandas")


def test_queries_that_it_was_trained_on() -> None:
    ranker = linear()
    assert ranker.saw([1, 2]) is None
    knowing = ranker.with_queries(np.unique(hashes_of(["shoes", "7"])))
    assert ranker.trained_on is None
    seen = knowing.saw(["7", "hats", "shoes"])
    assert seen is not None
    assert seen.tolist() == [True, False, True]
    assert knowing.saw([7, 8]).tolist() == [True, False]  # type: ignore[union-attr]
    later = knowing.with_provenance(Provenance(data="other"))
    assert later.saw([7]).tolist() == [True]  # type: ignore[union-attr]
    np.testing.assert_array_equal(knowing.predict(FEATURES), ranker.predict(FEATURES))
    for hashes in (np.array([2, 1], np.uint64), np.array([1.0])):
        with pytest.raises(DataError, match="hashes of queries"):
            ranker.with_queries(hashes)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((*NAMES, "age", "url"), "6 features .* 4: 'age', 'url'"),
        (("bm25", "rank", "länge", "clicks"), "'pagerank' is missing, 'rank'"),
        (("bm25", "länge", "pagerank", "clicks"), "feature 2 is 'länge' .* 'pagerank'"),
        (tuple(f"f{i}" for i in range(1, 10)), "'f5' and 4 more"),
    ],
)
def test_other_features_are_refused_by_name(names: tuple[str, ...], message: str) -> None:
    features = np.zeros((10, len(names)), dtype=np.float32)
    with pytest.raises(DataError, match=message):
        linear().predict(dataset(features, names))


def test_a_plain_array_is_checked_on_its_width() -> None:
    with pytest.raises(DataError, match="4 features.* 3"):
        linear().predict(FEATURES[:, :3])
    with pytest.raises(DataError, match="must be a table"):
        linear().predict(FEATURES[0])


@pytest.mark.parametrize("kind", ["pandas", "arrow"])
def test_columns_of_a_frame_are_found_by_their_names(kind: str) -> None:
    frame = pd.DataFrame(FEATURES, columns=list(NAMES))
    turned = frame[["clicks", "bm25", "länge", "pagerank"]]
    table = turned if kind == "pandas" else pa.Table.from_pandas(turned)
    np.testing.assert_array_equal(linear().predict(table), linear().predict(FEATURES))
    np.testing.assert_array_equal(linear().predict(frame), linear().predict(FEATURES))
    mixed = frame.assign(clicks=frame["clicks"] > 1)  # numpy sees objects
    np.testing.assert_array_equal(linear().predict(mixed), linear().predict(mixed.astype(np.float32).to_numpy()))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("bm25", "pagerank", "länge", "f4"), "'clicks' .* 'f4'"),
        (("bm25", "pagerank", "länge", "clicks", "bm25"), "'bm25' appears more than once"),
        ((3, 2, 1, 0), r"'clicks' .*\('3', '2', '1', '0'\)"),
    ],
)
def test_columns_of_a_frame_that_do_not_match_are_refused_by_name(names: tuple[Any, ...], message: str) -> None:
    frame = pd.DataFrame(np.zeros((2, len(names))), columns=list(names))
    with pytest.raises(DataError, match=message):
        linear().predict(frame)
