import math
from typing import Any

import pytest

from cldrank.errors import UsageError
from cldrank.models.network import Training


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"batch_queries": 0}, "batch_queries must be a whole number of at least 1 and below 2³¹, not 0"),
        ({"batch_queries": 2.5}, "not 2.5"),
        ({"batch_queries": 10**30}, "batch_queries must be a whole number of at least 1 and below 2³¹"),
        ({"list_size": 1}, "list_size must be a whole number of at least 2 and below 2³¹, not 1"),
        ({"patience": 0}, "patience must be a whole number of at least 1 and below 2³¹, not 0"),
        ({"patience": True}, "not True"),
        ({"patience": 2, "validation": 0.0}, "patience waits for a better epoch .* validation=0 holds none out"),
        ({"warmup": 1.5}, "warmup must be a number between 0 and 1, not 1.5"),
        ({"validation": 1.0}, "validation must be a number between 0 and 0.9, not 1.0"),
        ({"validation": math.nan}, "not nan"),
        ({"clip_norm": 0}, "clip_norm must be"),
        ({"schedule": "step"}, "schedule must be one of 'cosine', 'linear', 'constant', not 'step'"),
        ({"precision": "float16"}, "precision must be one of 'float32', 'bfloat16', not 'float16'"),
    ],
)
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Training(**wrong)
