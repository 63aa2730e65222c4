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

import cldrank
from cldrank.service.metrics import ServiceMetrics

ROOT = Path(__file__).parents[1]
RECIPES = ROOT / "docs" / "how-to" / "examples"


@pytest.mark.parametrize(
    ("schema", "pattern"),
    [("github-workflows", ".github/workflows/*.yml"), ("compose-spec", "examples/compose/compose.yaml")],
)
def test_workflows_and_engines_follow_their_schemas(schema: str, pattern: str) -> None:
    checked = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run([*checked, *ROOT.glob(pattern)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_actions_and_images_are_pinned() -> None:
    used = [
        line.strip()
        for path in (ROOT / ".github" / "workflows").glob("*.yml")
        for line in path.read_text().splitlines()
        if "uses:" in line and "./" not in line
    ]
    assert [line for line in used if not re.search(r"@[0-9a-f]{40} # v\d", line)] == []
    services = yaml.safe_load((ROOT / "examples/compose/compose.yaml").read_text())["services"]
    assert [
        one["image"] for one in services.values() if not re.search(r":\d+\.\d+\.\d+(@sha256:|$)", one["image"])
    ] == []


def test_every_engine_is_in_the_workflow() -> None:
    live = yaml.safe_load((ROOT / ".github" / "workflows" / "live.yml").read_text())["jobs"]["live"]
    services = yaml.safe_load((ROOT / "examples/compose/compose.yaml").read_text())["services"]
    ports = {name: {port.split(":")[1] for port in one["ports"]} for name, one in services.items()}
    for entry in live["strategy"]["matrix"]["include"]:
        assert entry["variable"] == f"CLDRANK_LIVE_{entry['engine'].upper()}"
        assert re.search(r"localhost:(\d+)", entry["address"])[1] in ports.pop(entry["engine"])  # type: ignore[index]
    assert not ports


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
    samples = {line.split(" ")[0].partition("{")[0] for line in metrics.text().decode().splitlines() if line[0] != "#"}
    labels = set(re.findall(r"(\w+)=\"", metrics.text().decode()))
    shown: set[str] = set()
    for panel in json.loads((RECIPES / "grafana.json").read_text())["panels"]:
        for target in panel["targets"]:
            shown |= set(re.findall(r"cldrank_\w+", target["expr"]))
            grouped = re.findall(r"by \(([^)]*)\)", target["expr"])
            assert {name.strip() for names in grouped for name in names.split(",")} <= labels
    assert shown <= samples
    assert {name.removesuffix("_bucket") for name in shown} >= {"cldrank_requests_total", "cldrank_rank_seconds"}
