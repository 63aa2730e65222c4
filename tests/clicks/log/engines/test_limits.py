from __future__ import annotations

from pathlib import Path

import pytest

from cldrank.clicks.log.engines.limits import querying
from cldrank.errors import DataError


def test_a_signal_while_the_engine_computes_is_not_a_fault_of_the_log() -> None:
    with pytest.raises(KeyboardInterrupt), querying([Path("log.csv")]):
        raise RuntimeError("Query interrupted")
    with pytest.raises(DataError, match=r"log\.csv: the log cannot be read \(broken\)"), querying([Path("log.csv")]):
        raise RuntimeError("broken")
