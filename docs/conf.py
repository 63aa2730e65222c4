"""How Sphinx builds the documentation: `make site`, with warnings as errors."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import cldrank

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import api_pages

project = "cldrank"
author = "The cldrank developers"
copyright = author  # noqa: A001
version = release = cldrank.__version__
SOURCE = f"https://github.com/cldrank/cldrank/blob/v{release}"

sys.path.append(str(Path(__file__).with_name("_ext")))
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "mathml",
    "experiment_reports",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]
nitpicky = True

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

autodoc_default_options = {"members": True, "member-order": "bysource", "exclude-members": "__new__, __init__"}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_inherit_docstrings = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"cldrank {release}"
html_static_path = ["_static"]
html_css_files = ["cldrank.css"]
html_theme_options = {
    "source_repository": "https://github.com/cldrank/cldrank/",
    "source_branch": "main",
    "source_directory": "docs/",
}
copybutton_exclude = ".linenos, .gp, .go"  # copy commands, not prompts and output


def _link_to_sources(_app: Any, _name: str, text: list[str]) -> None:
    """Links to files outside of docs/, which work in a checkout, lead to the repository on the site."""
    text[0] = re.sub(r"\]\((?:\.\./)+((?:src|tests|benchmarks|tools)/[^)#]*)", rf"]({SOURCE}/\1", text[0])


def _list_names(_app: Any, name: str, text: list[str]) -> None:
    """A page of the API begins with a table of its names."""
    if name.startswith("reference/api/"):
        text[0] = api_pages.with_names_listed(text[0])


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _link_to_sources)
    app.connect("source-read", _list_names)
    app.connect("autodoc-process-docstring", api_pages.write_docstring)
    app.connect("autodoc-process-signature", api_pages.write_signature)
    app.connect("missing-reference", api_pages.find_type)
