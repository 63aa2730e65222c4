from __future__ import annotations

from pathlib import Path
from typing import Any

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


def test_a_label_stands_for_one_method_in_all_of_them() -> None:
    described: dict[str, Any] = {}
    for experiment in shipped():
        for method in experiment.methods:
            entry = (method.use, dict(method.parameters))
            assert described.setdefault(method.label, entry) == entry
    as_published = {"target": "ips", "envelope": "off"}
    for label, (use, chosen) in described.items():
        follows = use in ("ips", "rankagg", "cld", "cld-pair") and label not in BEYOND
        assert (chosen.items() >= as_published.items()) == follows, label
        assert ("model" in chosen and chosen["model"] == "trees") == label.endswith(" trees")


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


def test_a_method_can_vary(folder: Path) -> None:
    made = read("small.toml", changes=["vary.methods.CLD.gamma=[0.1, 0.3]"])
    assert [one.varied for one in made.settings()] == ['{"methods.CLD.gamma": 0.1}', '{"methods.CLD.gamma": 0.3}']
    assert made.settings()[1].experiment.methods[1].parameters == {"gamma": 0.3}


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
    with pytest.raises(UsageError, match="small has no method 'nobody'; it has Naive, CLD and Oracle"):
        labels("nobody")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("simulation.dept=3", "small.toml: simulation.dept is unknown. Did you mean depth?"),
        ("simulation.depth=2.5", "small.toml: simulation.depth must be a whole number of at least 1, not 2.5"),
        ("simulation.depth=0", "simulation.depth must be a whole number of at least 1, not 0"),
        ("simulation.assumed_eta=-1", "simulation.assumed_eta must be a number of at least 0, not -1"),
        ("simulation.noise=2", "simulation.noise must be a number of at least 0 and up to 1, not 2"),
        ("simulation.eta=large", "simulation.eta must be a number of at least 0, not 'large'"),
        ("simulation=3", "simulation must be a table, not 3"),
        ("production.fraction=0", "production.fraction must be a number above 0 and up to 1, not 0"),
        ("seed=3", "seed is unknown. Did you mean seeds? Known here: title, seeds"),
        ("seeds=0", "seeds must be a number of seeds"),
        ("title=3", "title must be a text, not 3"),
        ("measures=nDGC@3", "there is no measure 'nDGC'"),
        ("measures=[]", "measures must be a list"),
        ("methods.CLD=3", "methods.CLD must be a table"),
        ("methods.Mine={}", "methods.Mine: there is no method 'mine'"),
        ("methods.CLD.use=3", "methods.CLD.use must be a text"),
        ("vary.simulation.eta=1", "vary.simulation.eta must be a list of values, not 1"),
        ("vary.simulation.etta=[1]", "simulation.etta is unknown. Did you mean eta?"),
        ("vary.simulation.noise=[0.1, 3]", "simulation.noise must be a number of at least 0 and up to 1, not 3"),
        ("vary.seeds=[1]", "vary.seeds: only keys of production, simulation and methods can vary"),
        ("vary=1", "vary must be a table"),
        ("simulation.noise", "'simulation.noise' is not of the form KEY=VALUE"),
        ("a b=1", "'a b' is not a key"),
        ("data.name=[1]", "data.name must be a text"),
        ("simulation.sessions=inf", "simulation.sessions must be a finite number, not inf"),
        ("simulation.sessions=nan", "simulation.sessions must be a finite number, not nan"),
        ("simulation.sessions=-1", "simulation.sessions must be a whole number of at least 1, not -1"),
        ("simulation.sessions=1e300", "simulation.sessions is too large"),
        ("simulation.sessions=9223372036854775808", "simulation.sessions is too large"),
        (f"simulation.eta={'9' * 400}", "simulation.eta is too large"),
        ("simulation.eta=inf", "simulation.eta must be a finite number, not inf"),
        ("simulation.relevant_from=nan", "simulation.relevant_from must be a finite number, not nan"),
        (
            "simulation.sessions=1979-05-27",
            "simulation.sessions must be a text, a number, true, false or a list of these, not 1979",
        ),
        (f"simulation.depth={'[' * 5000}{']' * 5000}", "nested too deeply"),
        (f"simulation.depth={'[' * 90}{']' * 90}", "nested too deeply"),
        (f"simulation.depth={'9' * 5000}", "Exceeds the limit"),
        ("methods.CLD.gamma=inf", "methods.CLD.gamma must be a finite number, not inf"),
        ("methods.CLD.gamma=[0.1, nan]", "methods.CLD.gamma must be a finite number, not nan"),
        ("methods.CLD.gamma=1979-05-27", "methods.CLD.gamma must be a text, a number, true, false or a list"),
        (f"methods.CLD.gamma={'9' * 400}", "methods.CLD.gamma is too large"),
        ("vary.methods.CLD.gamma=[07:32:00]", "vary.methods.CLD.gamma must be a text, a number"),
        ("seeds=1000000000", "seeds must be a number of seeds from 1 to 1000"),
        ("seeds=[4294967296]", "or a list of seeds from 0 to 4294967295"),
        ("measures=[1]", "measures must be a list"),
    ],
)
def test_mistakes_are_explained(folder: Path, change: str, complaint: str) -> None:
    with pytest.raises(CldrankError) as caught:
        read("small.toml", changes=[change])
    assert complaint in str(caught.value)


def test_what_varies_cannot_be_set() -> None:
    with pytest.raises(UsageError, match="simulation.noise varies here; write vary.simulation.noise="):
        read("rq3-noise", changes=["simulation.noise=0.2"])


def test_files_that_are_none(folder: Path) -> None:
    with pytest.raises(UsageError, match="there is no such experiment or file; shipped are table1"):
        read("table7")
    (folder / "broken.toml").write_text("data = = 3\n")
    with pytest.raises(FormatError, match=r"broken.toml: not a TOML file .*at line 1"):
        read("broken.toml")
    (folder / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FormatError, match=r"binary.toml: not a text file"):
        read("binary.toml")
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


@pytest.mark.parametrize("name", ["..:x", ":x", "a:", ".a:B", "a..b:C", "a b:C", "a:B:C", "a:1", "a\0b:C"])
def test_a_class_is_named_by_module_and_class(folder: Path, name: str) -> None:
    with pytest.raises(UsageError, match="module:Class"):
        read("small.toml", methods=[name])
    with pytest.raises(CldrankError, match="module:Class|NUL"):
        read("small.toml", changes=[f"methods.Mine.use={name}"])


def test_an_experiment_does_not_change() -> None:
    with pytest.raises(AttributeError):
        read("table1").simulation.eta = 3  # type: ignore[misc]


def test_a_device_goes_to_the_methods_that_take_one() -> None:
    from cldrank.experiment.makers import maker

    assert read("table1", changes=['device="cuda"']).device == "cuda"
    assert read("table1").device is None
    assert maker("cld-pair", {}, "", "cuda").chosen(seed=1) == {"device": "cuda", "seed": 1}
    assert maker("cld-pair", {"device": "cpu"}, "", "cuda").chosen(seed=1) == {"device": "cpu", "seed": 1}
    assert maker("heckman", {}, "", "cuda").chosen(seed=1) == {"seed": 1}
    described = [maker("cld-pair", {}, "", device).describe(1) for device in (None, "cuda")]
    assert described[0] == described[1]  # where a unit is computed does not make it another
    with pytest.raises(UsageError, match="device must be a text"):
        read("table1", changes=["device=3"])
