import itertools
import json
import os
import socket
import subprocess
import sys
import textwrap
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from features_on_disk import SlicedFeatures, with_features
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from small_networks import GIVEN, SMALL, scores, small_pair, stop_after

from cldrank import scaling, segments
from cldrank.data.formats import parquet_pieces
from cldrank.data.parquet_features import ParquetFeatures
from cldrank.errors import UsageError
from cldrank.estimators import CLD, IPS, CLDPair
from cldrank.models import MLP
from cldrank.models.network import chunks
from cldrank.models.network.chunks import ChunkedTable, ChunkReading, chunk_edges, row_stretches
from cldrank.models.network.distributed import World
from cldrank.models.network.features import FeatureTable
from cldrank.models.network.lists import BatchSource, Lists

ROW_BYTES = 4 * GIVEN.data.n_features


def on_disk(group: int = 37) -> tuple[Any, ...]:
    """The scene with features in row groups that queries run across."""
    return (with_features(GIVEN.data, SlicedFeatures(GIVEN.data.features, group)), *GIVEN[1:])


def buffer_of(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A buffer for so many rows."""
    monkeypatch.setattr(chunks, "_BUFFER_BYTES", rows * ROW_BYTES)
    monkeypatch.setattr(chunks, "_CHUNKS", 8)


# -- chunks --------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), st.integers(1, 40), st.integers(1, 40))
def test_chunks_end_where_queries_end_and_are_of_one_size_about(lengths: list[int], group: int, most: int) -> None:
    offsets = segments.from_lengths(np.array(lengths))
    groups = SlicedFeatures(np.zeros((sum(lengths), 2)), group).row_group_offsets
    stretches = row_stretches(groups, most)
    edges = chunk_edges(stretches, offsets, most)
    assert set(stretches) <= set(groups)
    assert np.diff(stretches).max() < most + group
    assert (np.diff(stretches)[:-1] >= min(group, most / 2)).all()
    for found in (edges, stretches):
        assert (found[0], found[-1]) == (0, sum(lengths))
        assert (np.diff(found) > 0).all()
    assert set(edges) <= set(offsets)
    assert np.diff(edges).max() < most + max(lengths)
    assert len(edges) - 1 <= 2 * (len(stretches) - 1 + sum(lengths) // most)  # few are small


def table_of(rows: Any, group: int = 37) -> tuple[ChunkedTable, Any]:
    features = SlicedFeatures(GIVEN.data.features, group)
    scaled = scaling.fit("standard", GIVEN.data.features)
    table = ChunkedTable(features, scaled, rows, GIVEN.data.offsets, torch.device("cpu"))
    return table, torch.from_numpy(scaled.transform(GIVEN.data.features)[rows])


@pytest.mark.parametrize(
    "rows", [np.arange(480), np.arange(3, 480, 5), np.arange(200, 260)], ids=["all", "few", "some"]
)
def test_what_is_read_is_what_the_table_holds(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    buffer_of(120, monkeypatch)
    table, expected = table_of(rows)
    places = np.random.default_rng(0).integers(0, len(rows), 50)
    assert torch.equal(table.held(), expected)
    assert torch.equal(table.gather(places), expected[torch.from_numpy(places)])
    order = np.random.default_rng(0).permutation(table.n_chunks)
    seen = []
    for window in table.read(table.windows(order)):
        own = np.concatenate([np.arange(*table.edges[chunk : chunk + 2]) for chunk in window.chunks])
        assert len(own) <= 60 or len(window.chunks) == 1  # two of them fit into the buffer
        assert torch.equal(window.gather(torch.from_numpy(own)), expected[torch.from_numpy(own)])
        seen += own.tolist()
    assert sorted(seen) == list(range(len(rows)))


def test_rows_are_gathered_on_the_device() -> None:
    """One that has no memory, and refuses to work on tensors of the CPU."""
    scaled = scaling.fit("standard", GIVEN.data.features)
    features = SlicedFeatures(GIVEN.data.features, 37)
    table = ChunkedTable(features, scaled, np.arange(480), GIVEN.data.offsets, torch.device("meta"))
    found = table.gather(np.array([470, 3, 200]))
    assert (found.device.type, found.shape) == ("meta", (3, GIVEN.data.n_features))


def test_a_sample_is_of_few_chunks_far_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer_of(120, monkeypatch)
    table, _ = table_of(np.arange(480), group=40)
    chunk = np.unique(np.searchsorted(table.edges, table.sample(), side="right") - 1)
    assert len(chunk) == 4
    assert table.stretches[chunk[[0, -1]]].tolist() == table.stretches[[0, -1]].tolist()
    assert (np.diff(table.stretches)[chunk[1:] - 1] > 0).all()  # nothing of the row group is passed over
    monkeypatch.setattr(chunks, "_BUFFER_BYTES", 1 << 30)
    assert len(table_of(np.arange(480))[0].sample()) == 250  # of the only chunk


# -- fits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [CLDPair, CLD, IPS])
def test_a_buffer_that_holds_all_gives_the_same_bits_as_memory(kind: Any) -> None:
    fits = [kind(model=SMALL).fit(*data) for data in (GIVEN, on_disk())]
    np.testing.assert_array_equal(scores(fits[0]), scores(fits[1]))
    assert [epoch.loss for epoch in fits[0].history_] == [epoch.loss for epoch in fits[1].history_]


@pytest.mark.parametrize("kind", [CLDPair, CLD, IPS])
def test_a_small_buffer_learns_nearly_the_same(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = MLP(hidden=(8,), epochs=12, batch_queries=4, dropout=0.0)
    here = kind(model=model).fit(*GIVEN)
    buffer_of(120, monkeypatch)
    there, again = (kind(model=model).fit(*on_disk()) for _ in range(2))
    assert (scores(here) != scores(there)).any()
    assert np.corrcoef(scores(here), scores(there))[0, 1] > 0.9
    np.testing.assert_array_equal(scores(there), scores(again))


def test_held_out_queries_are_judged_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """With steps of nothing, the concordance of each epoch is that of the network as it began."""
    still: dict[str, Any] = {"learning_rate": 1e-30, "validation": 0.3, "epochs": 2}
    here = small_pair(**still).fit(*GIVEN)
    buffer_of(60, monkeypatch)
    there = small_pair(**still).fit(*on_disk())
    for a, b in zip(here.history_, there.history_, strict=True):
        assert a.validation == pytest.approx(b.validation)


def test_an_epoch_has_each_list_once_and_reads_each_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer_of(120, monkeypatch)
    data = on_disk()
    seen: list[tuple[int, ...]] = []
    gather = chunks.ChunkWindow.gather

    def watched(self: Any, places: Any) -> Any:
        seen.append(tuple(self.chunks))
        return gather(self, places)

    monkeypatch.setattr(chunks.ChunkWindow, "gather", watched)
    small_pair(validation=0.0, epochs=1).fit(*data)
    learning, epoch = data[0].features.given, []
    epoch = learning[-len({chunk for window in seen for chunk in window}) :]
    rows = [row for start, stop in epoch for row in range(start, stop)]
    assert len(rows) == len(set(rows))
    assert len(set(seen)) > 2  # several windows
    assert [start for start, _ in epoch] != sorted(start for start, _ in epoch)  # in random order


@pytest.mark.parametrize("group", [480, 100, 5])
def test_an_epoch_decodes_the_table_about_once(group: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one row group, of a few, and of many that are smaller than what is decoded at once."""
    width = GIVEN.data.n_features
    path, names = tmp_path / "features.parquet", [f"f{i}" for i in range(width)]
    parquet.write_table(pa.table(dict(zip(names, GIVEN.data.features.T, strict=True))), path, row_group_size=group)
    monkeypatch.setattr(parquet_pieces, "_PIECE_VALUES", 8 * width)
    monkeypatch.setattr(parquet_pieces, "_KEPT_BYTES", 16 * ROW_BYTES)
    buffer_of(240, monkeypatch)
    decoded: list[int] = []
    read = parquet_pieces.ParquetPieces._read

    def counted(self: Any, cursor: Any) -> Any:
        piece = read(self, cursor)
        decoded.append(len(piece.table))
        return piece

    monkeypatch.setattr(parquet_pieces.ParquetPieces, "_read", counted)
    so_far = []
    data = with_features(GIVEN.data, ParquetFeatures.open(path, names))
    small_pair(epochs=6, validation=0.0, on_epoch=lambda _: so_far.append(sum(decoded))).fit(data, *GIVEN[1:])
    assert max(np.diff(so_far)) <= 1.5 * len(GIVEN.data.features)


def test_row_groups_come_in_random_order_and_windows_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer_of(120, monkeypatch)
    table, _ = table_of(np.arange(480), group=60)
    one, none = np.ones(480, dtype=np.float32), np.zeros(0, dtype=np.int64)
    offsets = GIVEN.data.offsets
    every = Lists(offsets, np.arange(480), one, one, 0 * offsets, none, one[1 : len(offsets)])
    groups = [BatchSource(packed, every.unshown_rows, torch.device("cpu")) for packed in every.pack(0.0)]
    readings = [ChunkReading(table, every, groups, 8, 0, World(rank, 3)) for rank in range(3)]
    plans = [[reading._windows(number, reading._world.rank) for reading in readings] for number in range(1, 9)]
    orders = [np.concatenate([*itertools.chain(*plan)]) for plan in plans]
    for order in orders:
        assert sorted(order) == list(range(table.n_chunks))  # no chunk twice, in whichever process
        runs = [list(run) for _, run in itertools.groupby(order, lambda chunk: table.stretches[chunk])]
        assert len(runs) == len(set(table.stretches)) > 4  # a stretch is read in one go
        assert all(run == sorted(run) for run in runs)
    assert len({tuple(order) for order in orders}) == len(orders)
    assert len({tuple(map(len, plan[0])) for plan in plans}) > 1
    shares = [sum(sum(map(len, windows)) for windows in plan) for plan in zip(*plans, strict=True)]
    assert max(shares) - min(shares) <= 2 * len(plans)
    again = [[reading._windows(number, reading._world.rank) for reading in readings] for number in range(1, 9)]
    assert repr(again) == repr(plans)


def test_a_checkpoint_resumes_to_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    buffer_of(120, monkeypatch)
    whole = small_pair().fit(*on_disk())
    with pytest.warns(UserWarning, match="interrupted"):
        small_pair(checkpoint=tmp_path / "state", on_epoch=stop_after(2)).fit(*on_disk())
    resumed = small_pair(checkpoint=tmp_path / "state", resume=True).fit(*on_disk())
    np.testing.assert_array_equal(scores(whole), scores(resumed))


@pytest.mark.parametrize(
    ("rows", "parts", "groups"),
    [(480, 8, 37), (160, 8, 37), (240, 16, 37), (120, 8, 60)],
    ids=["in memory", "other chunks", "other windows", "other row groups"],
)
def test_a_checkpoint_of_another_way_to_read_is_refused(
    rows: int, parts: int, groups: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in (ChunkedTable, FeatureTable):
        monkeypatch.setattr(kind, "sample", lambda _: np.arange(9))  # the same features however they are read
    buffer_of(120, monkeypatch)
    small_pair(epochs=1, checkpoint=tmp_path / "state").fit(*on_disk())
    small_pair(epochs=1, checkpoint=tmp_path / "state", resume=True).fit(*on_disk())
    buffer_of(rows, monkeypatch)
    monkeypatch.setattr(chunks, "_CHUNKS", parts)
    with pytest.raises(UsageError, match="training with other parameters, features or clicks"):
        small_pair(epochs=1, checkpoint=tmp_path / "state", resume=True).fit(*on_disk(groups))


def test_a_checkpoint_of_features_on_disk_that_a_buffer_holds_is_that_of_memory(tmp_path: Path) -> None:
    begun = small_pair(epochs=1, checkpoint=tmp_path / "state").fit(*GIVEN)
    resumed = small_pair(epochs=1, checkpoint=tmp_path / "state", resume=True).fit(*on_disk())
    np.testing.assert_array_equal(resumed.predict(GIVEN[0]), begun.predict(GIVEN[0]))


def test_no_more_than_two_windows_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """When one is read, only the one before it is there: for batches, and for what is held out."""
    buffer_of(60, monkeypatch)
    there: weakref.WeakSet[Any] = weakref.WeakSet()
    counts = []
    window = ChunkedTable._window

    def watched(self: Any, own: Any) -> Any:
        counts.append(len(there))
        found = window(self, own)
        there.add(found)
        return found

    monkeypatch.setattr(ChunkedTable, "_window", watched)
    small_pair(epochs=1, validation=0.5).fit(*on_disk())
    assert len(counts) >= 15
    assert max(counts) == 1


SCRIPT = """
    import json, os, sys
    sys.path[:0] = {paths!r}
    import numpy as np
    from features_on_disk import SlicedFeatures, with_features
    from small_networks import GIVEN, scores
    from cldrank.estimators import CLDPair
    from cldrank.models import MLP
    from cldrank.models.network import chunks

    chunks._BUFFER_BYTES, chunks._CHUNKS = 120 * 4 * GIVEN.data.n_features, 8
    features = SlicedFeatures(GIVEN.data.features, 37)
    read = []
    window = chunks.ChunkedTable._window
    chunks.ChunkedTable._window = lambda self, own: read.append(own.tolist()) or window(self, own)
    fitted = CLDPair(model=MLP(hidden=(8,), dropout=0.0, epochs=2, batch_queries=8)).fit(
        with_features(GIVEN.data, features), *GIVEN[1:]
    )
    history = [[epoch.loss, epoch.validation] for epoch in fitted.history_]
    found = {{"scores": scores(fitted).tolist(), "history": history, "read": read}}
    with open({folder!r} + "/" + os.environ["RANK"] + ".json", "w") as file:
        json.dump(found, file)
    import torch.distributed
    torch.distributed.destroy_process_group()
"""


def test_two_processes_read_a_share_each_and_agree(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    tests = Path(__file__).parents[2]
    paths = [str(tests / "estimators"), str(tests / "helpers")]
    script.write_text(textwrap.dedent(SCRIPT).format(paths=paths, folder=str(tmp_path)))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    world = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, str(script)],
            env={**os.environ, **world, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    np.testing.assert_array_equal(first["scores"], second["scores"])
    assert first["history"] == second["history"]
    counts = [len([*itertools.chain(*one["read"])]) for one in (first, second)]
    assert abs(counts[0] - counts[1]) <= 4  # two epochs and what is held out, twice
    parts = [{tuple(window) for window in one["read"]} for one in (first, second)]
    assert not parts[0] & parts[1]


BOUNDED = """
    import resource, sys
    sys.path[:0] = {paths!r}
    import numpy as np
    from features_on_disk import SlicedFeatures, with_features
    import cldrank as cr
    from cldrank.models.network import chunks

    class Made(SlicedFeatures):  # rows that exist only when they are read: {rows} x 256 floats
        def __init__(self):
            self.shape, self.given = ({rows}, 256), []
            self.row_group_offsets = np.arange(0, {rows} + 1, 1000)
        def __len__(self):
            return {rows}
        def __getitem__(self, rows):
            start, stop, _ = rows.indices({rows})
            return np.random.default_rng(start).standard_normal((stop - start, 256), dtype=np.float32)

    chunks._BUFFER_BYTES = 16 << 20
    rows = {rows}
    queries = np.arange(rows) // 20
    small = cr.RankingDataset.from_arrays(np.zeros((rows, 1)), queries)
    shown = np.arange(rows) % 20 < 3
    table = cr.ClickTable.from_arrays(
        small, position=np.where(shown, np.arange(rows) % 20 + 1, 0), impressions=10 * shown,
        clicks=np.random.default_rng(0).binomial(10 * shown, 0.3),
    )
    names = tuple(f"f{{i}}" for i in range(256))
    data = with_features(small, Made())
    data.__dict__["feature_names"] = names
    method = cr.IPS(model=cr.MLP(hidden=(8,), epochs=1, batch_queries=64))
    fit = lambda: method.fit(data, table, cr.Propensities.power(1, 3))
    chunks._BUFFER_BYTES = 1 << 20
    fit()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    chunks._BUFFER_BYTES = 16 << 20
    fit()
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.slow
def test_memory_follows_the_buffer_and_not_the_features() -> None:
    tests = Path(__file__).parents[2]
    paths = [str(tests / "estimators"), str(tests / "helpers")]
    script = textwrap.dedent(BOUNDED).format(paths=paths, rows=150_000)  # 146 MiB, nine times the buffer
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode == 0, found.stderr
    assert int(found.stdout) < 48
