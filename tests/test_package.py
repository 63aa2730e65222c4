"""What `import cldrank` offers."""

import inspect
import subprocess
import sys

import pytest

import cldrank
from cldrank.methods import methods
from cldrank.models import models

NEEDED_LATE = {
    "duckdb", "jinja2", "joblib", "narwhals", "numba", "pandas", "pyarrow",
    "pyspark", "scipy", "sklearn", "torch", "xgboost",
}  # fmt: skip


def test_every_name_can_be_had_from_the_top() -> None:
    program = "import cldrank as cr\nfor name in dir(cr): getattr(cr, name)\nprint(cr.tune, cr.tuning.tune is cr.tune)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.startswith("<function tune")
    assert found.stdout.strip().endswith("True")
    assert dir(cldrank) == sorted(set(dir(cldrank)))


def test_help_lists_the_parameters() -> None:
    about = inspect.getdoc(cldrank.CLD) or ""
    assert "gamma=0.1 " in about
    assert "selection_coef_ " in about
    for kind in (*methods().values(), *models().values(), cldrank.Run):
        assert "\nParameters\n" in (inspect.getdoc(kind) or "")


def test_all_methods_and_models_are_at_the_top() -> None:
    for kind in (*methods().values(), *models().values()):
        assert getattr(cldrank, kind.__name__) is kind
        assert kind.__name__ in dir(cldrank)


@pytest.mark.parametrize("name", ["Nonsense", "_HOMES2"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'cldrank' has no attribute '{name}'"):
        getattr(cldrank, name)


@pytest.mark.parametrize(
    ("uses", "allowed"),
    [
        ("cldrank.CLD; cldrank.CLDPair; cldrank.methods.method_named('cld')(); cldrank.MLP(); cldrank.Trees()", set()),
        (
            "cldrank.ClickTable; cldrank.Propensities; cldrank.propensity.AllPairs(); cldrank.evaluate;"
            "cldrank.measures; cldrank.compare; cldrank.safety; cldrank.tune; cldrank.load_ranker;"
            "cldrank.judge_documents; dir(cldrank)",
            set(),
        ),
        ("cldrank.load; cldrank.score; cldrank.import_log", {"pyarrow"}),
    ],
)
def test_names_are_had_without_what_only_their_use_needs(uses: str, allowed: set[str]) -> None:
    program = f"import sys, cldrank\n{uses}\nprint(*{NEEDED_LATE} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(found.stdout.split()) <= allowed
