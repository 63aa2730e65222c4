"""Model cards: all that is known of a ranker as a document, derived from its provenance, and that as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cldrank import documents as doc
from cldrank.rankers.base import Ranker
from cldrank.rankers.linear_ranker import LinearRanker
from cldrank.rankers.provenance import CurveRecord, EvaluationRecord, FitRecord, Provenance, Record
from cldrank.rankers.tree_ranker import TreeRanker
from cldrank.wording import count, positions, some

_SHOWN = 20  # features of the table
_LARGE = 1e5  # numbers without decimals
_SYNTHETIC = "A generator made the training data; do not conclude from it how well anything ranks real results."
_FOOTER = "This card is rewritten whenever the ranker is saved; `NOTES.md` beside it stays, and is a part of the card."
_BIASES = {
    "position": "results further up are seen and clicked more often, and count as more relevant than they are",
    "trust": "clicks that a result owes to its high position count as relevance",
    "selection": "candidates that were never shown are taken to be like those that were",
}
_ENDED_WELL = ("converged", "completed", "early_stopped")


def model_card(ranker: Ranker, notes: str = "") -> str:
    """The model card of a ranker as Markdown, followed by the notes, unchanged; it depends on nothing else.

    >>> from cldrank import scaling
    >>> ranker = LinearRanker(feature_names=["bm25"], scaling=scaling.fit(None, [[1]]), coefficients=[2])
    >>> print(model_card(ranker).splitlines()[0])
    # Ranker of unknown origin
    """
    below = f"## Notes\n\n{notes.strip()}\n\n" if notes.strip() else ""
    return f"{doc.render_markdown(card_document(ranker))}\n{below}---\n\n{_FOOTER}\n"


def card_document(ranker: Ranker) -> doc.Document:
    """All that is known of a ranker."""
    origin = ranker.provenance
    blocks: list[doc.Block] = [doc.Notice("warning", _SYNTHETIC, label="SYNTHETIC DATA.")] if origin.synthetic else []
    blocks.append(doc.Paragraph([doc.Mono(repr(ranker))]))
    if origin.method is not None:
        blocks.append(doc.Paragraph([doc.Strong(origin.method.label), f" {origin.method.sentence}."]))
    if origin.chosen:
        blocks.append(doc.Paragraph([doc.Strong("Chosen by the log."), f" {origin.chosen}"]))
    known = origin.distilled
    fidelity = [] if known is None else [str(known), *(f"Fitted to {name}" for name in known.teachers)]
    sections: dict[str, list[doc.Block]] = {
        "Limits": [doc.Notice("note", [text], label="limit") for text in dict.fromkeys(known_limits(ranker))],
        "Evaluation": list(_evaluations(origin.evaluations)) or [doc.Paragraph("None is recorded.")],
        "Safety": [] if origin.safety is None else [doc.Paragraph(str(origin.safety)), *_facts(origin.safety)],
        "Distillation": [doc.Paragraph([f"{text}."]) for text in fidelity],
        "Data": _facts(_data(ranker)),
        "Clicks": _facts(origin.clicks),
        "Propensities": list(_curves(origin.propensities)),
        "Parameters": _facts(origin.parameters),
        "Fit": _facts(origin.diagnostics),
        "Features that matter most": _facts(_weights(ranker)),
        "Repeat it": _repeated(origin),
    }
    for title, inside in sections.items():
        blocks += [doc.Heading(title), *inside] if inside else []
    name = origin.method.label if origin.method else origin.estimator
    return doc.Document(f"{name} ranker, {origin}" if name else f"Ranker {origin}", blocks)


def _facts(known: Record | Mapping[str, Any] | None) -> list[doc.Block]:
    """A table of names and values."""
    facts = known.facts() if isinstance(known, Record) else known or {}
    rows = [(name, _text(value)) for name, value in facts.items()]
    return [doc.Table(("", ""), rows, text=("",))] if rows else []


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_text(inner)}" for name, inner in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if abs(value) >= _LARGE else f"{value:.6g}"


def _evaluations(evaluations: Sequence[EvaluationRecord]) -> Iterator[doc.Block]:
    for evaluation in evaluations:
        yield from _facts(evaluation)
        columns = ("mean", "low", "high", "confidence")
        measures = evaluation.measures.items()
        rows = [
            (name, *(f"{known[column]:.4f}" if column in known else "" for column in columns))
            for name, known in measures
        ]
        yield doc.Table(("measure", *columns), rows)


def _data(ranker: Ranker) -> dict[str, Any]:
    origin, hashes = ranker.provenance, ranker.trained_on
    if not origin.rows:
        return {"features": len(ranker.feature_names)}
    known = {
        "name": origin.data or "unnamed data",
        "synthetic": origin.synthetic,
        "queries": origin.queries,
        "queries trained on": None if hashes is None else len(hashes),
        "share of queries held out": origin.held_out,
        "candidates": origin.rows,
        "features": len(ranker.feature_names),
        "missing values": origin.has_missing,
        "fingerprint": origin.fingerprint or None,
    }
    return {name: value for name, value in known.items() if value is not None}


def _curves(propensities: Mapping[str, CurveRecord]) -> Iterator[doc.Block]:
    """Each curve as facts and a table."""
    for segment, curve in propensities.items():
        yield from _facts({**({"segment": segment} if segment else {}), **curve.facts()})
        yield from (doc.Notice("note", [text]) for text in curve.notes)
        columns = {name: getattr(curve, name) for name in ("values", "low", "high", "base")}
        known = {name: values for name, values in columns.items() if values}
        rows = [
            [str(at + 1), *(f"{value:.4g}" for value in row)]
            for at, row in enumerate(zip(*known.values(), strict=True))
        ]
        value = "slope" if curve.base else "propensity"
        yield doc.Table(("position", *(value if name == "values" else name for name in known)), rows)


def _weights(ranker: Ranker) -> dict[str, float]:
    """The coefficients of scaled features, or the shares of features in the gain of all splits; the largest first."""
    weights = ranker.importance() if isinstance(ranker, TreeRanker) else {}
    if isinstance(ranker, LinearRanker):
        weights = dict(zip(ranker.feature_names, ranker.coefficients.tolist(), strict=True))
    return dict(sorted(weights.items(), key=lambda weight: -abs(weight[1]))[:_SHOWN])


def _repeated(origin: Provenance) -> list[doc.Block]:
    """What trains the same ranker again."""
    words = doc.Paragraph(f"With cldrank {origin.cldrank} and data of these fingerprints, this trains the same ranker:")
    if origin.command:
        return [words, doc.Code(origin.command, "sh")]
    if origin.method is None:
        return []
    arguments = ["dataset", *["clicks"] * bool(origin.clicks), *["propensities"] * bool(origin.propensities)]
    return [words, doc.Code(f"{origin.method.call}.fit({', '.join(arguments)})", "python")]


# -- limits --------------------------------------------------------------------------------------------------------


def known_limits(ranker: Ranker) -> Iterator[str]:
    """What a ranker should not be relied on for, as far as its provenance tells; the gravest first."""
    origin = ranker.provenance
    yield from _limits_of_data(origin)
    if origin.diagnostics is not None:
        yield from _limits_of_fit(origin.diagnostics)
    if origin.method is not None and origin.clicks is None:
        yield "It was learned from labels: it is as good as they are, and knows nothing of clicks."
    elif origin.method is not None:
        yield from _limits_of_clicks(origin, origin.method.corrects)
    if origin.distilled is not None:
        yield "It was fitted to the scores of other rankers, and has their limits: see their cards."
    if not ranker.takes_missing:
        yield "It refuses features that are missing (NaN)."
    if not ranker.by_row:
        yield "A score depends on the other candidates of its query: score all of them together."


def _limits_of_data(origin: Provenance) -> Iterator[str]:
    if not origin.estimator:
        yield "Where it comes from is not known: nothing below vouches for its scores."
    if not origin.evaluations:
        yield "No evaluation is recorded: how well it ranks is not known."
    for evaluation in origin.evaluations:
        where = f"Its evaluation on {evaluation.data or 'unnamed data'} is on"
        if evaluation.synthetic and not origin.synthetic:
            yield f"{where} SYNTHETIC data."
        if evaluation.fingerprint and evaluation.fingerprint == origin.fingerprint:
            yield f"{where} the data it was trained on: too optimistic."


def _limits_of_fit(fit: FitRecord) -> Iterator[str]:
    if fit.is_chance:
        yield (
            f"It ranks the queries that were held out no better than chance: its concordance with {fit.held_target} is "
            f"{fit.concordance:.4f}, and 0.5 is chance."
        )
    if fit.status not in _ENDED_WELL:
        yield f"Its fit ended as {fit.status} after {count(fit.steps, 'step')}, not at an optimum."
    yield from fit.warnings
    if fit.constant:
        yield f"Constant in the training data, so that nothing was learned about them: {some(fit.constant)}."


def _limits_of_clicks(origin: Provenance, corrected: Sequence[str]) -> Iterator[str]:
    for bias, consequence in _BIASES.items():
        if bias not in corrected:
            yield f"{bias.capitalize()} bias is not corrected: {consequence}."
    if origin.clicks is not None and origin.clicks.depth:
        yield (
            f"It saw clicks at positions 1 to {origin.clicks.depth} only, on {origin.clicks.shown:,} of "
            f"{count(origin.rows, 'candidate')}."
        )
    for segment, curve in origin.propensities.items():
        of = f" of segment {segment}" if segment else ""
        if curve.estimator is None:
            yield (
                f"The propensities{of} were assumed ({curve.origin.partition(';')[0]}), not estimated: where they are "
                "too low, clicks count too much, and the other way round."
            )
        if curve.raised:
            yield (
                f"The clicks refute the propensities{of} that were assumed at {positions(curve.raised)}; they were "
                "raised to the least that the clicks allow, and the true propensities may be higher."
            )
        if curve.clipped:
            yield (
                f"The propensities{of} were clipped at {positions(curve.clipped)}: clicks there count less than they "
                "should."
            )
