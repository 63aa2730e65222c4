"""`distil`: boosted trees that rank as other rankers do, networks above all, and are exported to any engine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cldrank import measures, segments
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, UsageError, hearing_warnings
from cldrank.models import Run, Trees
from cldrank.models.fit import Context
from cldrank.models.targets import Targets
from cldrank.rankers import Provenance, Ranker, ranker_fingerprint
from cldrank.rankers.provenance import DistilRecord
from cldrank.wording import kind_of

Floats = NDArray[np.float64]

_USER = "Distillation"
_TOP = 3  # results that fidelity looks at
_RUN = Run()
STUDENT = Trees(rounds=1000, learning_rate=0.1, leaves=31, min_weight=5.0, l2=1.0)


def distil(
    rankers: Ranker | Sequence[Ranker], data: RankingDataset, *, model: Trees = STUDENT, run: Run = _RUN
) -> Ranker:
    """Boosted trees fitted to the scores of a ranker, or to the mean of several, on all candidates of a dataset.

    Neither labels nor clicks are needed: take the features of as many queries as there are, also of those that nobody
    searched for. `provenance.distilled` says how faithful the trees are, on queries held out from them. They remember
    the queries that their teachers were trained on, so that clicks on these never judge them.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays(np.arange(60.0)[:, None] % 7, np.arange(60) // 3, labels=np.arange(60) % 7)
    >>> teacher = cr.Oracle().fit(data).ranker_
    >>> student = distil(teacher, data, model=cr.Trees(rounds=50, learning_rate=0.3, min_weight=0, l2=0))
    >>> type(student).__name__, student.provenance.distilled.rank_correlation
    ('TreeRanker', 1.0)
    """
    teachers = [rankers] if isinstance(rankers, Ranker) else list(rankers)
    if not teachers or not all(isinstance(ranker, Ranker) for ranker in teachers):
        raise UsageError("`distil` needs one or more rankers: `load_ranker(folder)`, or `ranker_` of a fitted method.")
    if "fit_scores" not in model.heeds:
        raise UsageError(f"`distil` cannot fit {model.label} to scores; it fits Trees().")
    model.check_installed()
    target = teacher_scores(teachers, data, device=run.device)
    origin = _provenance(teachers, data, model, run)
    targets = Targets(np.arange(len(target)), target, np.ones(len(target)), data.row_queries)
    with hearing_warnings() as heard:
        context = Context(data, run, _USER, "the scores of the teacher", origin)
        fit = model.fit_scores(targets.weighted(data.query_weights), context)
    held = fit.learned["held"]
    judged = held if len(held) else np.arange(data.n_queries)
    rows, part = segments.rows_of_segments(data.offsets, judged), data[judged]
    record = _fidelity(target[rows], fit.ranker.predict(part, device=run.device), part).replaced(
        teachers=tuple(f"{kind_of(ranker)} {ranker_fingerprint(ranker)}, {ranker.provenance}" for ranker in teachers),
        held_out=bool(len(held)),
    )
    fitted = fit.diagnostics.replaced(warnings=tuple(dict.fromkeys(map(str, heard))))
    ranker = fit.ranker.with_provenance(origin.replaced(distilled=record, diagnostics=fitted))
    known = [teacher.trained_on for teacher in teachers if teacher.trained_on is not None]
    if len(known) == len(teachers):
        ranker = ranker.with_queries(np.unique(np.concatenate(known)))
    return ranker.with_ranges(data.features)


def teacher_scores(rankers: Sequence[Ranker], data: RankingDataset, *, device: str | None = None) -> Floats:
    """The mean score of rankers, each in units of its spread within queries.

    >>> from cldrank import scaling
    >>> from cldrank.rankers import LinearRanker
    >>> data = RankingDataset.from_arrays([[1], [3], [2]], [7, 7, 7])
    >>> unscaled = scaling.fit(None, [[1]])
    >>> teachers = [LinearRanker(feature_names=["f1"], scaling=unscaled, coefficients=[c]) for c in (1, 9)]
    >>> teacher_scores(teachers, data).round(3)
    array([-1.225,  1.225,  0.   ])
    """
    total = np.zeros(data.n_rows)
    for ranker in rankers:
        scores = ranker.predict(data, device=device)
        spread = within_spread(scores, data)
        if not spread > 0:
            raise DataError(f"{ranker!r} scores all candidates of a query alike: there is nothing to learn from it.")
        total += (scores - scores.mean()) / spread
    return total / len(rankers)


def within_spread(scores: Floats, dataset: RankingDataset) -> float:
    """The standard deviation of scores within queries."""
    means = segments.sums_of_segments(scores, dataset.offsets) / np.maximum(dataset.sizes, 1)
    return float(np.sqrt(np.mean((scores - means[dataset.row_queries]) ** 2)))


def _fidelity(teacher: Floats, student: Floats, data: RankingDataset) -> DistilRecord:
    """How alike two scores rank the candidates of each query, as means over queries of two candidates or more."""
    offsets, sizes = data.offsets, data.sizes
    several = sizes > 1
    if not several.any():
        raise DataError("no query to judge by has two candidates: there is no order to learn.")
    ranks = [segments.descending_ranks(scores, offsets) for scores in (teacher, student)]
    farness = segments.sums_of_segments((ranks[0] - ranks[1]) ** 2, offsets)
    both = segments.sums_of_segments((ranks[0] <= _TOP) & (ranks[1] <= _TOP), offsets)
    grades = np.maximum(_TOP + 1 - ranks[0], 0).astype(np.float32)
    (ndcg,) = measures.compute([f"nDCG@{_TOP}"], student, grades, offsets).values()
    correlation = 1 - 6 * farness / np.maximum(sizes * (sizes**2 - 1), 1)
    return DistilRecord(
        queries=int(several.sum()),
        rank_correlation=float(correlation[several].mean()),
        top_in_common=float((both / np.minimum(sizes, _TOP))[several].mean()),
        ndcg=float(np.asarray(ndcg)[several].mean()),
    )


def _provenance(teachers: Sequence[Ranker], data: RankingDataset, model: Trees, run: Run) -> Provenance:
    """Where the trees come from: whether anything behind them is synthetic, and what was kept out of all training."""
    given = {f"model__{name}": value for name, value in model.get_params().items()} | {"run__seed": run.seed}
    shares = {teacher.provenance.held_out for teacher in teachers}
    return Provenance.of(_USER, {"model": type(model).__name__, **given}, data).replaced(
        synthetic=data.synthetic or any(teacher.provenance.synthetic for teacher in teachers),
        held_out=shares.pop() if len(shares) == 1 else None,
    )
