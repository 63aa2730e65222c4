"""Linear methods on Spark: the same optimum as on this machine."""

import operator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from worlds import World

from cldrank import CLD, IPS, PIJD, CLDPair, HeckmanRank, Naive, Oracle, PolicyAwareIPS, RankAgg
from cldrank.clicks.table import ClickTable
from cldrank.errors import CldrankWarning, DataError, UsageError
from cldrank.models import MLP, Linear, Run
from cldrank.spark import SparkDataset, folding

METHODS = [
    CLD(),
    CLD(model=Linear(scaling="minmax"), target="ips", gamma=0.3),
    IPS(),
    *(
        pytest.param(method, marks=pytest.mark.slow)
        for method in (
            PIJD(),
            PolicyAwareIPS(),
            CLD(model=Linear(scaling="log")),
            CLD(model=Linear(scaling=None, l2=0.01)),
            Naive(),
            HeckmanRank(),
        )
    ),
]


def arguments(method: Any, here: World) -> tuple[Any, ...]:
    return (here.clicks,) if method.required == "clicks" else (here.clicks, here.propensities)


def on_spark(session: Any, here: World) -> SparkDataset:
    return SparkDataset.read(session, [str(here.path)])


@pytest.mark.filterwarnings("ignore::cldrank.errors.CldrankWarning")
@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_a_fit_on_spark_is_that_of_this_machine(method: Any, session: Any, here: World) -> None:
    more = arguments(method, here)
    method.fit(here.data, *more)
    local = {name: getattr(method, name) for name in vars(method) if name.endswith("_")}
    method.fit(on_spark(session, here), *more)
    np.testing.assert_allclose(method.coef_, local["coef_"], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(method.intercept_, local["intercept_"], rtol=1e-8)
    assert getattr(method, "log_likelihood_", 0) == pytest.approx(local.get("log_likelihood_", 0), rel=1e-10)
    for name in ("n_rows_", "weight_", "constant_features_", "status_", "n_left_out_", "separated_"):
        assert getattr(method, name, None) == local.get(name), name
    for name in ("selection_coef_", "thresholds_"):
        if name in local:
            np.testing.assert_allclose(getattr(method, name), local[name], rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(method.predict(here.data), local["ranker_"].predict(here.data), rtol=1e-7, atol=1e-9)


@pytest.mark.slow
def test_many_partitions_are_joined_in_two_levels(session: Any, here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "_DIRECT", 2)
    expected = CLD().fit(here.data, here.clicks, here.propensities)
    frame = session.read.parquet(str(here.path)).repartition(7)
    far = CLD().fit(SparkDataset(frame), here.clicks, here.propensities)
    np.testing.assert_allclose(far.coef_, expected.coef_, rtol=1e-8, atol=1e-10)


def test_values_are_joined_in_the_order_of_their_partitions(session: Any) -> None:
    def numbers(batches: Any) -> Any:
        return (batch.column(0).to_pylist() for batch in batches)

    assert folding.folded(session.range(0, 40, numPartitions=5), 5, numbers, operator.add) == list(range(40))


def test_clicks_on_unknown_candidates_are_left_out_and_said(session: Any, here: World) -> None:
    shown = np.unique(here.clicks.row)[:3]
    gone = {(int(here.data.row_queries[row]), str(here.data.doc_ids[row])) for row in shown}  # type: ignore[index]
    rows = here.rows()
    kept = [pair not in gone for pair in zip(rows["query_id"].to_pylist(), rows["doc_id"].to_pylist(), strict=True)]
    frame = session.createDataFrame(rows.filter(pa.array(kept)))
    with pytest.warns(CldrankWarning, match=r"3 of \d+ candidates .* are left out: query 0, document"):
        far = IPS().fit(SparkDataset(frame), here.clicks, here.propensities)
    known = ~np.isin(np.arange(here.data.n_rows), shown)
    part = here.data.from_arrays(
        here.data.features[known],
        here.data.row_queries[known],
        doc_ids=here.data.doc_ids[known],  # type: ignore[index]
    )
    place = np.cumsum(known) - 1
    cells = here.clicks.where(known[here.clicks.row])
    own = ClickTable.from_arrays(
        part, row=place[cells.row], position=cells.position, impressions=cells.impressions, clicks=cells.clicks
    )
    near = IPS().fit(part, own, here.propensities)
    np.testing.assert_allclose(far.coef_, near.coef_, rtol=1e-8, atol=1e-10)


@pytest.mark.slow
def test_votes_of_linear_models_are_the_same(session: Any, here: World) -> None:
    near = RankAgg(model=Linear()).fit(here.data, here.clicks, here.propensities)
    far = RankAgg(model=Linear()).fit(on_spark(session, here), here.clicks, here.propensities)
    np.testing.assert_array_equal(far.predict(here.data), near.predict(here.data))


def test_features_that_are_not_finite_are_named(session: Any, here: World) -> None:
    from pyspark.sql.functions import col, expr, when

    bad = when((col("query_id") == 7) & (col("doc_id") == "3"), expr("cast('nan' as float)")).otherwise(col("f2"))
    broken = session.read.parquet(str(here.path)).withColumn("f2", bad)
    with pytest.raises(DataError, match="feature 'f2' of query 7, document 3 is nan"):
        CLD().fit(SparkDataset(broken), here.clicks, here.propensities)


def test_ids_that_match_nothing_are_refused(session: Any, here: World) -> None:
    nothing = SparkDataset(session.read.parquet(str(here.path)).where("query_id < 0"))
    with pytest.raises(DataError, match="query 0, document"):
        IPS().fit(nothing, here.clicks, here.propensities)


def test_ids_that_are_null_are_refused(session: Any, here: World) -> None:
    from pyspark.sql.functions import col, expr, when

    frame = session.read.parquet(str(here.path))
    nameless = when(col("query_id") == 5, expr("cast(null as string)")).otherwise(col("doc_id"))
    with pytest.warns(CldrankWarning, match="are left out"), pytest.raises(DataError, match="12 rows"):
        CLD().fit(SparkDataset(frame.withColumn("doc_id", nameless)), here.clicks, here.propensities)


def test_display_probabilities_are_refused(session: Any, here: World) -> None:
    known = here.clicks.with_display(np.full((here.data.n_rows, 4), 0.5 / 12))
    with pytest.raises(UsageError, match="display probabilities .* cannot be used on Spark"):
        PolicyAwareIPS().fit(on_spark(session, here), known, here.propensities)


def test_a_document_that_a_query_has_twice_is_refused(session: Any, here: World) -> None:
    frame = session.read.parquet(str(here.path))
    twice = frame.unionByName(frame.where("query_id = 5 and doc_id = '2'"))
    with pytest.raises(DataError, match="query 5 has document 2 twice"):
        CLD().fit(SparkDataset(twice), here.clicks, here.propensities)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (CLDPair(model=Linear()), "CLD-pair with a linear model"),
        (IPS(model=MLP()), "IPS with"),
        (CLD(run=Run(device="cpu")), "GPU"),
        (RankAgg(), "RankAgg|votes|Spark"),
    ],
)
def test_what_spark_cannot_do_is_refused(
    method: Any, words: str, session: Any, here: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=words):
        method.fit(on_spark(session, here), here.clicks, here.propensities)


