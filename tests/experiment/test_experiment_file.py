from __future__ import annotations

from pathlib import Path

import pytest

from cldrank.errors import CldrankError, FormatError, UsageError
from cldrank.experiment.experiment_file import SHIPPED, read, shipped

SEVEN = ["Naive", "IPS", "Heckman^rank", "RankAgg", "CLD", "CLD-pair", "Oracle"]
BEYOND = ["CLD-pair+", "Naive trees", "IPS trees", "CLD-pair trees", "Oracle trees"]


def test_the_shipped_ones() -> None:
    found = {
        one.name: (len(one.settings()), [method.label for method in one.methods], len(one.seeds)) for one in shipped()
    }
    assert found == {
        "table1": (1, [*SEVEN, *BEYOND], 5),
        "rq1-cutoff": (8, [*SEVEN, *BEYOND], 5),
        "rq1-position": (5, [*SEVEN, *BEYOND], 5),
        "rq2-sessions": (4, [*SEVEN, *BEYOND], 5),
        "rq3-noise": (4, [*SEVEN, *BEYOND], 5),
        "rq4-misspecified": (10, [*(one for one in SEVEN if one != "Heckman^rank"), *BEYOND], 5),
        "rq5-models": (1, ["CLD", "CLD-N", "CLD-pair", "CLD-pair-L", "CLD-pair+", "CLD-pair trees"], 5),
        "rq6-robust": (12, ["Naive", "CLD", "CLD-pair", "Oracle", *BEYOND], 5),
    }
    assert list(found) == list(SHIPPED)


def test_the_papers_conditions() -> None:
    table1 = read("table1").simulation
    assert (table1.depth, table1.eta, table1.sessions, table1.noise) == (5, 0.1, 100_000, 0.1)
    wrong = read("rq4-misspecified")
    assert wrong.simulation.eta == 1.0
    assert wrong.vary["simulation.depth"] == (3, 5)
    assumed = wrong.vary["simulation.assumed_eta"]
    assert (min(assumed), max(assumed), 1.0 in assumed) == (0.0, 2.0, True)
    depths, etas, noises = (
        read(name).vary[f"simulation.{key}"]
        for name, key in (("rq1-cutoff", "depth"), ("rq1-position", "eta"), ("rq3-noise", "noise"))
    )
    assert [(min(v), max(v)) for v in (depths, etas, noises)] == [(2, 20), (0.0, 2.0), (0.0, 0.5)]
    assert {one.production.fraction for one in shipped()} == {0.01}


def test_settings_are_all_combinations() -> None:
    settings = read("rq4-misspecified").settings()
    assert settings[0].varied == '{"simulation.assumed_eta": 0.0, "simulation.depth": 3}'
    assert len({setting.varied for setting in settings}) == 10
    assert settings[-1].experiment.simulation.depth == 5
    assert settings[-1].experiment.simulation.assumed_eta == 2.0


def test_changes(folder: Path) -> None:
    made = read(
        "small.toml",
        data="web10k-like",
        changes=["simulation.noise=0.3", "methods.CLD.gamma=0.1", "vary.simulation.eta=[0, 1]", "data.queries=60"],
        seeds=3,
    )
    assert made.simulation.noise == 0.3
    assert made.methods[1].parameters == {"gamma": 0.1}
    assert [one.varied for one in made.settings()] == ['{"simulation.eta": 0.0}', '{"simulation.eta": 1.0}']
    assert (made.data.name, made.data.queries) == ("web10k-like", 60)
    assert made.seeds == (0, 1, 2)
    assert read("table1", changes=["seeds=[4, 7]"]).seeds == (4, 7)
    assert read("table1", changes=["simulation.sessions=1e6"]).simulation.sessions == 1_000_000


