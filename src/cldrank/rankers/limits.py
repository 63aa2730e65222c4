"""What a ranker should not be relied on for, as far as its provenance tells."""

from __future__ import annotations

from collections.abc import Iterator

from cldrank.rankers.base import Ranker
from cldrank.rankers.blend import BlendRanker
from cldrank.rankers.borda import BordaRanker
from cldrank.rankers.group import GroupRanker
from cldrank.rankers.provenance import CurveRecord, FitRecord, Provenance
from cldrank.rankers.torch_module import ModuleRanker
from cldrank.wording import count, listed, positions, some

_BIASES = {
    "position": "results further up are seen and clicked more often, and count as more relevant than they are",
    "trust": "clicks that a result owes to its high position count as relevance",
    "selection": "candidates that were never shown are taken to be like those that were",
}
_ENDED_WELL = ("converged", "completed", "early_stopped")
_WIDE = 1.5  # times its lower end: an interval to be warned of


def known_limits(ranker: Ranker) -> list[str]:
    """One sentence or two for each limit, the gravest first."""
    origin = ranker.provenance
    found = [
        *_of_data(origin),
        *_of_fit(origin.diagnostics),
        *_of_clicks(origin),
        *_of_features(ranker),
        *_of_use(ranker),
    ]
    return list(dict.fromkeys(found))  # two evaluations may be on the same data


def _of_data(origin: Provenance) -> Iterator[str]:
    if not origin.estimator:
        yield "Where it comes from is not known: nothing below vouches for its scores."
    if origin.synthetic:
        yield "It was trained on SYNTHETIC data, made by a generator: its quality says nothing about real searches."
    if not origin.evaluations:
        yield "No evaluation is recorded: how well it ranks is not known."
    for one in origin.evaluations:
        name = one.data or "data without a name"
        if one.synthetic and not origin.synthetic:
            yield f"Its evaluation on {name} is on SYNTHETIC data."
        if one.fingerprint and one.fingerprint == origin.fingerprint:
            yield f"Its evaluation on {name} is on the data it was trained on: too optimistic."


def _of_fit(fit: FitRecord | None) -> Iterator[str]:
    if fit is None:
        return
    if fit.is_chance:
        yield (
            f"It ranks the queries that were held out no better than chance: its concordance with {fit.held_target} is "
            f"{fit.concordance:.4f}, and 0.5 is chance."
        )
    if fit.status == "interrupted":
        yield f"Its training was interrupted after {count(fit.steps, 'step')}; what trains on is another ranker."
    elif fit.status not in _ENDED_WELL:
        yield f"Its fit ended as {fit.status} after {count(fit.steps, 'step')}, not at an optimum."
    elif fit.status == "completed" and fit.held_queries and fit.kept == fit.steps:
        yield "Its last step of training was the best on held-out queries: with more steps, it might be better."
    if fit.warnings:
        yield f"Its fit gave {count(len(fit.warnings), 'warning')}, see Diagnostics."


def _of_clicks(origin: Provenance) -> Iterator[str]:
    if origin.clicks is None or origin.method is None:
        if origin.method is not None:
            yield "It was learned from labels: it is as good as they are, and knows nothing of clicks."
        return
    for bias, consequence in _BIASES.items():
        if bias not in origin.method.corrects:
            yield f"{bias.capitalize()} bias is not corrected: {consequence}."
    if origin.clicks.depth:
        yield (
            f"It saw clicks at positions 1 to {origin.clicks.depth} only, on {origin.clicks.shown:,} of "
            f"{count(origin.rows, 'candidate')}."
        )
    if origin.propensities is not None:
        for name, curve in origin.propensities.by_segment.items():
            yield from (f"Segment {name}: {text[0].lower()}{text[1:]}" if name else text for text in _of_curve(curve))


def _of_curve(curve: CurveRecord) -> Iterator[str]:
    if curve.estimator is None:
        assumed = curve.origin.partition(";")[0]
        yield (
            f"Its propensities were assumed ({assumed}), not estimated: where they are too low, clicks count too much, "
            "and the other way round."
        )
    if curve.raised:
        yield (
            f"The clicks refute the propensities that were assumed at {positions(curve.raised)}; they were raised to "
            "the least that the clicks allow, and the true ones may be higher."
        )
    if curve.clipped:
        yield f"Propensities were clipped at {positions(curve.clipped)}: clicks there count less than they should."
    ends = list(zip(curve.low or (), curve.high or (), strict=True))
    unknown = [at for at, (low, _) in enumerate(ends, 1) if low <= 0]
    if unknown:
        yield f"The propensities of {positions(unknown)} cannot be told from 0."
    factor, at = max(((high / low, at) for at, (low, high) in enumerate(ends) if low > 0), default=(1.0, 0))
    if factor > _WIDE:
        yield (
            f"The propensity of position {at + 1} is known only to lie from {ends[at][0]:.3g} to {ends[at][1]:.3g} "
            f"({curve.confidence:.0%} interval), a factor of {factor:.2g}."
        )


def _of_features(ranker: Ranker) -> Iterator[str]:
    fit = ranker.provenance.diagnostics
    if fit is not None and fit.constant:
        yield f"Constant in the training data, so that nothing was learned about them: {some(fit.constant)}."
    if fit is not None and fit.collinear:
        yield f"Determined by other features, so that their coefficients mean little: {some(fit.collinear)}."
    if not ranker.takes_missing:
        yield "It refuses features that are missing (NaN)."
    elif ranker.provenance.rows and not ranker.provenance.has_missing:
        yield "No feature was missing in training: it scores rows with missing values, but never learned from any."


def _of_use(ranker: Ranker) -> Iterator[str]:
    if not ranker.by_row:
        yield "A score depends on the other candidates of its query: score all of them together."
    if isinstance(ranker, GroupRanker):
        kinds = listed(member.kind for member in ranker.members)
        what = "a vote" if isinstance(ranker, BordaRanker) else "a weighted sum"
        yield f"It is {what} of {count(len(ranker.members), 'member')} ({kinds})."
    if isinstance(ranker, BlendRanker):
        yield "It cannot be exported: `cldrank serve` and `cldrank score` compute it."
    if isinstance(ranker, ModuleRanker):
        yield f"Its numbers are saved, its code is not: loading needs a torch module of the class {ranker.class_name}."
