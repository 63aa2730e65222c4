import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from cldrank import rankers, scaling
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankError, DataError, FormatError, UsageError
from cldrank.rankers import LinearRanker, Provenance, load_ranker

pd: Any = pytest.importorskip("pandas")
NAMES = ("bm25", "pagerank", "länge", "clicks")
FEATURES = np.random.default_rng(0).lognormal(0, 2, (300, 4)).astype(np.float32)
ORIGIN = Provenance(
    estimator="Oracle", parameters={"l2": 0.1, "scaling": None}, data="web", synthetic=True, rows=9, queries=2
)


def linear(method: str | scaling.ScalingRule | None = "standard", **changes: Any) -> LinearRanker:
    parts: dict[str, Any] = {
        "feature_names": NAMES,
        "scaling": scaling.fit(method, FEATURES),
        "coefficients": np.array([0.1, -2 / 3, 1e-17, 3e5]),
        "intercept": 1 / 3,
        "provenance": ORIGIN,
    }
    return LinearRanker(**parts | changes)


def dataset(features: NDArray[Any] = FEATURES, names: tuple[str, ...] = NAMES) -> RankingDataset:
    return RankingDataset.from_arrays(features, np.arange(len(features)) // 5, feature_names=names)


# -- scoring -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["standard", "minmax", "log", "quantile", None])
def test_scores_are_the_linear_function_of_scaled_features(method: str | None) -> None:
    ranker = linear(method)
    scaled = scaling.fit(method, FEATURES).transform(FEATURES).astype(np.float64)
    np.testing.assert_allclose(ranker.predict(FEATURES), scaled @ ranker.coefficients + 1 / 3, rtol=1e-12)
    np.testing.assert_array_equal(ranker.predict(dataset()), ranker.predict(FEATURES))


@given(
    arrays(np.float32, st.tuples(st.integers(1, 40), st.just(4)), elements=st.floats(-1e6, 1e6, width=32)),
    st.integers(1, 41),
    st.randoms(use_true_random=False),
)
def test_a_score_depends_on_its_row_alone(features: NDArray[np.float32], block_rows: int, random: Any) -> None:
    ranker = linear()
    scores = ranker.predict(features)
    order = np.array(random.sample(range(len(features)), len(features)))
    np.testing.assert_array_equal(ranker.predict(features[order], block_rows=block_rows), scores[order])


@pytest.mark.parametrize("method", ["standard", "quantile", None])
def test_equal_rows_get_equal_scores_wherever_they_lie(method: str | None) -> None:
    random = np.random.default_rng(1)
    train = random.normal(size=(50, 137)).astype(np.float32)
    ranker = LinearRanker(
        feature_names=tuple(f"f{index}" for index in range(137)),
        scaling=scaling.fit(method, train),
        coefficients=random.normal(size=137),
    )
    copies = np.repeat(train[:1], 203, axis=0)
    scores = [ranker.predict(copies, block_rows=size) for size in (1, 2, 7, 100, None)]
    assert len(np.unique(scores)) == 1  # a matrix product gives two


def test_no_rows_give_no_scores() -> None:
    assert linear().predict(FEATURES[:0]).shape == (0,)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("bm25", "pagerank", "clicks"), "3 features instead of the ranker's 4: 'länge' is missing."),
        ((*NAMES, "age", "url"), "6 features instead of the ranker's 4: 'age', 'url' are unknown to it."),
        (("bm25", "rank", "länge", "clicks"), "other features.*: 'pagerank' is missing, 'rank' is unknown to it"),
        (("bm25", "länge", "pagerank", "clicks"), "feature 2 is 'länge' where the ranker expects 'pagerank'"),
        (tuple(f"f{i}" for i in range(1, 10)), "'f1', 'f2', 'f3', 'f4', 'f5' and 4 more are unknown to it"),
    ],
)
def test_other_features_are_refused_by_name(names: tuple[str, ...], message: str) -> None:
    features = np.zeros((10, len(names)), dtype=np.float32)
    with pytest.raises(DataError, match=message):
        linear().predict(dataset(features, names))
    with pytest.raises(DataError, match=message):
        linear().predict(features, feature_names=names)


