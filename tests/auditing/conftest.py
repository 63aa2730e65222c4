from __future__ import annotations

from pathlib import Path

import pytest
from audit_logs import Logs, MakeLogs


@pytest.fixture
def logs(tmp_path: Path) -> MakeLogs:
    return lambda **options: Logs(tmp_path, **options)
