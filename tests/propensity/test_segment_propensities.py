"""Curves of segments: given, saved, and estimated together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.clicks.simulate import PositionBased
from cldrank.clicks.table import ClickTable
from cldrank.errors import CldrankError, FormatError, UnidentifiableError
from cldrank.propensity import AllPairs, BySegment, Propensities, Randomised, SegmentPropensities
from cldrank.propensity.curve_files import load_curve, parse_curve
from cldrank.propensity.identifiability import display_order, overlap
from cldrank.propensity.segment_propensities import drawn_curves

ROUGH = Propensities(np.array([1, 0.5]), method="AllPairs", replicates=np.array([[1, 0.4], [1, 0.6]]), notes=("rough",))
CURVES = SegmentPropensities.of({"phone": ROUGH, "desktop": Propensities.power(0.5, 4)})


def two_surfaces(swap: bool, segments: bool = True) -> ClickTable:
    """Each of 100 results at position 1 on phones and at 2 on desktops; with `swap`, the other way round as well."""
    data = cr.RankingDataset.from_arrays(np.zeros((100, 1)), np.arange(100) // 2)
    rows, random = np.arange(100), np.random.default_rng(0)
    relevance = random.uniform(0.2, 0.9, 100)
    places = [("phone", 1), ("desktop", 2), *([("phone", 2), ("desktop", 1)] if swap else [])]
    examined = {("phone", 2): 0.2, ("desktop", 2): 0.8}
    clicks = np.concatenate([random.binomial(500, relevance * examined.get(place, 1.0)) for place in places])
    return ClickTable.from_arrays(
        data,
        row=np.tile(rows, len(places)),
        position=np.repeat([at for _, at in places], 100),
        impressions=np.full(len(clicks), 500),
        clicks=clicks,
        segment=np.repeat([name for name, _ in places], 100) if segments else None,
    )


class TestComparing:
    def test_surfaces_are_not_compared_with_each_other(self) -> None:
        """Without segments the same cells look like interventions, and the curve would be that of two surfaces."""
        assert AllPairs().fit(two_surfaces(False, segments=False)).values[1] == pytest.approx(0.8, rel=0.1)
        with pytest.raises(UnidentifiableError, match="one position only"):
            AllPairs().fit(two_surfaces(False))
        assert overlap(two_surfaces(False)).moving == 0
        assert overlap(two_surfaces(True)).moving == 100

    def test_pages_in_random_order_are_compared_on_their_surface(self) -> None:
        """Phones show one result and are clicked seldom: they say nothing about position 2 on desktops."""
        data = cr.RankingDataset.from_arrays(np.zeros((120, 1)), np.arange(120) // 2)
        table = ClickTable.from_arrays(
            data,
            row=np.tile(np.arange(120), 3),
            position=np.repeat([1, 1, 2], 120),
            impressions=np.full(360, 500),
            clicks=np.repeat([50, 400, 200], 120),
            segment=np.repeat(["phone", "desktop", "desktop"], 120),
        )
        assert Randomised().fit(table).values[1] == pytest.approx(0.5)

    def test_the_order_is_judged_on_each_surface(self) -> None:
        """Fixed on phones and fixed on desktops is fixed, although every result was at two positions."""
        assert display_order(two_surfaces(False, segments=False)).looks == "random"
        assert display_order(two_surfaces(False)).looks != "random"


class TestFiles:
    def test_all_in_one(self, tmp_path: Path) -> None:
        CURVES.save(tmp_path / "rho.json")
        for found in (SegmentPropensities.load(tmp_path / "rho.json"), load_curve(tmp_path / "rho.json")):
            assert isinstance(found, SegmentPropensities)
            assert list(found) == ["phone", "desktop"]
            assert repr(found) == repr(CURVES)
            np.testing.assert_array_equal(found["phone"].replicates, ROUGH.replicates)
            assert found["phone"].notes == ("rough",)

    def test_one_kind_is_not_the_other(self, tmp_path: Path) -> None:
        CURVES.save(tmp_path / "many.json")
        ROUGH.save(tmp_path / "one.json")
        with pytest.raises(FormatError, match="holds propensities of segments"):
            Propensities.load(tmp_path / "many.json")
        with pytest.raises(FormatError, match="not propensities of segments"):
            SegmentPropensities.load(tmp_path / "one.json")

    @pytest.mark.parametrize(
        ("segments", "complaint"),
        [
            ({}, "at least one segment"),
            ({"phone": {"format": "cldrank-propensities", "values": [1, -1]}}, "segment 'phone': the propensity of"),
            ({"": {"format": "cldrank-propensities", "values": [1]}}, "text that is not empty"),
        ],
    )
    def test_damaged_ones(self, tmp_path: Path, segments: Any, complaint: str) -> None:
        path = tmp_path / "rho.json"
        path.write_text(json.dumps({"format": "cldrank-segment-propensities", "segments": segments}))
        with pytest.raises(FormatError, match=complaint):
            SegmentPropensities.load(path)


class TestUse:
    def test_power_laws_reach_as_far_as_the_clicks_of_their_segment(self, tmp_path: Path) -> None:
        ROUGH.save(tmp_path / "rho.json")
        found = parse_curve(f"phone=power:1, desktop={tmp_path / 'rho.json'}", two_surfaces(False))
        assert isinstance(found, SegmentPropensities)
        assert (len(found["phone"]), len(found["desktop"])) == (1, 2)
        assert isinstance(parse_curve("power:1", two_surfaces(False)), Propensities)

    def test_draws_are_those_of_each_segment(self) -> None:
        both: Any = SegmentPropensities.of({"phone": ROUGH, "tablet": ROUGH, "desktop": Propensities.power(0.5, 4)})
        drawn: Any = drawn_curves(both, 50, seed=0)
        phone, tablet = (np.array([one[name].values[1] for one in drawn]) for name in ("phone", "tablet"))
        assert set(phone) == set(tablet) == {0.4, 0.6}
        assert (phone != tablet).any()
        assert {tuple(one["desktop"].values) for one in drawn} == {tuple(both["desktop"].values)}
        repeated: Any = drawn_curves(both, 50, seed=0)
        again = np.array([one["phone"].values[1] for one in repeated])
        np.testing.assert_array_equal(phone, again)
        assert both.uncertain
        assert not SegmentPropensities.of({"desktop": Propensities.power(0.5, 4)}).uncertain

    def test_what_is_no_curve(self) -> None:
        for wrong in ({}, {"phone": 1.0}, {1: ROUGH}):
            with pytest.raises(CldrankError):
                SegmentPropensities.of(wrong)  # type: ignore[arg-type]


# -- estimated --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tables(world: Any) -> dict[str, Any]:
    """Two devices whose users look down differently far; phones show three results."""
    return {
        "desktop": world.two_rankers(1e5, 0, PositionBased(0.6, 0.1)),
        "phone": world.two_rankers(1e5, 1, PositionBased(1.4, 0.1)).first(3),
    }


def test_each_segment_is_estimated_alone(tables: dict[str, Any]) -> None:
    found = BySegment(AllPairs()).fit(tables)
    assert {name: len(rho) for name, rho in found.items()} == {"desktop": 5, "phone": 3}
    for name, table in tables.items():
        alone = AllPairs().fit(table)
        np.testing.assert_array_equal(found[name].values, alone.values)
        np.testing.assert_array_equal(found[name].replicates, alone.replicates)
        assert found[name].origin == f"segment {name}, {alone.origin}"
    np.testing.assert_allclose(found["phone"].values, np.arange(1, 4) ** -1.4, rtol=0.15)
    fourth = tables["desktop"].first(4).as_segment("phone")
    with pytest.raises(CldrankError, match="'phone' for position 4"):
        found.per_cell(fourth)


def test_a_segment_without_an_estimate_is_refused(world: Any, tables: dict[str, Any]) -> None:
    with pytest.raises(UnidentifiableError, match="kiosk") as told:
        BySegment(AllPairs()).fit({**tables, "kiosk": world.log()})
    assert told.value.positions
    nothing: Any
    for nothing in ({}, world.log()):
        with pytest.raises(CldrankError, match="no segments"):
            BySegment(AllPairs()).fit(nothing)
