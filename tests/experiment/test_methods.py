from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from cldrank.errors import CldrankError, MissingDependencyError, UsageError
from cldrank.experiment.methods import REGISTERED, maker


def test_the_registered_names() -> None:
    ours = ["naive", "ips", "heckman", "rankagg", "cld", "cld-pair", "oracle", "cld-n", "cld-pair-l", "pijd"]
    ours += ["affine-ips", "policy-aware-ips"]
    assert list(REGISTERED)[:12] == ours
    networks = ("naive", "ips", "oracle", "cld-n", "affine-ips", "policy-aware-ips")
    assert {REGISTERED[name].parameters.get("model") for name in networks} == {"mlp"}
    assert all(registered.label.casefold().startswith(name[:3]) for name, registered in REGISTERED.items())


def test_what_takes_a_seed_is_given_it(folder: Path) -> None:
    assert maker("cld", {}, "").chosen(seed=4) == {"seed": 4}
    assert maker("cld", {"seed": 9}, "").chosen(seed=4) == {"seed": 9}
    assert maker("own_rankers:ByFirst", {}, "").chosen(seed=4) == {}
    assert maker("cld", {}, "").describe(4)["defaults"]["l2"] == 1e-3


def test_only_our_own_name_is_short_for_the_estimators(folder: Path) -> None:
    (folder / "mycldrank.py").write_text((folder / "own_rankers.py").read_text())
    assert maker("mycldrank:ByFirst", {}, "").home == "mycldrank:ByFirst"
    assert maker("cldrank:CLD", {}, "").home == "cldrank.estimators:CLD"


@pytest.mark.parametrize(
    ("use", "complaint"),
    [
        ("nowhere_to_be_found:Ranker", "there is no module 'nowhere_to_be_found' here"),
        ("own_rankers:Nobody", "the module own_rankers has no Nobody"),
        ("own_rankers:Unfit", "own_rankers:Unfit cannot take part: it has no predict"),
        ("own_rankers:np", "own_rankers:np cannot take part: it is not a class"),
        ("broken_module:Mine", r"broken_module:Mine: the module cannot be imported \(SyntaxError"),
        ("leaving_module:Mine", r"leaving_module:Mine: the module cannot be imported \(SystemExit: 3\)"),
        ("failing_module:Mine", r"failing_module:Mine: the module cannot be imported \(ZeroDivisionError"),
    ],
)
def test_classes_that_cannot_take_part(folder: Path, use: str, complaint: str) -> None:
    (folder / "broken_module.py").write_text("def\n")
    (folder / "leaving_module.py").write_text("import sys\nsys.exit(3)\n")
    (folder / "failing_module.py").write_text("1 / 0\n")
    with pytest.raises(CldrankError, match=complaint):
        maker(use, {}, "methods.Mine")


def test_a_class_that_cannot_be_made(folder: Path) -> None:
    source = """
class Picky:
    def __init__(self, size=1):
        self.size = size + 0
    def get_params(self, deep=True):
        return {"size": self.size, "clip": float("inf"), "map": {1: {2}}}
    fit = predict = None.__eq__
"""
    (folder / "picky.py").write_text(source)
    with pytest.raises(UsageError, match=r"picky:Picky cannot be made with \{'size': 'x'\} \(TypeError"):
        maker("picky:Picky", {"size": "x"}, "").describe(0)
    described = maker("picky:Picky", {}, "").describe(0)
    assert described["defaults"] == {"size": 1, "clip": "inf", "map": {"1": "{2}"}}


def test_a_missing_package_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, package=None: None if name == "lightgbm" else real(name, package)
    )
    with pytest.raises(MissingDependencyError, match=r"lightgbm-ips needs lightgbm.*pip install 'cldrank\[peers\]'"):
        maker("lightgbm-ips", {}, "")
