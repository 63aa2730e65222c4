from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from cldrank.errors import MissingDependencyError, UsageError
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
    ],
)
def test_classes_that_cannot_take_part(folder: Path, use: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        maker(use, {}, "methods.Mine")


def test_a_missing_package_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, package=None: None if name == "lightgbm" else real(name, package)
    )
    with pytest.raises(MissingDependencyError, match=r"lightgbm-ips needs lightgbm.*pip install 'cldrank\[peers\]'"):
        maker("lightgbm-ips", {}, "")
