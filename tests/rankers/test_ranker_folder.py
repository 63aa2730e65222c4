"""Rankers saved and loaded."""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from made_rankers import NAMES, ORIGIN, RANKERS, Change, dataset, linear, nested, rewrite, weights

from cldrank import scaling
from cldrank.errors import CldrankError, FormatError, UsageError
from cldrank.rankers import LinearRanker, load_ranker

RULES: tuple[Any, ...] = ("minmax", scaling.Standard(clip=0.1), None)


@pytest.mark.parametrize("make", [*(partial(linear, rule) for rule in RULES), *RANKERS.values()])
def test_a_saved_ranker_comes_back_exactly(make: Any, tmp_path: Path) -> None:
    ranker = make()
    ranker.save(tmp_path / "deep" / "ranker")
    again = load_ranker(tmp_path / "deep" / "ranker")
    assert type(again) is type(ranker)
    assert again.feature_names == NAMES
    assert again.provenance == ORIGIN
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


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"ranker.json": '{"format": "cldrank-ranker"}', "notes.txt": "mine"}, "holds 'notes.txt'"),
        ({"ranker.json": '{"format": "other"}'}, "holds no ranker"),
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

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="no space"):
        linear(intercept=9.0).save(tmp_path / "ranker")
    again = load_ranker(tmp_path / "ranker")
    assert isinstance(again, LinearRanker)
    assert again.intercept == 1 / 3
    assert [path.name for path in tmp_path.iterdir()] == ["ranker"]


DAMAGES: list[tuple[str, Change, str]] = [
    ("linear", lambda json, _: json.update(format="other"), "cldrank-ranker"),
    ("linear", lambda json, _: json.update(format_version=2), "version 2; .*Upgrade cldrank"),
    ("linear", lambda json, _: json.update(kind="os.system"), "'os.system'"),
    ("linear", lambda json, _: json.update(feature_names=["a", "b", "c"]), "3"),
    ("linear", lambda json, _: json.update(feature_names=["a", "b", "c", 4]), r"feature_names\[3\]"),
    ("linear", lambda json, _: json.update(feature_names=["a", "b", "c", "a"]), "different"),
    ("linear", lambda json, _: json["scaling"].update(method="magic"), "'magic'"),
    ("linear", lambda json, _: json["scaling"].update(clip=0), "`clip`"),
    ("linear", lambda json, _: json["provenance"].update(mood="good"), "`mood`"),
    ("linear", lambda json, _: json["provenance"]["method"].pop("label"), "label"),
    ("linear", lambda json, _: json["provenance"]["clicks"].update(clicks=10**400), "clicks"),
    ("linear", lambda json, _: json["provenance"]["propensities"][""].update(low=[1]), "low"),
    ("linear", lambda json, _: json["provenance"]["evaluations"][0].update(measures={"AP": 0.5}), "measures"),
    ("linear", lambda json, _: json.update(scaling=nested(900)), "'scaling'"),
    ("linear", lambda json, _: json["scaling"].update(clip=float("inf")), "not JSON"),
    ("linear", lambda json, _: json.update(scaling={"method": "none"}), "it needs"),
    ("linear", lambda _, arrays: arrays.pop("coefficients"), "coefficients"),
    ("linear", lambda _, arrays: arrays.pop("scaling.center"), "it needs"),
    ("linear", lambda _, arrays: arrays.update({"coefficients": np.zeros(5)}), r"\(5,\)"),
    ("linear", lambda _, arrays: arrays.update({"scaling.factor": np.full(4, np.inf)}), "finite"),
    ("linear", lambda _, arrays: arrays.update({"other": np.zeros(1)}), "coefficients"),
    ("network", lambda json, _: json["layers"].__setitem__(1, "eval"), "'eval'"),
    ("network", lambda json, _: json["layers"].__setitem__(0, "elu"), "without numbers"),
    ("network", lambda json, _: json.pop("layers"), "'layers'"),
    ("network", lambda _, arrays: arrays.pop("0.weight"), "matrix"),
    ("network", lambda _, arrays: arrays.update({"other": weights(1)}), "'other'"),
    ("borda", lambda json, _: json.update(members={}), "'members'"),
    ("borda", lambda json, _: json["members"].pop(), "belongs to no member"),
    ("borda", lambda json, _: json["members"][0].update(kind="borda"), "member 1 .*linear, network or trees"),
    ("borda", lambda json, _: json.update(weights=[1, "2"]), r"from 0 to 1e\+280"),
    ("borda", lambda json, _: json.update(members=[[], []]), "member 1"),
    ("borda", lambda json, _: json.update(weights=[1]), "1 weights for 2 members"),
]


@pytest.mark.parametrize(("name", "damage", "message"), DAMAGES)
def test_a_folder_with_something_wrong_is_refused(name: str, damage: Change, message: str, tmp_path: Path) -> None:
    {"linear": linear, **RANKERS}[name]().save(tmp_path)
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
        (b"[" * 100_000, "not JSON .nested too deeply"),
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
    for damaged in (whole[:-8], whole[:-1] + bytes([whole[-1] ^ 1])):
        weights.write_bytes(damaged)
        with pytest.raises(FormatError, match="damaged, or from another ranker"):
            load_ranker(tmp_path)
    header = b'{"coefficients":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}}'
    for damaged in (
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


def test_a_ranker_that_a_kill_left_between_two_renames_is_found_again(tmp_path: Path) -> None:
    linear().save(tmp_path / "ranker")
    (tmp_path / "ranker").rename(tmp_path / ".ranker.abcdefgh.old")
    (tmp_path / ".ranker.abcdefgh.part").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "ranker")
    again = load_ranker(tmp_path / "link")
    assert again.provenance == ORIGIN
    assert (tmp_path / "ranker" / "ranker.json").is_file()


@pytest.mark.parametrize("name", RANKERS)
def test_loading_never_unpickles(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    RANKERS[name]().save(tmp_path)

    def forbidden(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("something was unpickled")

    for target in ("pickle.load", "pickle.loads", "pickle.Unpickler", "torch.load"):
        monkeypatch.setattr(target, forbidden)
    assert load_ranker(tmp_path).kind == name
