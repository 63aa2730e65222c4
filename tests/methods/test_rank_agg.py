from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import GIVEN, SMALL, stop_after

from cldrank import segments
from cldrank.errors import ConvergenceWarning, UsageError
from cldrank.methods import IPS, HeckmanRank, RankAgg
from cldrank.models import Linear, Run
from cldrank.models.model import ScaledModel
from cldrank.rankers import BordaRanker, load_ranker


def votes(scores: Any, offsets: Any) -> Any:
    """How many candidates of the query are ranked below."""
    return np.repeat(np.diff(offsets), np.diff(offsets)) - segments.descending_ranks(scores, offsets)


@pytest.mark.parametrize("model", [Linear(l2=0.01, scaling="minmax"), replace(SMALL, l2=0.01, epochs=2)])
def test_it_counts_the_votes_of_ips_and_heckman(model: ScaledModel) -> None:
    own: dict[str, Any] = {"model": model, "clip": 0.4, "run": Run(seed=3)}
    fitted = RankAgg(weights=(2, 0.5), **own).fit(*GIVEN)
    ips = IPS(**own).fit(*GIVEN)
    heckman = HeckmanRank(model=Linear(l2=0.01, scaling=model.scaling)).fit(GIVEN.data, GIVEN.clicks)
    data = GIVEN.data
    expected = 2 * votes(ips.predict(data), data.offsets) + 0.5 * votes(heckman.predict(data), data.offsets)
    np.testing.assert_allclose(fitted.predict(data), expected)
    np.testing.assert_array_equal(fitted.ips_.predict(data), ips.predict(data))
    np.testing.assert_array_equal(fitted.heckman_.predict(data), heckman.predict(data))
    assert fitted.status_ == ips.status_
    assert isinstance(fitted.ranker_, BordaRanker)


def test_queries_score_the_same_alone_as_among_others(tmp_path: Path) -> None:
    fitted = RankAgg(model=replace(SMALL, epochs=2)).fit(*GIVEN)
    whole = fitted.predict(GIVEN.data)
    parts = [fitted.predict(GIVEN.data[at : at + 1]) for at in range(len(GIVEN.data))]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    fitted.ranker_.save(tmp_path)
    np.testing.assert_array_equal(load_ranker(tmp_path).predict(GIVEN.data), whole)


def test_ctrl_c_leaves_a_ranker_that_says_so() -> None:
    fitted = RankAgg(model=replace(SMALL, epochs=5), run=Run(on_epoch=stop_after(2)))
    with pytest.warns(ConvergenceWarning, match="IPS was interrupted after 2 epochs"):
        fitted.fit(*GIVEN)
    assert fitted.status_ == "interrupted"
    assert fitted.ips_.n_iter_ == 2


@pytest.mark.parametrize("weights", [(1, 2, 3), (1, -1), (0, 0), (np.nan, 1), "ab"])
def test_weights_are_two_numbers_of_at_least_0(weights: Any) -> None:
    with pytest.raises(UsageError, match="`weights`"):
        RankAgg(weights=weights).fit(*GIVEN)