def test_a_plain_array_is_checked_on_its_width() -> None:
    with pytest.raises(DataError, match="the ranker knows 4 features, the table has 3"):
        linear().predict(FEATURES[:, :3])
    with pytest.raises(DataError, match="the ranker knows 4 features, the table has 3"):
        linear().predict(FEATURES[:, :3], feature_names=NAMES)
    with pytest.raises(DataError, match="must be a table"):
        linear().predict(FEATURES[0])
    with pytest.raises(DataError, match="more than once"):
        linear().predict(np.zeros((1, 5)), feature_names=(*NAMES, "bm25"))


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
        (("bm25", "pagerank", "länge"), "3 features instead of the ranker's 4: 'clicks' is missing"),
        ((*NAMES, "query_id"), "5 features instead of the ranker's 4: 'query_id' is unknown to it"),
        (("bm25", "pagerank", "länge", "f4"), r"'clicks' is missing, 'f4' is unknown to it.*pass an array"),
        (("bm25", "pagerank", "länge", "clicks", "bm25"), "'bm25' appears more than once"),
        ((3, 2, 1, 0), "'3', '2', '1', '0' are unknown to it"),
    ],
)
def test_columns_of_a_frame_that_do_not_match_are_refused_by_name(names: tuple[Any, ...], message: str) -> None:
    frame = pd.DataFrame(np.zeros((2, len(names))), columns=list(names))
    with pytest.raises(DataError, match=message):
        linear().predict(frame)


def test_columns_that_are_only_numbered_go_by_their_place() -> None:
    np.testing.assert_array_equal(linear().predict(pd.DataFrame(FEATURES)), linear().predict(FEATURES))


def test_names_that_contradict_a_frame_are_refused() -> None:
    frame = pd.DataFrame(FEATURES, columns=list(NAMES))[[*NAMES[::-1]]]
    with pytest.raises(DataError, match=r"feature_names says 'bm25' for column 1, .* calls 'clicks'"):
        linear().predict(frame, feature_names=NAMES)


def test_a_value_that_is_not_finite_is_refused_with_its_row() -> None:
    features = FEATURES.copy()
    features[250, 1] = np.nan
    with pytest.raises(DataError, match=r"column 1 of row 250 .* is nan"):
        linear().predict(features, block_rows=100)


# -- making one --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"coefficients": np.zeros(3)}, r"shape \(3,\) for 4 features"),
        ({"coefficients": np.array([0, np.nan, 0, 0])}, "coefficient of feature 'pagerank' is nan"),
        ({"intercept": np.inf}, "intercept is inf"),
        ({"feature_names": ("a", "b")}, "2 feature names for a scaling of 4"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        linear(**changes)


def test_repr_tells_what_it_is_and_where_it_comes_from() -> None:
    text = "LinearRanker(4 features, scaling Standard(clip=5.0), trained by Oracle on web (synthetic))"
    assert repr(linear()) == text
    assert str(Provenance(estimator="Oracle", rows=3)) == "trained by Oracle on data without a name"


@pytest.mark.parametrize(
    "wrong",
    [{"rows": "3"}, {"rows": True}, {"synthetic": 1}, {"parameters": {"l2": np.nan}}, {"parameters": {"l2": {1}}}],
)
def test_a_provenance_that_json_cannot_hold_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="provenance"):
        Provenance(**wrong)


def test_a_provenance_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(DataError, match="provenance"):
        Provenance(parameters={"deep": nested(5000)})


# -- saving and loading ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["standard", "minmax", "log", scaling.Quantile(knots=7), None])
def test_a_saved_ranker_comes_back_exactly(method: Any, tmp_path: Path) -> None:
    ranker = linear(method)
    ranker.save(tmp_path / "deep" / "ranker")
    again = load_ranker(tmp_path / "deep" / "ranker")
    assert isinstance(again, LinearRanker)
    np.testing.assert_array_equal(again.coefficients, ranker.coefficients)
    assert again.intercept == ranker.intercept
    assert again.feature_names == NAMES
    assert again.provenance == ORIGIN
    assert again.scaling.rule == ranker.scaling.rule
    for name, values in ranker.scaling.parameters.items():
        np.testing.assert_array_equal(again.scaling.parameters[name], values)
    np.testing.assert_array_equal(again.predict(dataset()), ranker.predict(dataset()))
    again.save(tmp_path / "second")
    for name in ("ranker.json", "weights.safetensors"):
        assert (tmp_path / "second" / name).read_bytes() == (tmp_path / "deep" / "ranker" / name).read_bytes()


def test_saving_replaces_an_older_ranker_and_fills_an_empty_folder(tmp_path: Path) -> None:
    linear(intercept=1.0).save(tmp_path)
    linear(intercept=2.0).save(tmp_path)
    again = load_ranker(tmp_path)
    assert isinstance(again, LinearRanker)
    assert again.intercept == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ranker.json", "weights.safetensors"]


