"""Rankers saved and loaded."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from made_rankers import (
    NAMES,
    ORIGIN,
    RANKERS,
    Change,
    dataset,
    linear,
    nested,
    rewrite,
    weights,
)

from cldrank import rankers, scaling
from cldrank.errors import CldrankError, FormatError, UsageError
from cldrank.rankers import LinearRanker, load_ranker


@pytest.mark.parametrize("method", ["standard", "minmax", "log", scaling.Standard(clip=0.1), None])
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
    for name in ("ranker.json", "weights.safetensors", "README.md"):
        assert (tmp_path / "second" / name).read_bytes() == (tmp_path / "deep" / "ranker" / name).read_bytes()


def test_saving_replaces_an_older_ranker_and_fills_an_empty_folder(tmp_path: Path) -> None:
    linear(intercept=1.0).save(tmp_path)
    linear(intercept=2.0).save(tmp_path)
    again = load_ranker(tmp_path)
    assert isinstance(again, LinearRanker)
    assert again.intercept == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "ranker.json", "weights.safetensors"]


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


@pytest.mark.parametrize("name", ["README.md", "NOTES.md"])
def test_a_folder_in_the_place_of_a_file_is_not_removed(name: str, tmp_path: Path) -> None:
    linear().save(tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).mkdir()
    (tmp_path / name / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match=f"holds '{name}', which is not part of a ranker"):
        linear().save(tmp_path)
    assert (tmp_path / name / "thesis.tex").exists()


def test_saving_over_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ranker").write_text("mine")
    with pytest.raises(CldrankError, match="is a file"):
        linear().save(tmp_path / "ranker")
    assert (tmp_path / "ranker").read_text() == "mine"


def test_a_save_that_fails_leaves_the_older_ranker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    linear().save(tmp_path / "ranker")

    def full(*arguments: Any, **options: Any) -> int:
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="no space"):
        linear(intercept=9.0).save(tmp_path / "ranker")
    again = load_ranker(tmp_path / "ranker")
    assert isinstance(again, LinearRanker)
    assert again.intercept == 1 / 3
    assert [path.name for path in tmp_path.iterdir()] == ["ranker"]


DAMAGES: list[tuple[Change, str]] = [
    (lambda json, _: json.update(format="other"), 'lacks "format": "cldrank-ranker"'),
    (lambda json, _: json.update(format_version=2), "format version 2; .*Upgrade cldrank"),
    (lambda json, _: json.update(format_version="1"), "format version '1'"),
    (lambda json, _: json.update(format_version=True), "format version True"),
    (lambda json, _: json.update(kind="os.system"), "kind of ranker 'os.system' is not known"),
    (lambda json, _: json.pop("kind"), "kind"),
    (lambda json, _: json.update(feature_names="abcd"), "feature_names"),
    (lambda json, _: json.update(feature_names=["a", "b", "c"]), "must be 3 finite"),
    (lambda json, _: json.update(feature_names=["a", "b", "c", 4]), r"feature_names\[3\]"),
    (lambda json, _: json.update(feature_names=["a", "b", "c", "a"]), "different from each other"),
    (lambda json, _: json.update(feature_names=["a", "b", "c", "\ud800"]), "not JSON"),
    (lambda json, _: json["scaling"].update(method="magic"), "a scaling cannot be made from .*'magic'"),
    (lambda json, _: json["scaling"].update(clip=0), "`clip` must be"),
    (lambda json, _: json.update(scaling=None), "'scaling' must be a dict"),
    (lambda json, _: json["provenance"].update(mood="good"), "unknown field `mood`"),
    (lambda json, _: json["provenance"]["method"].update(mood="good"), "unknown field `mood`.*method"),
    (lambda json, _: json["provenance"]["evaluations"][0].update(mood="good"), "unknown field `mood`.*evaluations"),
    (lambda json, _: json["provenance"].update(fingerprint="abc"), "fingerprint"),
    (lambda json, _: json["provenance"].update(command="\ud800"), "not JSON"),
    (lambda json, _: json["provenance"].update(held_out=1.0), "held_out"),
    (lambda json, _: json["provenance"]["method"].pop("label"), "label"),
    (lambda json, _: json["provenance"]["clicks"].update(clicks=10**400), "clicks"),
    (lambda json, _: json["provenance"]["propensities"][""].update(low=[1]), "low has not as many entries"),
    (
        lambda json, _: json["provenance"]["evaluations"][0].update(measures={"AP": 0.5}),
        "measures",
    ),
    (lambda json, _: json.update(scaling=nested(900)), "'scaling' must be a dict"),
    (lambda json, _: json.update(format_version=10**4000), "format version 1000"),
    (lambda json, _: json["scaling"].update(clip=10**4000), "`clip` must be"),
    (lambda json, _: json["scaling"].update(clip=float("inf")), "not JSON"),
    (lambda json, _: json["scaling"].update(clap=1), "a scaling cannot be made from"),
    (lambda json, _: json.update(scaling={"method": "none"}), "it needs"),
    (lambda _, arrays: arrays.pop("coefficients"), "has float64 coefficients and one float64 intercept"),
    (lambda _, arrays: arrays.pop("scaling.center"), "it needs"),
    (lambda _, arrays: arrays.update({"coefficients": np.zeros(5)}), r"shape \(5,\) for 4"),
    (lambda _, arrays: arrays.update({"coefficients": np.zeros(4, np.float32)}), "has float64 coefficients"),
    (lambda _, arrays: arrays.update({"coefficients": np.full(4, np.nan)}), "'bm25' is nan"),
    (lambda _, arrays: arrays.update({"intercept": np.array([np.inf])}), "intercept is inf"),
    (lambda _, arrays: arrays.update({"bias": np.zeros(1)}), "has float64 coefficients"),
    (lambda _, arrays: arrays.update({"scaling.factor": np.full(4, np.inf)}), "finite float64"),
    (lambda _, arrays: arrays.update({"other": np.zeros(1)}), "has float64 coefficients"),
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
        (b'{"format":\n "cldrank-ranker",', "ranker.json: not JSON .*truncated"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON .nested too deeply"),
        (b'{"format": ' + b"9" * 5000 + b"}", "not JSON .*out of range"),
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
        with pytest.raises(FormatError, match="damaged, or from another ranker"):
            load_ranker(tmp_path)
    header = b'{"coefficients":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}}'
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
    with pytest.raises(UsageError, match="no such file"):
        load_ranker(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        load_ranker(tmp_path / "file")


def test_every_kind_can_be_loaded() -> None:
    assert {kind: ranker.kind for kind, ranker in rankers.ranker_folder.KINDS.items()} == {
        kind: kind for kind in rankers.ranker_folder.KINDS
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


@pytest.mark.parametrize("name", RANKERS)
def test_every_kind_of_ranker_comes_back_exactly(name: str, tmp_path: Path) -> None:
    ranker = RANKERS[name]()
    ranker.save(tmp_path / "ranker")
    again = load_ranker(tmp_path / "ranker")
    assert type(again) is type(ranker)
    assert again.provenance == ORIGIN
    np.testing.assert_array_equal(again.predict(dataset()), ranker.predict(dataset()))
    again.save(tmp_path / "second")
    for file in ("ranker.json", "weights.safetensors", "README.md"):
        assert (tmp_path / "second" / file).read_bytes() == (tmp_path / "ranker" / file).read_bytes()


DAMAGED_RANKERS: list[tuple[str, Change, str]] = [
    ("network", lambda json, _: json["layers"].__setitem__(1, "eval"), "not 'eval'"),
    ("network", lambda json, _: json["layers"].__setitem__(1, ["elu"]), r"not \['elu'\]"),
    ("network", lambda json, _: json["layers"].__setitem__(0, "elu"), "without numbers"),
    ("network", lambda json, _: json["layers"].pop(), "no array|ends"),
    ("network", lambda json, _: json.update(layers="linear"), "'layers' must be a list"),
    ("network", lambda json, _: json.pop("layers"), "'layers' must be a list"),
    ("network", lambda _, arrays: arrays.pop("0.weight"), "needs a matrix"),
    ("network", lambda _, arrays: arrays.update({"0.weight": weights(16, 5)}), "takes 5 numbers"),
    ("network", lambda _, arrays: arrays.update({"0.bias": weights(3)}), "does not fit"),
    ("network", lambda _, arrays: arrays.update({"9.weight": weights(1, 1)}), "no array '9.weight'"),
    ("network", lambda _, arrays: arrays.update({"0.weight": weights(16, 4) * np.nan}), "finite"),
    ("network", lambda _, arrays: arrays.update({"other": weights(1)}), "has no array 'other'"),
    ("borda", lambda json, _: json.update(members={}), "'members' must be a list"),
    ("borda", lambda json, _: json["members"].pop(), "belongs to no member"),
    (
        "borda",
        lambda json, _: json["members"][0].update(kind="borda"),
        "member 1 must be of the kind linear, network or trees",
    ),
    ("borda", lambda json, _: json["members"][0].update(kind=["linear"]), "member 1 must be of the kind"),
    ("borda", lambda json, _: json.update(weights=[1, "2"]), r"from 0 to 1e\+280"),
    ("borda", lambda json, _: json.update(weights=[1, True]), r"from 0 to 1e\+280"),
    ("borda", lambda json, _: json.update(weights=[1, 10**400]), r"from 0 to 1e\+280"),
    ("borda", lambda json, _: json.update(weights=[1, 1e308]), r"from 0 to 1e\+280"),
    ("borda", lambda json, _: json.update(weights=[1, float("nan")]), "not JSON"),
    ("borda", lambda json, _: json.update(weights=[[1], 1]), r"from 0 to 1e\+280"),
    ("borda", lambda json, _: json.update(members=[[], []]), "member 1 must be of the kind linear, network or trees"),
    ("borda", lambda json, _: json["members"][1].update(scaling=3), "'scaling' must be a dict"),
    ("borda", lambda json, _: json.update(weights=[1]), "1 weights for 2 members"),
    ("borda", lambda json, _: json.update(weights=[1, -1]), "from 0 to"),
    ("borda", lambda _, arrays: arrays.update({"1.coefficients": np.zeros(3)}), "for 4 features"),
]


@pytest.mark.parametrize(("name", "damage", "message"), DAMAGED_RANKERS)
def test_a_folder_of_any_kind_with_something_wrong_is_refused(
    name: str, damage: Change, message: str, tmp_path: Path
) -> None:
    RANKERS[name]().save(tmp_path)
    description = json.loads((tmp_path / "ranker.json").read_text())
    tensors = dict(safetensors.numpy.load_file(tmp_path / "weights.safetensors"))
    damage(description, tensors)
    rewrite(tmp_path, description, tensors)
    with pytest.raises(FormatError, match=message) as caught:
        load_ranker(tmp_path)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("name", RANKERS)
def test_loading_never_unpickles(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    RANKERS[name]().save(tmp_path)

    def forbidden(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("something was unpickled")

    for target in ("pickle.load", "pickle.loads", "pickle.Unpickler", "torch.load"):
        monkeypatch.setattr(target, forbidden)
    assert load_ranker(tmp_path).kind == name
