"""Code blocks of the README and of docs/ are tests: see `tests/helpers/pages.py`."""

from pathlib import Path

import pytest
from pages import PAGES

ON_SPARK = Path(__file__).parent / "docs" / "how-to" / "spark.md"
pytest_collect_file = PAGES.pytest()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The page that starts Spark takes as long as all tests of a room."""
    for item in items:
        if item.path == ON_SPARK:
            item.add_marker(pytest.mark.slow)