def test_saving_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    linear().save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "ranker.json").exists()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"thesis.tex": "years of work"}, "holds 'thesis.tex'"),
        ({"ranker.json": '{"format": "cldrank-ranker"}', "notes.txt": "mine"}, "holds 'notes.txt'"),
        ({"ranker.json": '{"format": "other"}'}, "holds no ranker"),
        ({"ranker.json": "[" * 100_000}, "holds no ranker"),
        ({"ranker.json": "[]"}, "holds no ranker"),
        ({"weights.safetensors": "somebody's model"}, "holds no ranker"),
    ],
)
def test_saving_over_anything_else_is_refused(files: dict[str, str], message: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=message):
        linear().save(tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == files


def test_saving_over_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ranker").write_text("mine")
    with pytest.raises(CldrankError, match="is a file"):
        linear().save(tmp_path / "ranker")
    assert (tmp_path / "ranker").read_text() == "mine"


def test_a_save_that_fails_leaves_the_older_ranker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    linear().save(tmp_path / "ranker")

    def full(*arguments: Any, **options: Any) -> int:
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="no space"):
        linear(intercept=9.0).save(tmp_path / "ranker")
    again = load_ranker(tmp_path / "ranker")
    assert isinstance(again, LinearRanker)
    assert again.intercept == 1 / 3
    assert [path.name for path in tmp_path.iterdir()] == ["ranker"]


def rewrite(folder: Path, description: dict[str, Any], tensors: dict[str, NDArray[Any]] | bytes) -> None:
    """Write a folder whose digest is right, so that the checks behind it are reached."""
    content = tensors if isinstance(tensors, bytes) else safetensors.numpy.save(tensors)
    (folder / "weights.safetensors").write_bytes(content)
    description |= {"weights_sha256": hashlib.sha256(content).hexdigest()}
    (folder / "ranker.json").write_text(json.dumps(description))


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


