"""The truth of a simulation, written beside what it made: all parameters, and what estimators should find."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from cldrank._version import __version__
from cldrank.clicks.simulate.simulation import Simulation, whole_sessions
from cldrank.errors import FormatError, UsageError
from cldrank.files import save_json
from cldrank.reading import read_json

_FORMAT = "cldrank-simulation"
_FORMAT_VERSION = 2


def truth_path(path: str | PathLike[str]) -> Path | None:
    """Where the truth about a file is: beside it, with `.json` after its name; None beside a pipe or a device."""
    is_file = not Path(path).exists() or Path(path).is_file()
    return Path(f"{Path(path)}.json") if is_file else None


def truth_of(simulation: Simulation, sessions: float, seed: int, *, by_session: bool = False) -> dict[str, Any]:
    """Everything that made the clicks, ready for JSON; `by_session` says in which of the two ways they were drawn.

    propensities   P(examined) by position; null where it depends on the page, as in a cascade
    attraction     P(click | examined) by position, of relevant and of irrelevant results

    >>> from cldrank.clicks.simulate import Simulation
    >>> from cldrank.data.dataset import RankingDataset
    >>> data = RankingDataset.from_arrays([[3], [2], [1]], [7, 7, 7], labels=[0, 4, 1])
    >>> simulation = Simulation(data, scores=data.features[:, 0], depth=2)
    >>> truth_of(simulation, 100, seed=0)["propensities"]
    [1.0, 0.5]
    """
    data, model = simulation.dataset, simulation.model
    propensities = model.propensities(simulation.depth)
    irrelevant, relevant = model.attraction(simulation.depth)
    return {
        "format": _FORMAT,
        "format_version": _FORMAT_VERSION,
        "cldrank": __version__,
        "sessions": whole_sessions(sessions),
        "seed": seed,
        "drawn": "by session" if by_session else "counted",
        "depth": simulation.depth,
        "model": model.describe(),
        "policy": simulation.policy.describe(),
        "relevance": {"relevant_from": simulation.relevant_from, "relevant_rows": int(simulation.relevant.sum())},
        "propensities": None if propensities is None else propensities.tolist(),
        "attraction": {"relevant": relevant.tolist(), "irrelevant": irrelevant.tolist()},
        **({"events": dict(simulation.events)} if simulation.events else {}),
        "production": dict(simulation.production),
        "data": {
            "name": data.name,
            "synthetic": data.synthetic,
            "queries": data.n_queries,
            "rows": data.n_rows,
            "longest_page": simulation.longest_page,
        },
    }


def save_truth(truth: dict[str, Any], path: str | PathLike[str]) -> Path | None:
    """Save the truth beside a file of clicks and return its path; None beside a pipe or a device."""
    place = truth_path(path)
    if place is not None:
        save_json(place, truth)
    return place


def load_truth(path: str | PathLike[str]) -> dict[str, Any]:
    """The truth about a file of simulated clicks, from the file beside it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = save_truth({"format": _FORMAT, "seed": 3}, f"{folder}/log.parquet")
    ...     load_truth(f"{folder}/log.parquet")["seed"]
    3
    """
    source = Path(f"{Path(path)}.json")
    if not source.exists():
        raise UsageError(f"{source}: there is no such file; it would hold the truth about simulated clicks.")
    truth = read_json(source, "a JSON file")
    if not isinstance(truth, dict) or truth.get("format") != _FORMAT:
        raise FormatError(f'this does not describe a simulation: it lacks "format": "{_FORMAT}".', path=source)
    return truth
