"""What `import cldrank` offers."""

import inspect
import subprocess
import sys

import pytest

import cldrank
from cldrank.methods import methods
from cldrank.models import models

HEAVY = ("torch", "sklearn", "numba", "pandas", "optuna")
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


def test_importing_it_loads_nothing_heavy() -> None:
    program = f"import sys, cldrank\nprint([name for name in {HEAVY} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_rooms_that_users_need_are_modules() -> None:
    for room in (
        "clicks", "data", "evaluation", "export", "measures", "methods", "models", "pipeline", "propensity",
        "rankers", "scaling", "tuning",
    ):  # fmt: skip
        assert inspect.ismodule(getattr(cldrank, room))
        assert room in dir(cldrank)


def test_the_whole_road_is_at_the_top() -> None:
    for step in ("load", "import_log", "audit", "tune", "evaluate", "compare", "score", "export_ranker", "load_ranker"):
        assert inspect.isfunction(getattr(cldrank, step))
        assert step in dir(cldrank)


def test_the_room_of_clicks_shows_what_it_has() -> None:
    program = (
        "import cldrank as cr\nprint(dir(cr.clicks), [getattr(cr.clicks, name).__name__ for name in dir(cr.clicks)])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.startswith("['ClickTable', 'DayFolder', 'LogLayout', 'aggregate', 'imports', 'simulate']")
    assert "cldrank.clicks.simulate" in found.stdout
    with pytest.raises(AttributeError, match="module 'cldrank.clicks' has no attribute 'nonsense'"):
        cldrank.clicks.nonsense  # noqa: B018


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


@pytest.mark.parametrize("name", ["Nonsense", "nonsense", "Training", "_HOMES2"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'cldrank' has no attribute '{name}'"):
        getattr(cldrank, name)


@pytest.mark.parametrize(
    ("uses", "allowed"),
    [
        ("cldrank.CLD; cldrank.CLDPair; cldrank.methods.method_named('cld')()", set()),
        ("cldrank.MLP(); cldrank.Trees(); cldrank.Linear()", set()),
        ("cldrank.ClickTable; cldrank.RankingDataset; cldrank.Propensities; cldrank.propensity.AllPairs()", set()),
        ("cldrank.evaluate; cldrank.compare; cldrank.measures; cldrank.safety; cldrank.tune", set()),
        ("cldrank.load_ranker; cldrank.judge_documents; dir(cldrank)", set()),
        ("cldrank.load; cldrank.score; cldrank.import_log", {"pyarrow"}),
    ],
)
def test_names_are_had_without_what_only_their_use_needs(uses: str, allowed: set[str]) -> None:
    program = f"import sys, cldrank\n{uses}\nprint(*{NEEDED_LATE} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(found.stdout.split()) <= allowed
