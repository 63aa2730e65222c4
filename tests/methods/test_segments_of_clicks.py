"""One ranker from several surfaces: each cell is corrected by the curve of its segment."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
from halved_pages import halved
from scenes import scene
from scipy.stats import binom

from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankWarning, DataError, UsageError
from cldrank.methods import CLD, IPS, PIJD, AffineIPS, CLDPair, PolicyAwareIPS, RankAgg
from cldrank.methods.observing import observe
from cldrank.methods.relevance import Estimate, estimated_relevance
from cldrank.models import MLP, Linear
from cldrank.propensity import Propensities, SegmentPropensities

PHONE, DESKTOP = Propensities.power(1.5, 2), Propensities.power(0.5, 4)
CURVES = SegmentPropensities.of({"phone": PHONE, "desktop": DESKTOP})
DATA = RankingDataset.from_arrays(np.arange(6.0)[:, None], [1, 1, 1, 2, 2, 2])
SHOWN: dict[str, Any] = {
    "row": [0, 0, 1, 2, 3, 4],
    "position": [1, 2, 4, 2, 1, 3],
    "impressions": [10, 20, 30, 40, 50, 60],
    "clicks": [5, 4, 6, 3, 20, 9],
}
DEVICES = ["phone", "desktop", "desktop", "phone", "phone", "desktop"]
TABLE = ClickTable.from_arrays(DATA, **SHOWN, segment=DEVICES)


@pytest.mark.parametrize(
    "method",
    [
        IPS(target="ips", envelope="off", model=Linear()),
        CLD(target="mixed", envelope="off"),
        IPS(clip=0.4, envelope="off", model=Linear()),
        CLDPair(envelope="off", model=MLP(epochs=2)),
        PolicyAwareIPS(clip=0.1, model=Linear()),
        RankAgg(envelope="off", model=Linear()),
    ],
    ids=lambda method: f"{method.name}, {getattr(method, 'target', '')}",
)
@pytest.mark.filterwarnings("ignore::cldrank.errors.CldrankWarning")  # of candidates that were never shown
def test_two_segments_with_one_curve_are_none(method: Any) -> None:
    """Half of the pages of each query are in either segment; and another curve of one segment makes another ranker."""
    data, clicks, rho = scene()
    whole, split = halved(clicks)
    assert split.n_cells == 2 * whole.n_cells
    scores = method.fit(data, whole, rho).predict(data)
    same = SegmentPropensities.of({"desktop": rho, "phone": rho})
    np.testing.assert_allclose(method.fit(data, split, same).predict(data), scores, rtol=1e-5, atol=1e-5)
    assert set(method.segment_propensities_) == {"desktop", "phone"}
    assert not hasattr(method, "propensities_")
    steep = SegmentPropensities.of({"desktop": rho, "phone": Propensities.power(2.0, 3)})
    assert np.abs(method.fit(data, split, steep).predict(data) - scores).max() > 1e-3


@pytest.mark.parametrize("target", get_args(Estimate))
def test_cells_of_one_candidate_and_position_count_as_one(target: Estimate) -> None:
    """Target and weight of a candidate do not know into how many segments its pages were labelled."""
    data, clicks, rho = scene()
    whole, split = halved(clicks)
    same = SegmentPropensities.of({"desktop": rho, "phone": rho})
    one, two = observe(data, whole, rho, target), observe(data, split, same, target)
    for mine, theirs in zip(one.by_row(), two.by_row(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)
    assert one.total == two.total
    if target != "ips":
        of = np.searchsorted(whole.row * 10 + whole.position, split.row * 10 + split.position)
        np.testing.assert_array_equal(two.target, one.target[of])


def test_each_cell_is_divided_by_the_curve_of_its_segment() -> None:
    found = observe(DATA, TABLE, CURVES, "ips")
    rho = {"phone": [1, 2**-1.5], "desktop": [1, 2**-0.5, 3**-0.5, 4**-0.5]}
    cells = zip(*SHOWN.values(), DEVICES, strict=True)
    expected = sorted((row, device, clicks / n / rho[device][at - 1]) for row, at, n, clicks, device in cells)
    np.testing.assert_allclose(found.target, [target for *_, target in expected])
    assert found.absent.tolist() == [0, 0, 0, 0, 0, 50 + 60]  # pages of phones and of desktops


def test_the_posterior_is_that_of_all_segments() -> None:
    """Against EM written out with the exact likelihood: binomial in each segment, with one relevance.

    Some candidates were shown on phones only, some on desktops only, some on both.
    """
    random = np.random.default_rng(0)
    size, rho = 60, {"phone": 2**-1.5, "desktop": 2**-0.5}
    data = RankingDataset.from_arrays(np.zeros((size, 1)), np.arange(size))
    relevance = random.beta(2, 4, size)
    n = {"phone": random.integers(1, 40, size), "desktop": random.integers(1, 40, size)}
    n["phone"][:15], n["desktop"][-15:] = 0, 0
    clicked = {name: random.binomial(n[name], rho[name] * relevance) for name in rho}
    table = ClickTable.from_arrays(
        data,
        row=np.tile(np.arange(size), 2),
        position=np.full(2 * size, 2),
        impressions=np.concatenate([n["phone"], n["desktop"]]),
        clicks=np.concatenate([clicked["phone"], clicked["desktop"]]),
        segment=np.repeat(["phone", "desktop"], size),
    )
    grid = np.sin(np.linspace(0, np.pi / 2, 300)) ** 2
    chance = np.prod([binom.pmf(clicked[s][:, None], n[s][:, None], rho[s] * grid) for s in rho], axis=0)
    prior = np.full(len(grid), 1 / len(grid))
    for _ in range(500):
        prior = (chance * prior / (chance @ prior)[:, None]).mean(axis=0)
    expected = chance @ (prior * grid) / (chance @ prior)
    found = estimated_relevance(table, CURVES, "posterior")
    kept = table.impressions > 0
    np.testing.assert_allclose(found[kept], expected[table.row[kept]], atol=0.04)
    assert np.abs(found - expected[table.row])[kept].mean() < 0.008
    exposure = n["phone"] * rho["phone"] + n["desktop"] * rho["desktop"]
    ratio = np.minimum((clicked["phone"] + clicked["desktop"]) / exposure, 2)
    np.testing.assert_allclose(estimated_relevance(table, CURVES, "clipped")[kept], ratio[table.row[kept]])
    trust = (exposure / (1 + exposure))[table.row]
    mixed = trust * ratio[table.row] + (1 - trust) * found
    np.testing.assert_allclose(estimated_relevance(table, CURVES, "mixed")[kept], mixed[kept])


def test_exposure_adds_up_over_surfaces() -> None:
    """Row 0: 10 pages of phones at position 1, 20 of desktops at 2; of 40 + 30 pages in all."""
    method = PolicyAwareIPS(model=Linear(l2=0)).fit(DATA, TABLE, CURVES)
    targets = method.targets(method._collected(DATA, TABLE, CURVES))
    examined = 10 * 1 + 20 * 2**-0.5
    assert targets.target[0] == pytest.approx(9 / examined)
    assert targets.weight[0] == 40 + 30


class TestRefusals:
    def test_a_segment_without_a_curve(self) -> None:
        with pytest.raises(DataError, match="have a segment 'desktop', and there is no curve for it, only for phone"):
            IPS().fit(DATA, TABLE, SegmentPropensities.of({"phone": PHONE}))

    def test_clicks_without_segments(self) -> None:
        plain = ClickTable.from_arrays(DATA, **SHOWN)
        with pytest.raises(DataError, match=r"of segments \(phone, desktop\), but the clicks have no segments"):
            IPS().fit(DATA, plain, CURVES)

    def test_one_curve_for_all_is_warned_of(self) -> None:
        with pytest.warns(CldrankWarning, match=r"IPS .*\(desktop, phone\)"):
            one = IPS(target="ips", envelope="off", model=Linear()).fit(DATA, TABLE, Propensities.power(1, 4))
        both = SegmentPropensities.of({name: Propensities.power(1, 4) for name in ("phone", "desktop")})
        np.testing.assert_array_equal(
            IPS(target="ips", envelope="off", model=Linear()).fit(DATA, TABLE, both).predict(DATA), one.predict(DATA)
        )

    def test_methods_that_cannot(self) -> None:
        with pytest.raises(UsageError, match="Affine-IPS"):
            AffineIPS().fit(DATA, TABLE, CURVES)
        with pytest.raises(UsageError, match="PIJD models the positions of one layout"):
            PIJD().fit(DATA, TABLE)

    def test_a_bound_is_not_a_curve(self) -> None:
        bound = Propensities(PHONE.values, method="Envelope", bound=True)
        with pytest.raises(UsageError, match="these propensities are a lower bound"):
            IPS().fit(DATA, TABLE, SegmentPropensities.of({"phone": bound, "desktop": DESKTOP}))


def test_clicks_raise_the_curve_of_their_own_segment() -> None:
    """Phones examine position 2 as often as 1, and clicks prove it; desktops do as the curve says."""
    random = np.random.default_rng(0)
    data = RankingDataset.from_arrays(random.normal(size=(800, 1)), np.arange(800) // 2)
    relevance = random.choice([0.05, 0.9], 800)
    position, device = np.tile([1, 2], 400), np.repeat(["phone", "desktop"], 400)
    examined = np.where((position == 2) & (device == "desktop"), 0.1, 1.0)
    clicks = random.binomial(200, relevance * examined)
    table = ClickTable.from_arrays(data, position=position, impressions=[200] * 800, clicks=clicks, segment=device)
    steep = SegmentPropensities.of({name: Propensities(np.array([1, 0.1])) for name in ("phone", "desktop")})
    with pytest.warns(CldrankWarning, match=r"refute these propensities \(segment phone, given\)"):
        used = IPS(model=Linear()).fit(data, table, steep).segment_propensities_
    assert used["phone"].values[1] > 0.6
    assert used["desktop"].values[1] == pytest.approx(0.1)
