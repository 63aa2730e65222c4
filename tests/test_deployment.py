"""Recipes and workflows are what their tools take: by the schemas and linters of others, and by our own metrics."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from release import description
from release.steps import Release

import cldrank
from cldrank.service.metrics import ServiceMetrics

ROOT = Path(__file__).parents[1]
CHECKOUT = pytest.mark.skipif(not (ROOT / ".github").is_dir(), reason="a source distribution has no workflows")
RECIPES = ROOT / "docs" / "how-to" / "examples"


@CHECKOUT
def test_workflows_and_engines_follow_their_schemas() -> None:
    listed = {"vendor.github-workflows": ".github/workflows/*", "vendor.compose-spec": "examples/compose/*.yaml"}
    for schema, pattern in listed.items():
        names = [path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob(pattern))]
        assert names == sorted(description.SCHEMAS[schema])
    description.check_files(Release(ROOT, ROOT))


@CHECKOUT
def test_engines_are_pinned_and_in_the_workflow() -> None:
    services = yaml.safe_load((ROOT / "examples" / "compose" / "compose.yaml").read_text())["services"]
    live = yaml.safe_load((ROOT / ".github" / "workflows" / "live.yml").read_text())["jobs"]["live"]
    entries = {entry["engine"]: entry for entry in live["strategy"]["matrix"]["include"]}
    assert entries.keys() == services.keys()
    for engine, service in services.items():
        assert re.search(r":\d+\.\d+\.\d+(@sha256:[0-9a-f]{64})?$", service["image"])
        port = entries[engine]["address"].split(":")[2].partition("/")[0]
        assert any(f":{port}:" in one for one in service["ports"])
        assert entries[engine]["variable"] == f"CLDRANK_LIVE_{engine.upper()}"


def test_the_image_is_linted_and_holds_this_version() -> None:
    recipe = RECIPES / "Containerfile"
    done = subprocess.run([Path(sys.executable).with_name("hadolint"), recipe], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    text = recipe.read_text()
    assert f"ARG CLDRANK={cldrank.__version__}\n" in text
    assert re.search(r"^USER [1-9]", text, re.MULTILINE)
    assert "HEALTHCHECK" in text


def test_the_manifest_is_what_kubernetes_takes() -> None:
    parts = list(yaml.safe_load_all((RECIPES / "kubernetes.yaml").read_text()))
    for part in parts:
        kubernetes_validate.validate(part, kubernetes_validate.latest_version(), strict=True)
    (container,) = parts[0]["spec"]["template"]["spec"]["containers"]
    assert container["image"].endswith(f":{cldrank.__version__}")
    assert container["securityContext"]["readOnlyRootFilesystem"]


def test_the_dashboard_shows_metrics_that_there_are() -> None:
    metrics = ServiceMetrics()
    metrics.requests.labels("/rank", "200").inc()
    metrics.reloads.labels("swapped").inc()
    metrics.unlike_training.labels("f1").inc()
    metrics.ranker_workers.labels("linear", "0").inc()
    given = metrics.text().decode()
    panels = json.loads((RECIPES / "grafana.json").read_text())["panels"]
    asked = " ".join(target["expr"] for panel in panels for target in panel["targets"])
    shown = set(re.findall(r"cldrank_\w+", asked))
    assert shown <= set(re.findall(r"^cldrank_\w+", given, re.MULTILINE))
    assert len(shown) == 7
    grouped = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", asked))))
    assert grouped <= set(re.findall(r"(\w+)=\"", given))
