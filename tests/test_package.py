"""What `import cldrank` offers."""

import inspect
import subprocess
import sys

import pytest

import cldrank
from cldrank.estimators import methods
from cldrank.models import models

HEAVY = ("torch", "sklearn", "numba", "pandas", "optuna")


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
    for room in ("clicks", "data", "estimators", "measures", "models", "propensity", "rankers", "scaling", "tuning"):
        assert inspect.ismodule(getattr(cldrank, room))
        assert room in dir(cldrank)


def test_all_methods_and_models_are_at_the_top() -> None:
    for kind in (*methods().values(), *models().values()):
        assert getattr(cldrank, kind.__name__) is kind
        assert kind.__name__ in dir(cldrank)


@pytest.mark.parametrize("name", ["Nonsense", "nonsense", "Training", "_HOMES2"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'cldrank' has no attribute '{name}'"):
        getattr(cldrank, name)
