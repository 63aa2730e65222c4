"""How a fit is run."""

from pathlib import Path
from typing import Any

import pytest

from cldrank.errors import UsageError
from cldrank.models import Run


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"block_rows": 0}, "`block_rows` must be a whole number of at least 1, or None, not 0"),
        ({"block_rows": 1.5}, "`block_rows` must be a whole number"),
        ({"seed": -1}, "`seed` must be a whole number of at least 0, not -1"),
        ({"device": 0}, "`device` must be a text, or None, not 0"),
        ({"on_epoch": "print"}, "`on_epoch` must be a Callable, or None, not 'print'"),
        ({"checkpoint": 3}, "`checkpoint` must be a text or a PathLike, or None, not 3"),
        ({"resume": True}, "`resume` needs .* `checkpoint`"),
        ({"resume": 1, "checkpoint": "state"}, "`resume` must be True or False, not 1"),
    ],
)
def test_what_means_nothing_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Run(**wrong)


def test_files_and_listeners_do_not_make_it_another_run() -> None:
    plain, busy = Run(seed=3), Run(seed=3, checkpoint=Path("state"), on_epoch=print)
    assert plain == busy
    assert repr(busy) == "Run(seed=3)"
    assert Run(seed=3, checkpoint="state", resume=True) == plain
    assert Run(seed=3, device="cpu") != plain
