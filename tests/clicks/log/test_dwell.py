from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from odd_logs import expected, plain_rows, read, write_parquet

from cldrank.errors import DataError, FormatError, UsageError


def timed(*dwell: Any) -> list[dict[str, Any]]:
    """The plain log; its clicks last as long as `dwell` says, one after the other, over and over."""
    clicks = 0
    rows = []
    for row in plain_rows():
        rows.append({**row, "dwell": dwell[clicks % len(dwell)] if row["clicked"] else None})
        clicks += row["clicked"]
    return rows


N = sum(clicks for _, clicks in expected().values())


def n_clicks(found: dict[Any, tuple[int, int]]) -> int:
    return sum(clicks for _, clicks in found.values())


@pytest.mark.exhaustive
@pytest.mark.parametrize("text", [False, True])
def test_short_clicks_do_not_count(tmp_path: Path, engine: Any, text: bool) -> None:
    dwell = (5.0, 30.0, None, 600.0)
    spelled = [None if one is None else f" {one}" for one in dwell] if text else list(dwell)
    path = write_parquet(tmp_path / "log.parquet", timed(*spelled))
    found, result = read(path, engine, satisfied=30)
    short, unknown = (sum(dwell[place % 4] == value for place in range(N)) for value in (5.0, None))
    assert n_clicks(found) == N - short
    assert {key: n for key, (n, _) in found.items()} == {key: n for key, (n, _) in expected().items()}
    assert result.account.found == (
        f"clicks of 30 s or longer: {N - short - unknown}, counted; shorter: {short}, not counted; of unknown length: "
        f"{unknown}, counted",
    )
    assert read(path, engine)[0] == expected()  # without the option, dwell times are not read


def test_milliseconds(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "log.parquet", timed(29_999, 30_000, 500_000, 40_000))
    with pytest.raises(DataError, match=r"longer than an hour .* set dwell_unit='ms'; if .* set dwell_unit='s'"):
        read(path, satisfied=30)
    found, _ = read(path, satisfied=30, dwell_unit="ms")
    assert n_clicks(found) == N - len(range(0, N, 4))
    path = write_parquet(tmp_path / "log.parquet", timed(31, 60))
    with pytest.raises(DataError, match=r"shorter than a tenth of a second .* leave out dwell_unit='ms'"):
        read(path, satisfied=30, dwell_unit="ms")


def test_seconds_can_be_insisted_on(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "log.parquet", timed(4000.0))
    with pytest.raises(DataError, match="longer than an hour"):
        read(path, satisfied=30)
    assert read(path, satisfied=30, dwell_unit="s")[0] == expected()


def test_zeros_are_dwell_times_too(tmp_path: Path, engine: Any) -> None:
    path = write_parquet(tmp_path / "log.parquet", timed(4000, 0, 0, 0))
    assert n_clicks(read(path, engine, satisfied=30)[0]) == len(range(0, N, 4))


@pytest.mark.exhaustive
def test_times_that_are_none(tmp_path: Path, engine: Any) -> None:
    rows = timed("60", "-1", "long", "inf", "nan", "")
    rows[0]["dwell"] = "of no click" if not rows[0]["clicked"] else rows[0]["dwell"]
    found, result = read(write_parquet(tmp_path / "log.parquet", rows), engine, satisfied=30)
    odd = sum(place % 6 in (1, 2, 3) for place in range(N))
    lost = sum(place % 6 == 4 for place in range(N))
    assert result.account.rejected["not a number"] - odd in (0, lost)  # engines differ on whether nan is a number
    assert n_clicks(found) == N - result.account.rejected["not a number"]


def test_options_that_do_not_fit(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "log.parquet", plain_rows())
    with pytest.raises(FormatError, match=r"no column 'dwell'.*columns=\{'dwell': NAME\}"):
        read(path, satisfied=30)
    with pytest.raises(UsageError, match="satisfied must be a number above 0"):
        read(path, satisfied=0)
    for unit in ("s", "ms"):
        with pytest.raises(UsageError, match="dwell_unit is for dwell times, which only satisfied reads"):
            read(path, dwell_unit=unit)
    with pytest.raises(UsageError, match="dwell_unit must be 's' or 'ms'"):
        read(path, satisfied=3, dwell_unit="hours")
