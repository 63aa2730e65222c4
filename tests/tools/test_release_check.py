"""What the release check refuses, on small archives made here."""

from __future__ import annotations

import io
import re
import shutil
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from release import contents, description, licences, smoke
from release.steps import Release, ReleaseError

ROOT = Path(__file__).parents[2]
INFO = "cldrank-0.1.0.dist-info"
SOURCE = {"cldrank/__init__.py": b"", "cldrank/py.typed": b"", "cldrank/documents/templates/page.html": b"<p>"}
DESCRIBED = {f"{INFO}/{name}": b"x" for name in ("METADATA", "RECORD", "entry_points.txt", "licenses/LICENSE")}
SDIST = {
    **{name: b"x" for name in contents.TOP_OF_SDIST if "." in name or name.isupper() or name == "Makefile"},
    **{f"{name}/a.py": b"x" for name in ("src", "tests", "docs", "examples", "benchmarks", "tools")},
}


def wheel(folder: Path, more: dict[str, bytes] | None = None, without: str = "") -> Path:
    path = folder / "cldrank-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, content in (SOURCE | DESCRIBED | (more or {})).items():
            if name != without:
                zipped.writestr(zipfile.ZipInfo(name), content)
    return path


def sdist(folder: Path, more: dict[str, bytes] | None = None, without: str = "") -> Path:
    path = folder / "cldrank-0.1.0.tar.gz"
    with tarfile.open(path, "w:gz") as packed:
        for name, content in (SDIST | (more or {})).items():
            if name != without:
                member = tarfile.TarInfo(f"cldrank-0.1.0/{name}")
                member.size = len(content)
                packed.addfile(member, io.BytesIO(content))
    return path


