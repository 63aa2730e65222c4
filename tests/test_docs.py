"""Generated documentation is what the code says now; links lead somewhere; a script does what its page says."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import api_pages
import pictures
import pytest

import cldrank as cr
import docs
from cldrank.errors import CldrankError, CldrankWarning

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", [name for name in docs.GENERATED if name.endswith(".md")])
def test_generated_pages_are_up_to_date(name: str) -> None:
    written = (ROOT / name).read_text(encoding="utf-8")
    assert written == docs.GENERATED[name](), f"{name} is stale: run `make docs`"


# -- the API pages -------------------------------------------------------------------------------------------------

INNER = ("clicks.aggregate", "clicks.imports", "clicks.simulate", "data.synthetic", "propensity.behaviour")
ROOMS = (
    "errors",
    "experiment",
    "mlflow",
    "scoring",
    "spark",
    *(name for name in dir(cr) if inspect.ismodule(getattr(cr, name))),
)
PUBLIC = {
    f"{room}.{name}": getattr(importlib.import_module(room), name)
    for room in ("cldrank", *(f"cldrank.{name}" for name in dict.fromkeys((*ROOMS, *INNER))))
    for name in (dir(cr) if room == "cldrank" else importlib.import_module(room).__all__)
    if name != "__version__"
}
DOCUMENTED = [name for page in sorted(api_pages.PAGES.glob("*.md")) for name in api_pages.names_on(page)]


def test_every_public_name_is_on_one_api_page() -> None:
    shown = [id(api_pages.found(name)) for name in DOCUMENTED]
    public = {name: what for name, what in PUBLIC.items() if not inspect.ismodule(what)}
    assert [name for name, what in public.items() if shown.count(id(what)) != 1] == []
    assert [name for name in DOCUMENTED if name not in public] == []


ELSEWHERE = {  # whose example takes more than a docstring: it is run on a page
    "cldrank.SparkDataset": "how-to/scale.md",
    "cldrank.mlflow.log_model": "how-to/registries.md",
    "cldrank.collect.collect_features": "how-to/collect-features.md",
    "cldrank.pipeline.run_pipeline": "how-to/pipeline.md",
    "cldrank.experiment.save_report": "how-to/experiments.md",
    "cldrank.evaluation.ClickComparison": "explanation/verdict.md",
    "cldrank.evaluation.ClickEvaluation": "explanation/verdict.md",
}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_public_name_has_an_example(name: str) -> None:
    if name in ELSEWHERE:
        assert name.rpartition(".")[2] in (ROOT / "docs" / ELSEWHERE[name]).read_text(encoding="utf-8")
        return
    what = api_pages.found(name)
    if inspect.isclass(what) and issubclass(what, CldrankError | CldrankWarning):
        return  # an example of an error is what raises it
    about = inspect.getdoc(what) or ""
    own = [about, *(inspect.getdoc(one) or "" for one in vars(what).values())] if inspect.isclass(what) else [about]
    assert any(doctest.DocTestParser().get_examples(text) for text in own)


@pytest.mark.parametrize("page", [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))])
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(<?(?!https?:|#|<)([^)#\s>]+)", page.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_pictures_are_in_the_documentation(name: str) -> None:
    page = (pictures.DOCS / name).read_text(encoding="utf-8")
    assert ElementTree.fromstring(page).tag.endswith("svg")  # noqa: S314  # of our own making
    folder = (pictures.DOCS / name).parent
    assert any(f"]({(pictures.DOCS / name).name})" in text.read_text(encoding="utf-8") for text in folder.glob("*.md"))


def test_the_causal_graph_is_up_to_date() -> None:
    name = "explanation/causal-graph.svg"
    assert (pictures.DOCS / name).read_text(encoding="utf-8") == pictures.causal_graph(), (
        f"run tools/pictures.py {name}"
    )
