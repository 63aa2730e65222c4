from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from audit_logs import Logs
from browser import Checked, look

from cldrank.auditing import Audit, audit
from cldrank.clicks.aggregate import aggregate

EVIL = "<script>alert('x')</script>&\"'"


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    """An audit with every section: users, surfaces, drift, rejects, overlap."""
    made = Logs(tmp_path_factory.mktemp("log"))
    columns: dict[str, Any] = {"surface": EVIL}
    start = 1_700_006_400
    made.add(600, made.shuffled, user_id=lambda p: f"u{p % 99}", timestamp=lambda p: start + 700 * p, **columns)
    made.add(30, made.shuffled, boost=1e9, user_id=EVIL, timestamp=lambda p: start + 700 * p, **columns)
    made.rows += made.rows[:3]
    return audit(made.write(f"{EVIL.replace('/', '')}.parquet"))


class TestPage:
    def test_is_well_formed_and_needs_nothing_else(self, full: Audit) -> None:
        page = full.to_html()
        checked = Checked(page)
        assert checked.addresses == []
        assert "url(" not in page
        assert "@import" not in page
        assert checked.seen.count("svg") == 2
        for title in ("Verdict", "Findings", "Positions", "Propensities", "Traffic", "Surfaces"):
            assert f">{title}<" in page
        assert "prefers-color-scheme: dark" in page
        assert "@media print" in page

    def test_cells_alone(self, tmp_path: Path) -> None:
        made = Logs(tmp_path)
        aggregate(made.add(100, made.fixed).write()).clicks.save(tmp_path / "cells.parquet")
        page = audit(tmp_path / "cells.parquet").to_html()
        Checked(page)
        assert "cells only" in page
        assert "not here" in page


def test_it_follows_the_scheme_of_a_browser(full: Audit, tmp_path: Path) -> None:
    note = "<script>document.body.dataset.ground = getComputedStyle(document.body).backgroundColor</script></body>"
    (tmp_path / "audit.html").write_text(full.to_html().replace("</body>", note), encoding="utf-8")
    shown = look(tmp_path / "audit.html", "--dump-dom", "--blink-settings=preferredColorScheme=0")
    assert shown.count("<svg") == 2
    assert 'data-ground="rgb(21, 24, 28)"' in shown
