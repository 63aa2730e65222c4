"""What `import cldrank` offers."""

import inspect
import subprocess
import sys

import cldrank


def test_every_name_can_be_had_from_the_top() -> None:
    program = (
        "import cldrank as cr\nfor name in cr.__all__: getattr(cr, name)\nprint(cr.tune, cr.tuning.tune is cr.tune)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.startswith("<function tune")
    assert found.stdout.strip().endswith("True")
    assert cldrank.__all__ == list(dict.fromkeys(cldrank.__all__))


def test_the_rooms_that_users_need_are_modules() -> None:
    for room in ("clicks", "data", "estimators", "measures", "propensity", "rankers", "scaling", "tuning"):
        assert inspect.ismodule(getattr(cldrank, room))
        assert room in dir(cldrank)
