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
        ("[train]", "[trian]", r"Did you mean train\?"),
        ("features.", "log.first_postion = 0\nfeatures.", r"log\.first_postion .*first_position"),
        ("features.", "log.columns = 3\nfeatures.", r"log\.columns"),
        ('log.files = "log.parquet"', "", r"log\.files"),
        ('features.files = "train.parquet"', "", r"features\.files"),
        ('method = "ips"', 'method = "isp"', r"train\.method .*Did you mean ips"),
        ('method = "ips"', 'method = "cld"\ngama = 1', r"train\.gama .*gamma"),
        ('method = "ips"', 'method = "ips"\nclip = 2', r"train: `clip`"),
        ('method = "ips"', 'method = "ips"\nmodel = "tree"', r"train\.model"),
        ('method = "ips"', 'method = "auto"\nmodel = "mlp"', r"train\.model: auto chooses the model"),
        ('method = "ips"', 'method = "auto"\nclip = 0.1', r"train\.clip"),
        ('method = "ips"', 'method = "auto"\nseed = -1', r"train: `seed`"),
        ('method = "ips"', 'method = "oracle"', r"oracle learns from labels"),
        ('method = "ips"', 'method = "ips"\nsafe_margin = 0.1', r"safe = true"),
        ('features.files = "train.parquet"', 'features.files = "\\u0000"', r"features\.files must be a text"),
        ("trust_propensity = false", 'ship_if = "beter"', r"'beter'"),
        ("trust_propensity = false", 'ship_if = ["worse"]', r"verdict\.ship_if"),
        ("trust_propensity = false", 'measures = ["AP"]', r"verdict\.measures"),
        ("trust_propensity = false", 'estimator = "robust"', r"verdict\.estimator"),
        ('["onnx", "opensearch"]', '["onx"]', r"'onx'"),
        ('["onnx", "opensearch"]', '["onnx"]\nversions.solr = "9"', r"export\.versions\.solr"),
        ('["onnx", "opensearch"]', '["onnx"]\nfolder = "runs"', r"two folders"),
        ("[train]", '[propensities]\nmethod = "envelope"\n[train]', r"lower bound"),
        ("[train]", '[propensities]\nassume = "power:x"\n[train]', r"'power:x'"),
        ("[train]", '[propensities]\nassume = "rho.json"\n[train]', r"'rho\.json'"),
        ("[train]", '[propensities]\nassume = "none"\nfile = "x"\n[train]', r"choose one"),
        ("[train]", "[train", r"TOML"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = tmp_path / "pipeline.toml"
    path.write_text(DEFINITION.replace(old, new), encoding="utf-8")
    with pytest.raises(CldrankError, match=words) as caught:
        read_pipeline(path)
    assert isinstance(caught.value, FormatError)
    assert "pipeline.toml" in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file; `cldrank pipeline new"):
        read_pipeline(tmp_path / "pipeline.toml")