class TestContents:
    def test_what_belongs_there_is_accepted(self, tmp_path: Path) -> None:
        assert contents.check_wheel(wheel(tmp_path), SOURCE).keys() == SOURCE.keys() | DESCRIBED.keys()
        assert contents.check_sdist(sdist(tmp_path, {"tests/goldens/mroz.csv": b"1,2"}))["tests/goldens/mroz.csv"] == 3

    @pytest.mark.parametrize("make", [wheel, sdist])
    def test_a_large_file_is_refused(self, tmp_path: Path, make: Any) -> None:
        allowed, large = {"docs/picture.svg": bytes(1_000_000)}, {"docs/picture.svg": bytes(1_000_001)}
        assert contents.check_sdist(sdist(tmp_path, allowed))
        check = contents.check_sdist if make is sdist else lambda path: contents.check_wheel(path, SOURCE)
        with pytest.raises(ReleaseError, match=r"docs/picture.svg has 1,000,001 bytes, more than 1,000,000"):
            check(make(tmp_path, large))

    @pytest.mark.parametrize("name", ["docs/results/msrd.parquet", "tests/goldens/model.safetensors"])
    def test_data_are_refused(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(ReleaseError, match=f"{name} looks like data"):
            contents.check_sdist(sdist(tmp_path, {name: bytes(100_001)}))

    def test_every_file_of_the_source_is_there_and_nothing_else(self, tmp_path: Path) -> None:
        with pytest.raises(ReleaseError, match=r"lacks cldrank/documents/templates/page.html of src/"):
            contents.check_wheel(wheel(tmp_path, without="cldrank/documents/templates/page.html"), SOURCE)
        with pytest.raises(ReleaseError, match=r"has notes.txt, which git does not know"):
            contents.check_wheel(wheel(tmp_path, {"notes.txt": b""}), SOURCE)

    @pytest.mark.parametrize("name", [*DESCRIBED, "cldrank/py.typed"])
    def test_types_licence_and_metadata_are_there(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(ReleaseError, match=f"lacks {name}"):
            contents.check_wheel(wheel(tmp_path, without=name), SOURCE.keys() - {name})

    def test_the_top_of_the_source_distribution_is_as_expected(self, tmp_path: Path) -> None:
        with pytest.raises(ReleaseError, match=r"has experiments, which nobody expects"):
            contents.check_sdist(sdist(tmp_path, {"experiments/a.toml": b""}))
        with pytest.raises(ReleaseError, match=r"lacks SECURITY.md"):
            contents.check_sdist(sdist(tmp_path, without="SECURITY.md"))


class TestVersion:
    @pytest.fixture
    def release(self, tmp_path: Path) -> Release:
        (tmp_path / "src/cldrank").mkdir(parents=True)
        for name in ("src/cldrank/_version.py", "CHANGELOG.md", "CITATION.cff"):
            shutil.copyfile(ROOT / name, tmp_path / name)
        changelog = tmp_path / "CHANGELOG.md"
        unreleased = re.compile(r"^## Unreleased\n.*?(?=^## )", re.MULTILINE | re.DOTALL)
        changelog.write_text(unreleased.sub("", changelog.read_text()))
        return Release(tmp_path, tmp_path)

    def test_this_release_agrees_with_itself(self, release: Release) -> None:
        assert description.check_version(release).startswith(release.version)
        assert description.check_version(Release(release.root, release.scratch, f"v{release.version}"))

    @pytest.mark.parametrize("name", ["CHANGELOG.md", "CITATION.cff"])
    def test_another_version_is_refused(self, release: Release, name: str) -> None:
        path = release.root / name
        path.write_text(path.read_text().replace(release.version, "9.9.9", 1))
        with pytest.raises(ReleaseError, match=r"says .*, src/cldrank/_version.py says .*; let all say the same"):
            description.check_version(release)


WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


@pytest.mark.skipif(not WORKFLOWS, reason="a source distribution has no workflows")
class TestWorkflows:
    @pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
    def test_actions_are_named_by_commit_and_version(self, path: Path) -> None:
        actions = re.findall(r"uses: (.*)", path.read_text())
        assert actions
        for used in actions:
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+|\./\.github/workflows/weekly\.yml", used)

    @pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
    def test_what_they_make_is_in_the_makefile(self, path: Path) -> None:
        workflow = yaml.safe_load(path.read_text())
        rules = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        for job in workflow["jobs"].values():
            targets = job.get("strategy", {}).get("matrix", {}).get("target", [])
            made = [
                word for step in job.get("steps", []) for word in re.findall(r"make ([a-z-]+)", step.get("run", ""))
            ]
            assert {*targets, *made} <= rules

    def test_a_release_skips_no_page_and_tries_every_python(self) -> None:
        jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]
        assert {"CLDRANK_DATA", "CLDRANK_REQUIRE_DATA"} <= jobs["build"]["env"].keys()
        assert jobs["pypi"]["needs"] == ["build", "install", "thorough"]
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        named = [one.removeprefix("Programming Language :: Python :: ") for one in project["classifiers"]]
        assert jobs["install"]["strategy"]["matrix"]["python"] == [one for one in named if re.fullmatch(r"3\.\d+", one)]


def test_its_python_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("subprocess.run", lambda *_, **__: None)
    smoke.check_readme((ROOT / "README.md").read_text(encoding="utf-8"))
    assert "cr.CLDPair(" in Path("readme.py").read_text(encoding="utf-8")


class TestLicences:
    @staticmethod
    def package(expression: str = "", field: str = "", classifiers: tuple[str, ...] = (), name: str = "one") -> Any:
        return {
            "name": name,
            "version": "1",
            "expression": expression,
            "field": field,
            "classifiers": list(classifiers),
        }

    @pytest.mark.parametrize(
        "package",
        [
            package("BSD-2-Clause AND Apache-2.0 WITH LLVM-exception"),
            package("MPL-2.0 AND (Apache-2.0 OR GPL-3.0-only)"),
            package(field="Copyright 2026, somebody\nAll rights …", classifiers=("BSD License",)),
            package("LicenseRef-NVIDIA-Proprietary", name="nvidia_nccl_cu12"),
        ],
    )
    def test_permissive_ones_and_exceptions_pass(self, package: Any) -> None:
        assert len(licences.judge([package])) == 1

    @pytest.mark.parametrize(
        "package",
        [
            package("MIT AND LGPL-3.0-or-later"),
            package("(MIT OR Apache-2.0) AND GPL-2.0-only"),
            package(),
            package("LicenseRef-NVIDIA-Proprietary"),
        ],
    )
    def test_others_are_refused(self, package: Any) -> None:
        with pytest.raises(ReleaseError, match=r"one 1 has the licence .* not on the list"):
            licences.judge([package])
