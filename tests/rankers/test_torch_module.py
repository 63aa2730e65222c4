"""Rankers that are torch modules."""

from pathlib import Path

import numpy as np
import pytest
import torch
from made_rankers import (
    FEATURES,
    PARTS,
    SCALING,
    Residual,
    module,
)
from torch import nn

from cldrank.errors import DataError, FormatError, UsageError
from cldrank.rankers import ModuleRanker, load_ranker


class Insistent(Residual):
    """Its code casts to float32, so that its numbers cannot be of another kind."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return super().forward(rows.float())


def test_a_module_that_insists_on_float32_scores_in_float32(tmp_path: Path) -> None:
    own = Insistent()
    ranker = ModuleRanker.of(own, **PARTS)
    with torch.no_grad():
        expected = own.eval()(torch.from_numpy(SCALING.transform(FEATURES))).numpy()
    np.testing.assert_array_equal(ranker.predict(FEATURES), expected)
    ranker.save(tmp_path)
    np.testing.assert_array_equal(load_ranker(tmp_path, module=Insistent()).predict(FEATURES), expected)


def test_a_module_with_numbers_that_are_none_is_refused() -> None:
    own = Residual()
    with torch.no_grad():
        own.last.bias.fill_(float("nan"))
    with pytest.raises(DataError, match="'last.bias' of the module hold NaN"):
        ModuleRanker.of(own, **PARTS)


def test_a_module_s_code_is_not_saved_and_must_be_given(tmp_path: Path) -> None:
    module().save(tmp_path)
    with pytest.raises(
        UsageError, match=r"module of the class Residual, whose code is not saved; pass one: load_ranker"
    ):
        load_ranker(tmp_path)
    with pytest.raises(FormatError, match="does not fit the ranker's numbers: .*size mismatch"):
        load_ranker(tmp_path, module=Residual(hidden=9))
    with pytest.raises(FormatError, match="does not fit the ranker's numbers: .*Missing key"):
        load_ranker(tmp_path, module=nn.Linear(4, 1))
    for wrong in (Residual, "Residual", 3):
        with pytest.raises(UsageError, match=r"`module` must be a torch module such as Residual\(…\), not "):
            load_ranker(tmp_path, module=wrong)


def test_the_module_given_is_not_changed(tmp_path: Path) -> None:
    module().save(tmp_path)
    own = Residual()
    before = {name: value.clone() for name, value in own.state_dict().items()}
    load_ranker(tmp_path, module=own)
    assert own.training
    assert all(torch.equal(before[name], value) for name, value in own.state_dict().items())