Change = Callable[[dict[str, Any], dict[str, Any]], Any]
DAMAGES: list[tuple[Change, str]] = [
    (lambda json, _: json.update(format="other"), 'lacks "format": "cldrank-ranker"'),
    (lambda json, _: json.update(format_version=2), "format version 2; .*Upgrade cldrank"),
    (lambda json, _: json.update(format_version="1"), "format_version is '1'"),
    (lambda json, _: json.update(format_version=True), "format_version is True"),
    (lambda json, _: json.update(kind="os.system"), "kind of ranker 'os.system' is not known"),
    (lambda json, _: json.pop("kind"), "'kind' must be a str"),
    (lambda json, _: json.update(feature_names="abcd"), "'feature_names' must be a list"),
    (lambda json, _: json.update(feature_names=["a", "b", "c"]), "for 3 features|3,"),
    (lambda json, _: json.update(feature_names=["a", "b", "c", 4]), "feature_names must be texts"),
    (lambda json, _: json.update(feature_names=["a", "b", "c", "a"]), "each different"),
    (lambda json, _: json["scaling"].update(method="magic"), "no scaling 'magic'"),
    (lambda json, _: json["scaling"].update(options={"clip": 0}), "clip must be"),
    (lambda json, _: json.update(scaling=None), "'scaling' must be a dict"),
    (lambda json, _: json["provenance"].update(rows="many"), "rows of the provenance"),
    (lambda json, _: json["provenance"].update(mood="good"), "provenance cannot be read"),
    (lambda json, _: json.update(scaling=nested(900)), "'scaling' must be a dict"),
    (lambda json, _: json.update(format_version=10**4000), "format version 1000"),
    (lambda json, _: json["scaling"].update(n_features=10**4000), "n_features must be a whole number"),
    (lambda json, _: json["scaling"].update(options={"clip": 10**4000}), "clip must be"),
    (lambda json, _: json["scaling"].update(options={"clip": float("inf")}), "clip must be"),
    (lambda json, _: json["scaling"].update(options=[1]), "the scaling cannot be made from"),
    (
        lambda json, _: json["scaling"].update(method="quantile", options={"knots": 10**4000}),
        "knots must be a whole number",
    ),
    (lambda json, _: json["scaling"].update(method="none", options={}, n_features=10**12), "it needs"),
    (lambda _, arrays: arrays.pop("scorer.coefficients"), "'coefficients' of a linear ranker is missing"),
    (lambda _, arrays: arrays.pop("scaling.center"), "it needs"),
    (lambda _, arrays: arrays.update({"scorer.coefficients": np.zeros(5)}), r"must be float64 \(4,\)"),
    (lambda _, arrays: arrays.update({"scorer.coefficients": np.zeros(4, np.float32)}), "must be float64"),
    (lambda _, arrays: arrays.update({"scorer.coefficients": np.full(4, np.nan)}), "'bm25' is nan"),
    (lambda _, arrays: arrays.update({"scorer.intercept": np.array([np.inf])}), "intercept is inf"),
    (lambda _, arrays: arrays.update({"scorer.bias": np.zeros(1)}), "has no array 'bias'"),
    (lambda _, arrays: arrays.update({"scaling.factor": np.full(4, np.inf)}), "not finite"),
    (lambda _, arrays: arrays.update({"other": np.zeros(1)}), "'other', which belongs to nothing"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGES)
def test_a_folder_with_something_wrong_is_refused(damage: Change, message: str, tmp_path: Path) -> None:
    linear().save(tmp_path)
    description = json.loads((tmp_path / "ranker.json").read_text())
    tensors = dict(safetensors.numpy.load_file(tmp_path / "weights.safetensors"))
    damage(description, tensors)
    rewrite(tmp_path, description, tensors)
    with pytest.raises(FormatError, match=message) as caught:
        load_ranker(tmp_path)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "ranker.json: not JSON"),
        (b'{"format":\n "cldrank-ranker",', "ranker.json: not JSON .*line 2"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON .nested too deeply"),
        (b'{"format": ' + b"9" * 5000 + b"}", "not JSON .*digits"),
        (b"[1, 2]", "does not describe a ranker"),
    ],
)
def test_a_description_that_is_no_json_is_refused(text: bytes, message: str, tmp_path: Path) -> None:
    linear().save(tmp_path)
    (tmp_path / "ranker.json").write_bytes(text)
    with pytest.raises(FormatError, match=message):
        load_ranker(tmp_path)


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    linear().save(tmp_path)
    weights = tmp_path / "weights.safetensors"
    whole = weights.read_bytes()
    description = json.loads((tmp_path / "ranker.json").read_text())
    for damaged in (whole[:-8], whole[:20], b"", whole[:-1] + bytes([whole[-1] ^ 1])):
        weights.write_bytes(damaged)
        with pytest.raises(FormatError, match="damaged, or of another"):
            load_ranker(tmp_path)
    header = b'{"scorer.coefficients":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}}'
    for damaged in (
        whole[:-8],
        whole[:20],
        b"",
        b"\x80\x04\x95 pickled",
        len(header).to_bytes(8, "little") + header + bytes(8),
        (2**62).to_bytes(8, "little") + whole[8:],
        whole.replace(b'"shape":[4]', b'"shape":[9]'),
    ):
        rewrite(tmp_path, description, damaged)
        with pytest.raises(FormatError, match="not a safetensors file"):
            load_ranker(tmp_path)


@pytest.mark.parametrize("name", ["ranker.json", "weights.safetensors"])
def test_a_missing_file_is_named(name: str, tmp_path: Path) -> None:
    linear().save(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(FormatError, match=re.escape(str(tmp_path / name))):
        load_ranker(tmp_path)


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        load_ranker(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="is a file"):
        load_ranker(tmp_path / "file")


def test_every_kind_can_be_loaded() -> None:
    assert {kind: ranker.kind for kind, ranker in rankers.files.KINDS.items()} == {
        kind: kind for kind in rankers.files.KINDS
    }


@pytest.mark.parametrize("through_link", [False, True])
def test_a_ranker_that_a_kill_left_between_two_renames_is_found_again(tmp_path: Path, through_link: bool) -> None:
    linear().save(tmp_path / "ranker")
    (tmp_path / "ranker").rename(tmp_path / ".ranker.abcdefgh.old")
    (tmp_path / ".ranker.abcdefgh.part").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "ranker")
    again = load_ranker(tmp_path / ("link" if through_link else "ranker"))
    assert again.provenance == ORIGIN
    assert (tmp_path / "ranker" / "ranker.json").is_file()


@pytest.mark.parametrize("method", ["standard", None])
def test_scores_that_are_not_finite_are_refused_with_their_row(method: str | None) -> None:
    ranker = linear(method, coefficients=np.full(4, 1.7e308))
    ordinary = np.zeros((3, 4), dtype=np.float32)
    if method == "standard":
        ordinary[:] = ranker.scaling.parameters["center"]
    ordinary[2] = 1e30
    with pytest.raises(DataError, match=r"the score of row 2 \(counted from 0\) is inf"):
        ranker.predict(ordinary, block_rows=2)
