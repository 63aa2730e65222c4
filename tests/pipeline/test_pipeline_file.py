from __future__ import annotations

from pathlib import Path

import pytest
from small_pipeline import DEFINITION, write_definition

from cldrank.errors import CldrankError, FormatError, UsageError
from cldrank.pipeline import read_pipeline


def test_a_definition_knows_all_defaults(tmp_path: Path) -> None:
    found = read_pipeline(write_definition(tmp_path))
    assert found.log.files == ("log.parquet",)
    assert found.audit.stop_at == "blocking"
    assert found.propensities.method == "auto"
    assert found.train.hold_out == 0.2
    assert found.verdict.ship_if == ("better",)
    assert found.export.to == ("onnx", "opensearch")
    assert found.path(found.runs.folder) == tmp_path / "runs"


def test_options_come_from_what_they_are_for(tmp_path: Path) -> None:
    changes = [
        ("features.", "log.first_position = 0\nlog.columns = { query_id = 'qid' }\nfeatures.missing = 0\nfeatures."),
        ("[train]", '[propensities]\nmethod = "all-pairs"\ndepth = 3\n[train]\nmodel = "mlp"\nepochs = 7\nclip = 0.1'),
        ('["onnx", "opensearch"]', '["solr"]\nversions = { solr = "9.8" }\nrename = { title = "t" }'),
    ]
    found = read_pipeline(write_definition(tmp_path, changes))
    assert found.options["log"] == {"first_position": 0, "columns": {"query_id": "qid"}}
    assert found.options["features"] == {"missing": 0}
    assert found.options["propensities"] == {"depth": 3}
    assert found.options["train"] == {"seed": 0, "model": "mlp", "epochs": 7, "clip": 0.1}
    assert found.options["export"] == {"versions": {"solr": "9.8"}, "rename": {"title": "t"}}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[train]", "[trian]", r"trian is unknown\. Did you mean train\? Known here: seed, log"),
        (
            "features.",
            "log.first_postion = 0\nfeatures.",
            r"log\.first_postion is unknown\. Did you mean first_position",
        ),
        ("features.", "log.columns = 3\nfeatures.", r"log\.columns must be a table of names"),
        ("features.", "log.again = true\nfeatures.", r"log\.again is unknown"),
        ('log.files = "log.parquet"', "", r"log\.files is missing"),
        ('features.files = "train.parquet"', "", r"features\.files is missing"),
        ('method = "ips"', 'method = "isp"', r"train\.method must be 'naive', 'ips', .*Did you mean ips"),
        ('method = "ips"', 'method = "ips"\ngama = 1', r"train\.gama is unknown"),
        ('method = "ips"', 'method = "cld"\ngama = 1', r"train\.gama is unknown\. Did you mean gamma"),
        ('method = "ips"', 'method = "ips"\nclip = 2', r"train: `clip` must be a number above 0 and up to 1"),
        ('method = "ips"', 'method = "ips"\nmodel = "tree"', r"train\.model must be 'linear', 'mlp' or 'trees'"),
        ('method = "ips"', 'method = "oracle"', r"oracle learns from labels; a pipeline learns from clicks"),
        ('method = "ips"', 'method = "ips"\nhold_out = 1.5', r"train\.hold_out must be a number above 0 and below 1"),
        ('method = "ips"', 'method = "ips"\nsafe = "yes"', r"train\.safe must be true or false, not 'yes'"),
        ('method = "ips"', 'method = "ips"\nsafe_margin = 0.1', r"are for safe = true"),
        ('method = "ips"', 'method = "ips"\ncheckpoint = "x"', r"train\.checkpoint is unknown"),
        (
            "trust_propensity = false",
            'ship_if = "beter"',
            r"must be 'better', 'worse', .*not 'beter'\. Did you mean better",
        ),
        ("trust_propensity = false", "ship_if = []", r"must let a better ranker pass"),
        ("trust_propensity = false", 'ship_if = ["worse"]', r"must let a better ranker pass"),
        ("trust_propensity = false", 'measures = ["AP"]', r"verdict\.measures: "),
        ("trust_propensity = false", 'estimator = "robust"', r"verdict\.estimator: "),
        ('["onnx", "opensearch"]', '["onx"]', r"export\.to: .*'onx'"),
        ('["onnx", "opensearch"]', '["onnx"]\nversions.solr = "9"', r"export\.versions\.solr is unknown"),
        ('["onnx", "opensearch"]', '["onnx"]\nrename = 3', r"export\.rename must be a table of names"),
        ('["onnx", "opensearch"]', '["onnx"]\nfolder = "runs"', r"must be two folders"),
        (
            "[train]",
            '[propensities]\nmethod = "all-pair"\n[train]',
            r"propensities\.method.* mean all-pairs\?",
        ),
        ("[train]", '[propensities]\nmethod = "envelope"\n[train]', r"finds a lower bound, not a curve"),
        (
            "[train]",
            '[propensities]\nassume = "power:x"\n[train]',
            r"propensities\.assume: 'power:x' is not a power law",
        ),
        ("[train]", '[propensities]\nassume = "rho.json"\n[train]', r"propensities\.assume must be \"power:1\.0\""),
        (
            "[train]",
            '[propensities]\nassume = "none"\nfile = "x"\n[train]',
            r"choose one of method .*, assume .* and file",
        ),
        ("[train]", "seed = -1\n[train]", r"`seed` must be a whole number of at least 0"),
        ("[train]", "train = 3\n[other]", r"other is unknown"),
        ("[train]", "[train", r"a TOML file"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(tmp_path: Path, old: str, new: str, words: str) -> None:
    text = DEFINITION.replace(old, new)
    if old == "[train]" and new.startswith(("seed", "train")):
        text = f"{new.partition('[')[0]}{DEFINITION.replace('[train]', '[' + new.partition('[')[2])}"
    path = tmp_path / "pipeline.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CldrankError, match=words) as caught:
        read_pipeline(path)
    assert isinstance(caught.value, FormatError)
    assert "pipeline.toml" in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file; `cldrank pipeline new"):
        read_pipeline(tmp_path / "pipeline.toml")