def test_methods_are_restricted_or_added(folder: Path) -> None:
    def labels(*names: str) -> list[str]:
        made = read("small.toml", methods=names)
        assert [one.label for one in made.settings()[0].experiment.methods] == [one.label for one in made.methods]
        return [one.label for one in made.methods]

    assert labels() == ["Naive", "CLD", "Oracle"]
    assert labels("cld") == ["CLD"]
    assert labels("own_rankers:ByFirst") == ["Naive", "CLD", "Oracle", "ByFirst"]
    assert labels("CLD", "own_rankers:ByFirst") == ["CLD", "ByFirst"]
    assert read("small.toml", methods=["CLD"]).methods[0].parameters == {"gamma": 0.2}
    assert [one.label for one in read("table1", methods=["cld-pair TREES", "cld-pair"]).methods] == [
        "CLD-pair trees", "CLD-pair",
    ]  # fmt: skip
    with pytest.raises(UsageError, match="'nobody'"):
        labels("nobody")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("simulation.dept=3", "small.toml: simulation.dept is unknown. Did you mean depth?"),
        ("simulation.depth=2.5", "not 2.5"),
        ("simulation.noise=2", "simulation.noise"),
        ("seed=3", "Did you mean seeds?"),
        ("seeds=0", "seeds"),
        ("seeds=[4294967296]", "4294967295"),
        ("measures=nDGC@3", "'nDGC'"),
        ("methods.Mine={}", "methods.Mine"),
        ("vary.simulation.eta=1", "vary.simulation.eta"),
        ("vary.simulation.etta=[1]", "Did you mean eta?"),
        ("vary.simulation.noise=[0.1, 3]", "simulation.noise"),
        ("vary.seeds=[1]", "vary.seeds"),
        ("vary.methods.Nobody.gamma=[1]", "vary.methods.Nobody"),
        ("simulation.noise", "KEY=VALUE"),
        ("simulation.sessions=inf", "simulation.sessions must be a finite number"),
        ("simulation.sessions=9223372036854775808", "simulation.sessions is too large"),
        ("simulation.sessions=1979-05-27", "simulation.sessions"),
        (f"simulation.depth={'[' * 5000}{']' * 5000}", "nested too deeply"),
        ("methods.CLD.gamma=[0.1, nan]", "methods.CLD.gamma"),
    ],
)
def test_mistakes_are_explained(folder: Path, change: str, complaint: str) -> None:
    with pytest.raises(CldrankError) as caught:
        read("small.toml", changes=[change])
    assert complaint in str(caught.value)


def test_what_varies_cannot_be_set() -> None:
    with pytest.raises(UsageError, match="vary.simulation.noise="):
        read("rq3-noise", changes=["simulation.noise=0.2"])


def test_files_that_are_none(folder: Path) -> None:
    with pytest.raises(UsageError, match="table7.*table1"):
        read("table7")
    (folder / "broken.toml").write_text("data = = 3\n")
    with pytest.raises(FormatError, match=r"broken.toml: not a TOML file .*at line 1"):
        read("broken.toml")
    (folder / "empty.toml").write_text("")
    with pytest.raises(FormatError, match=r"empty.toml: data is missing"):
        read("empty.toml")
    (folder / "bare.toml").write_text('data = "msrd"')
    with pytest.raises(FormatError, match=r"bare.toml: methods is missing"):
        read("bare.toml")


def test_a_change_that_is_wrong_is_a_wrong_call(folder: Path) -> None:
    with pytest.raises(UsageError, match="simulation.depth must be a whole number of at least 1"):
        read("small.toml", changes=["simulation.depth=0"])
    (folder / "wrong.toml").write_text((folder / "small.toml").read_text().replace("depth = 3", "depth = 0"))
    with pytest.raises(FormatError, match="simulation.depth must be a whole number of at least 1"):
        read("wrong.toml")
    assert read("wrong.toml", changes=["simulation.depth=2"]).simulation.depth == 2


def test_a_label_is_not_taken_twice(folder: Path) -> None:
    with pytest.raises(UsageError, match="there is a method CLD already"):
        read("small.toml", methods=["cldrank.methods:CLD"])
    assert [one.label for one in read("small.toml", methods=["CLD", "cld"]).methods] == ["CLD"]


@pytest.mark.parametrize("name", ["..:x", "a:", "a:1"])
def test_a_class_is_named_by_module_and_class(folder: Path, name: str) -> None:
    with pytest.raises(UsageError, match="module:Class"):
        read("small.toml", methods=[name])
    with pytest.raises(CldrankError, match="module:Class"):
        read("small.toml", changes=[f"methods.Mine.use={name}"])