def test_labels_are_not_read_on_spark(session: Any, here: World) -> None:
    with pytest.raises(UsageError, match="learns from labels, which are not read on Spark"):
        Oracle().fit(on_spark(session, here))


def test_a_ranker_from_spark_says_so_and_tells_tables_apart(session: Any, here: World) -> None:
    far = on_spark(session, here)
    ranker = IPS().fit(far, here.clicks, here.propensities).ranker_
    assert ranker.provenance.data == "features.parquet"
    prints = [
        SparkDataset(frame).shown(here.clicks)[0].fingerprint
        for frame in (far.frame, far.frame.repartition(5), far.frame.where("query_id != 9"))
    ]
    assert ranker.provenance.fingerprint == prints[0] == prints[1] != prints[2]
    assert ranker.trained_on is not None
    assert len(ranker.trained_on) == 54


def test_queries_can_be_held_out(session: Any, here: World) -> None:
    from cldrank.clicks.holding_out import HeldOut

    data, clicks = on_spark(session, here).shown(here.clicks)
    held = HeldOut.of(data, clicks, 0.3)
    others, table = held.others
    far = CLD(model=Linear(scaling=None)).fit(others, table, here.propensities)
    local = HeldOut.of(here.data, here.clicks, 0.3)
    expected = CLD(model=Linear(scaling=None)).fit(*local.others, here.propensities)
    np.testing.assert_allclose(far.coef_, expected.coef_, rtol=1e-8, atol=1e-10)
    assert far.n_rows_ == expected.n_rows_
