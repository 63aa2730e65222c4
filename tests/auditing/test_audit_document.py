from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from audit_logs import Logs
from browser import Checked, cut_on_a_phone, look

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
        assert checked.seen.count("svg") == 1
        for title in ("Verdict", "Findings", "Positions", "Propensities", "Traffic", "Surfaces"):
            assert f">{title}<" in page
        assert "prefers-color-scheme: dark" in page
        assert "@media print" in page

    def test_names_from_the_log_are_escaped(self, full: Audit) -> None:
        page = full.to_html()
        assert "script" not in Checked(page).seen
        assert "<script" not in page
        assert page.count("&lt;script&gt;") >= 3  # title, user, surface
        names = [row[0] for row in Checked(page).rows]
        assert names.count(EVIL) == 2  # and they are there to be read

    def test_cells_alone(self, tmp_path: Path) -> None:
        made = Logs(tmp_path)
        aggregate(made.add(100, made.fixed).write()).clicks.save(tmp_path / "cells.parquet")
        page = audit(tmp_path / "cells.parquet").to_html()
        Checked(page)
        assert "cells only" in page
        assert "not here" in page

    def test_one_query_in_cells(self, tmp_path: Path) -> None:
        made = Logs(tmp_path, queries=1)
        aggregate(made.add(20, made.fixed).write()).clicks.save(tmp_path / "cells.parquet")
        assert "Cells alone say nothing" in audit(tmp_path / "cells.parquet").to_html()

    def test_positions_left_out_are_told(self, tmp_path: Path) -> None:
        rows = [(s, d, d + 1, int(d == s % 120)) for s in range(120) for d in range(120)]
        log = dict(zip(("session_id", "doc_id", "position", "clicked"), zip(*rows, strict=True), strict=True))
        pq.write_table(pa.table({**log, "query_id": ["q"] * len(rows)}), tmp_path / "log.parquet")
        result = audit(tmp_path / "log.parquet")
        assert "100 of 120 positions." in result.to_html()
        assert "30 of 120 positions." in str(result)


@pytest.fixture(scope="module")
def written(full: Audit, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page as a file, with a line that notes its colour for `--dump-dom`."""
    path = tmp_path_factory.mktemp("page") / "audit.html"
    note = "<script>document.body.dataset.ground = getComputedStyle(document.body).backgroundColor</script></body>"
    path.write_text(full.to_html().replace("</body>", note), encoding="utf-8")
    return path


class TestInABrowser:
    @pytest.mark.parametrize(("scheme", "ground"), [(0, "rgb(21, 24, 28)"), (1, "rgb(247, 247, 245)")])
    def test_nothing_is_lost_or_complained_of(self, written: Path, scheme: int, ground: str) -> None:
        shown = look(written, "--dump-dom", f"--blink-settings=preferredColorScheme={scheme}")
        assert shown.count("<svg") == 1
        assert shown.count("<rect") == written.read_text(encoding="utf-8").count("<rect")
        assert f'data-ground="{ground}"' in shown

    @pytest.mark.parametrize("width", [1200, 500])
    def test_a_picture_of_it_is_not_blank(self, written: Path, width: int) -> None:
        picture = written.with_suffix(".png")
        look(written, f"--screenshot={picture}", f"--window-size={width},2400", "--hide-scrollbars")
        data = picture.read_bytes()
        assert [int.from_bytes(data[place : place + 4]) for place in (16, 20)] == [width, 2400]
        packed = b"".join(
            data[chunk.end() : chunk.end() + int.from_bytes(data[chunk.start() - 4 : chunk.start()])]
            for chunk in re.finditer(b"IDAT", data)
        )
        lines = np.frombuffer(zlib.decompressobj().decompress(packed), dtype=np.uint8).reshape(2400, -1)
        assert lines[:, 1:].any(axis=1).mean() > 0.2  # of a blank page, lines differ nowhere from the line above
        assert len(np.unique(lines)) > 100

    def test_nothing_is_cut_on_a_phone(self, written: Path, tmp_path: Path) -> None:
        assert cut_on_a_phone(written.read_text(encoding="utf-8"), tmp_path) == {}
