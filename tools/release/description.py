"""What describes a release: its version, its metadata, the README as PyPI shows it, and the files that GitHub reads."""

from __future__ import annotations

import re
import sys
import zipfile
from email import message_from_bytes
from email.message import Message
from html.parser import HTMLParser
from pathlib import Path

from release.steps import Release, ReleaseError, run_command

SCHEMAS = {  # of check-jsonschema, for the files that GitHub and others read
    "vendor.citation-file-format": ["CITATION.cff"],
    "vendor.compose-spec": ["examples/compose/compose.yaml"],
    "vendor.dependabot": [".github/dependabot.yml"],
    "vendor.github-issue-config": [".github/ISSUE_TEMPLATE/config.yml"],
    "vendor.github-issue-forms": [".github/ISSUE_TEMPLATE/bug.yml"],
    "vendor.github-workflows": [
        f".github/workflows/{name}.yml" for name in ("live", "release", "site", "test", "weekly")
    ],
}
NEEDED = ("Summary", "License-Expression", "License-File", "Requires-Python", "Keywords", "Project-URL", "Classifier")


def check_version(release: Release) -> str:
    """Source, changelog, citation and tag must name one version, changelog and citation one day."""
    changelog = _found(release.root / "CHANGELOG.md", r"^## (\S+)(?: \((.*)\))?$", '"## 0.1.0 (2026-11-16)"')
    citation = _found(release.root / "CITATION.cff", r'^version: "?([^"\s]+)', "`version: 0.1.0`")
    day = _found(release.root / "CITATION.cff", r'^date-released: "?([^"\s]+)', "`date-released: 2026-11-16`")
    stated = {"CHANGELOG.md": changelog[1], "CITATION.cff": citation[1]}
    if release.tag:
        stated["the tag"] = release.tag.removeprefix("v")
    for where, version in stated.items():
        if version != release.version:
            raise ReleaseError(
                f"{where} says {version}, src/cldrank/_version.py says {release.version}; let all say the same."
            )
    if changelog[2] != day[1]:
        raise ReleaseError(f"CHANGELOG.md says {changelog[2]}, CITATION.cff says {day[1]}; let both name the same day.")
    return f"{release.version} of {day[1]} in source, changelog and citation"


def check_files(release: Release) -> str:
    """Citation, issue form, workflows and engines must be what their readers expect."""
    for schema, names in SCHEMAS.items():
        if missing := [name for name in names if not (release.root / name).is_file()]:
            raise ReleaseError(
                f"{missing[0]} is not there; bring it back, or take it out of tools/release/description.py."
            )
        command = [sys.executable, "-m", "check_jsonschema", "--force-filetype", "yaml", "--builtin-schema", schema]
        run_command([*command, *(release.root / name for name in names)], release.root)
    return f"{sum(map(len, SCHEMAS.values()))} files are valid by their schemas"


def check_metadata(release: Release) -> str:
    """Both files must pass twine, no field may be missing, and the README must work away from the repository."""
    run_command([sys.executable, "-m", "twine", "check", "--strict", release.wheel, release.sdist], release.scratch)
    metadata = read_metadata(release.wheel)
    if missing := [name for name in NEEDED if not metadata.get(name)]:
        raise ReleaseError(f"the metadata lack {', '.join(missing)}; see [project] in pyproject.toml.")
    if not supported_pythons(metadata):
        raise ReleaseError('no classifier "Programming Language :: Python :: 3.…" says which Pythons are supported.')
    links = check_links(str(metadata.get_payload()))
    return f"twine accepts both files; {links} links and pictures of the README are absolute"


def read_metadata(wheel: Path) -> Message:
    """What a wheel says about itself."""
    with zipfile.ZipFile(wheel) as zipped:
        (name,) = [one for one in zipped.namelist() if one.endswith(".dist-info/METADATA")]
        return message_from_bytes(zipped.read(name))


def supported_pythons(metadata: Message) -> list[str]:
    """The Pythons that the classifiers name, such as 3.11."""
    pattern = re.compile(r"Programming Language :: Python :: (3\.\d+)")
    return [found[1] for one in metadata.get_all("Classifier", []) if (found := pattern.fullmatch(one))]


def check_links(readme: str) -> int:
    """How many links and pictures the README has, as PyPI renders it; a relative one is refused."""
    from readme_renderer import markdown

    rendered = markdown.render(readme)
    if rendered is None:
        raise ReleaseError("the README cannot be rendered; install the release tools: pip install '.[release]'.")
    collected = _Addresses()
    collected.feed(rendered)
    for address in collected.found:
        if not address.startswith(("https://", "#", "mailto:")):
            raise ReleaseError(
                f"README.md: {address} leads nowhere on PyPI; see the substitutions of the README in pyproject.toml."
            )
    return len(collected.found)


class _Addresses(HTMLParser):
    """Collects what a page links to and shows."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002  # as the base has it
        self.found += [value for name, value in attrs if name in ("href", "src", "srcset") and value]


def _found(path: Path, pattern: str, example: str) -> re.Match[str]:
    found = re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise ReleaseError(f"{path.name} names no version or day; write {example}.")
    return found
