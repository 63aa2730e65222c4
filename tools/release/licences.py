"""The licences of what is installed with cldrank: permissive ones, or exceptions with a reason."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from release.steps import ReleaseError, run_command

# What an MIT-licensed package can depend on. MPL-2.0 binds changes to its own files alone, and we change none.
ALLOWED = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0",
    "HPND", "ISC", "MIT", "MIT-0", "MIT-CMU", "MPL-2.0", "PSF-2.0", "Unlicense", "Zlib",
}  # fmt: skip
EXCEPTIONS = {  # by the name of the package
    "nvidia-*": "NVIDIA's own licence; torch and xgboost bring it on Linux, for GPUs, and we do not pass it on",
    "cuda-*": "NVIDIA's own licence; torch brings it on Linux, for GPUs, and we do not pass it on",
}
TOOLS = ("pip", "setuptools", "wheel")  # of every environment, and not dependencies

# Names that older metadata use. "BSD License" leaves open which one is meant; all of them are allowed.
NAMES = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}

# Runs in the environment that is looked at, which has none of our tools.
_LIST_INSTALLED = """
import json
from importlib import metadata
def described(one):
    said = one.metadata
    classifiers = [text.split(" :: ")[-1] for text in said.get_all("Classifier", []) if text.startswith("License ::")]
    return {"name": one.name, "version": one.version, "expression": said.get("License-Expression", ""),
            "field": said.get("License", ""), "classifiers": classifiers}
print(json.dumps([described(one) for one in metadata.distributions()]))
"""


class Dependency(NamedTuple):
    """A package, its licence as an SPDX expression or in the words of its metadata, and whether it is an exception."""

    name: str
    version: str
    licence: str
    excepted: bool


def check_licences(python: Path, folder: Path) -> str:
    """Judge all packages of an environment, print them by licence, and refuse what is neither allowed nor explained."""
    found = judge(json.loads(run_command([python, "-I", "-c", _LIST_INSTALLED], folder)))
    by_licence: dict[str, list[str]] = {}
    for one in found:
        by_licence.setdefault(one.licence, []).append(one.name + ("*" if one.excepted else ""))
    for licence, names in sorted(by_licence.items()):
        print(f"    {licence}: {', '.join(names)}")
    for pattern, reason in EXCEPTIONS.items():
        if any(fnmatch(one.name, pattern) for one in found):
            print(f"    * {pattern}: {reason}")
    return f"{len(found)} packages, {sum(one.excepted for one in found)} of them by exception"


def judge(installed: Sequence[dict[str, Any]]) -> list[Dependency]:
    """Each package with its licence; a licence that is not allowed is refused.

    >>> one = {"name": "rich", "version": "15", "expression": "", "field": "MIT", "classifiers": ["MIT License"]}
    >>> judge([one])
    [Dependency(name='rich', version='15', licence='MIT', excepted=False)]
    """
    found = []
    for one in sorted(installed, key=lambda one: str(one["name"]).lower()):
        name = re.sub(r"[-_.]+", "-", one["name"]).lower()
        if name in (*TOOLS, "cldrank"):
            continue
        licence = stated_licence(one)
        excepted = any(fnmatch(name, pattern) for pattern in EXCEPTIONS)
        if not excepted and not is_allowed(licence):
            raise ReleaseError(
                f"{one['name']} {one['version']} has the licence {licence or 'of no name'!r}, which is "
                "not on the list in tools/release/licences.py; do without the package, or add the licence or an "
                "exception with its reason."
            )
        found.append(Dependency(name, one["version"], licence, excepted))
    return found


def stated_licence(one: dict[str, Any]) -> str:
    """What a package's metadata say: the expression, else the short field, else the classifiers."""
    field = one["field"].strip()
    named = [NAMES.get(name, name) for name in one["classifiers"]]
    short = NAMES.get(field, field) if field and "\n" not in field and len(field) < 60 else ""
    if one["expression"] or (short and is_allowed(short)):
        return str(one["expression"] or short)
    return " OR ".join(named) if named else short or field.split("\n")[0]


def is_allowed(expression: str) -> bool:
    """Whether an SPDX expression allows what an allowed licence allows: all of what AND joins, one of what OR joins.

    >>> is_allowed("MPL-2.0 AND (GPL-3.0-only OR MIT)"), is_allowed("MIT AND GPL-3.0-only"), is_allowed("")
    (True, False, False)
    """
    from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

    try:
        text = str(canonicalize_license_expression(expression))
    except InvalidLicenseExpression:
        return False
    inner = re.compile(r"\(([^()]*)\)")
    while found := inner.search(text):  # innermost brackets first; what they come to is a licence of that kind
        text = text.replace(found[0], "MIT" if _flat(found[1]) else "LicenseRef-no", 1)
    return _flat(text)


def _flat(expression: str) -> bool:
    """The same for an expression without brackets, where AND binds closer than OR."""
    return any(all(part in ALLOWED for part in either.split(" AND ")) for either in expression.split(" OR "))
