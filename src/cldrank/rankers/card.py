"""Model cards: all that is known of a ranker as a document, derived from its provenance, and that as Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cldrank.documents import (
    Block,
    Code,
    Details,
    Document,
    Heading,
    Mono,
    Notice,
    Paragraph,
    Strong,
    Table,
    render_markdown,
)
from cldrank.documents.numbers import minus, span
from cldrank.rankers.base import Ranker
from cldrank.rankers.groups import BlendRanker, BordaRanker, GroupRanker
from cldrank.rankers.linear import LinearRanker
from cldrank.rankers.provenance import CurveRecord, EvaluationRecord, FitRecord, Provenance, SafetyRecord
from cldrank.rankers.torch_module import ModuleRanker
from cldrank.rankers.trees import TreeRanker
from cldrank.wording import count, listed, positions, some

Rows = list[tuple[str, ...]]

_SHOWN = 20  # features of the table
_UNPRINTABLE = re.compile("[\x7f-\xa0\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufffe\uffff]")
_FRONT = re.compile(r"---\n(.*?\n)?---\n", re.DOTALL)
_SYNTHETIC = (
    "This ranker was trained on data that a generator made. It shows how a method behaves; do not conclude from it how "
    "well anything ranks real results."
)
_LOADING = """import cldrank as cr

ranker = {loaded}
scores = ranker.predict(cr.load("candidates.parquet"))"""
_COMMANDS = """cldrank score ranker/ --features candidates.parquet --out scores.parquet
cldrank evaluate ranker/ --features labelled.parquet --record
cldrank export ranker/ --to json --out model.json"""
_SAFETY = (
    "It departs from production only as far as the clicks on queries held out support: a blend of what was learned and "
    "of production, the best of those that the clicks show to be worse than production by at most a margin."
)
_FOOTER = (
    "This card is rewritten whenever the ranker is saved. Put your own text into `NOTES.md` beside it: that file "
    "stays, and becomes part of the card."
)
_BIASES = {
    "position": "results further up are seen and clicked more often, and count as more relevant than they are",
    "trust": "clicks that a result owes to its high position count as relevance",
    "selection": "candidates that were never shown are taken to be like those that were",
}
_ENDED_WELL = ("converged", "completed", "early_stopped")
_WIDE = 1.5  # times its lower end: an interval to be warned of


def model_card(ranker: Ranker, notes: str = "") -> str:
    r"""The model card of a ranker as Markdown; it depends on nothing but the ranker and the notes.

    notes   text that goes below the card, as it is; front matter at its top goes into that of the card

    >>> from cldrank import scaling
    >>> ranker = LinearRanker(feature_names=["bm25"], scaling=scaling.fit(None, [[1]]), coefficients=[2])
    >>> print(model_card(ranker).partition("\n\n")[2].splitlines()[0])
    # Ranker of unknown origin
    """
    given = _FRONT.match(notes)
    own = (given[1] or "") if given else ""
    theirs = set(re.findall(r"^([\w-]+):", own, re.MULTILINE))
    front = front_matter({key: value for key, value in _front(ranker).items() if key not in theirs}) + own
    text = (notes[given.end() :] if given else notes).strip()
    below = f"## Notes\n\n{text}\n\n" if text else ""
    return f"---\n{front}---\n\n{render_markdown(card_document(ranker))}\n{below}---\n\n{_FOOTER}\n"


def card_document(ranker: Ranker) -> Document:
    """All that is known of a ranker."""
    origin = ranker.provenance
    blocks: list[Block] = []
    if origin.synthetic:
        blocks.append(Notice("warning", _SYNTHETIC, label="SYNTHETIC DATA."))
    blocks.append(Paragraph([Mono(repr(ranker))]))
    if origin.method is not None:
        blocks.append(Paragraph([Strong(origin.method.label), f" {origin.method.sentence}."]))
    sections: dict[str, Sequence[Block]] = {
        "Limits": [Notice("note", [text], label="limit") for text in known_limits(ranker)],
        "Use": _use(ranker),
        "Evaluation": _evaluations(origin) or [Paragraph("None is recorded.")],
        "Safety": [] if origin.safety is None else [Paragraph(_SAFETY), _facts(_safety(origin.safety))],
        "Data": [_facts(_data(ranker)), *_clicks(origin)],
        "Propensities": [] if origin.propensities is None else _curve(origin.propensities),
        "Parameters": _parameters(origin),
        "Diagnostics": [] if origin.diagnostics is None else _fit(origin.diagnostics),
        "Features": _features(ranker),
        "Repeat it": _repeated(origin),
    }
    for title, inside in sections.items():
        blocks += [Heading(title), *inside] if inside else []
    return Document(_title(origin), blocks)


def _facts(rows: Sequence[tuple[str, str]]) -> Table:
    return Table(("", ""), rows, text=("",))


# -- sections ------------------------------------------------------------------------------------------------------


def _title(origin: Provenance) -> str:
    name = origin.method.label if origin.method else origin.estimator
    data = origin.data or ("data without a name" if origin.rows else "")
    title = f"{name} ranker" if name else "Ranker"
    return f"{title}, trained on {_labelled(data, origin.synthetic)}" if data else f"{title} of unknown origin"


def _labelled(data: str, synthetic: bool) -> str:
    return f"{data or 'data without a name'}{' (synthetic)' if synthetic else ''}"


def _use(ranker: Ranker) -> list[Block]:
    is_module = isinstance(ranker, ModuleRanker)
    loaded = 'cr.load_ranker("ranker/")  # nothing in the folder can make code run'
    if is_module:
        loaded = 'cr.load_ranker("ranker/", module=module)  # a torch module of the class that was trained'
    blocks: list[Block] = [Paragraph("With this folder as `ranker/`:"), Code(_LOADING.format(loaded=loaded), "python")]
    commands = _COMMANDS.rpartition("\n")[0] if isinstance(ranker, BlendRanker) else _COMMANDS
    return blocks if is_module else [*blocks, Code(commands, "sh")]


def _evaluations(origin: Provenance) -> list[Block]:
    blocks: list[Block] = []
    for evaluation in origin.evaluations:
        skipped = ", those without a relevant candidate left out" if evaluation.empty == "skip" else ""
        words = [
            f"On {evaluation.data or 'data without a name'} ",
            Strong("(synthetic)" if evaluation.synthetic else ""),
            f", {evaluation.queries:,} queries{skipped}; intervals are over queries. Fingerprint of the data: ",
            Mono(evaluation.fingerprint or "not known"),
            ".",
        ]
        rows = []
        for name, known in evaluation.measures.items():
            interval = "not known"
            if "low" in known:
                interval = f"{span(known['low'], known['high'], '.4f')} ({known['confidence']:.0%})"
            rows.append((name, f"{known['mean']:.4f}", interval))
        blocks += [Paragraph(words), Table(("measure", "mean", "interval"), rows)]
    return blocks


def _safety(safety: SafetyRecord) -> list[tuple[str, str]]:
    worst = safety.margin / safety.value if safety.value else 0.0
    rest = "an imitation of production" if safety.is_imitated else f"production's score, {safety.production}"
    judged = minus(f"{safety.gain:+.4f} ({span(safety.low, safety.high)}, {safety.confidence:.0%} interval)")
    tried = ", ".join(f"{share}: {low:+.4f}" for share, low in safety.tried.items())
    return [
        ("share of the learned ranker", f"{safety.share:.0%}"),
        ("the rest", rest),
        ("production's results that the rest alone shows as well", f"{safety.overlap:.1%}"),
        (f"gain in {safety.measure} over production", judged),
        ("production", f"{safety.value:.4f}"),
        ("may be worse by", f"{safety.margin:.4f} ({worst:.1%})"),
        ("judged by the clicks on", count(safety.queries, "query", "queries")),
        ("lower end of the gain, by share", minus(tried)),
    ]


def _data(ranker: Ranker) -> list[tuple[str, str]]:
    origin, hashes, share = ranker.provenance, ranker.trained_on, ranker.provenance.held_out
    known = {
        "name": origin.data or "none",
        "kind": "synthetic, made by a generator" if origin.synthetic else "not marked as synthetic",
        "queries": f"{origin.queries:,}",
        "queries trained on": "" if hashes is None else f"{len(hashes):,}, remembered by their hashes",
        "held out beside them": "" if share is None else f"{share:.4g} of all queries, by their hashes",
        "candidates": f"{origin.rows:,}",
        "features": f"{len(ranker.feature_names):,}",
        "missing values": "some" if origin.has_missing else "none",
        "fingerprint": origin.fingerprint,
    }
    return [
        (name, text) for name, text in known.items() if text and (origin.rows or name in ("features", "fingerprint"))
    ]


def _clicks(origin: Provenance) -> list[Block]:
    clicks = origin.clicks
    if clicks is None:
        return []
    counted = "every click" if clicks.every_click else "at most one click per impression"
    rows = [
        ("impressions", f"{clicks.impressions:,}"),
        ("clicks", f"{clicks.clicks:,} ({counted})"),
        ("cells (candidate at a position)", f"{clicks.cells:,}"),
        ("candidates shown", f"{clicks.shown:,}"),
        ("lowest position", f"{clicks.depth:,}"),
        ("fingerprint", clicks.fingerprint),
    ]
    return [Paragraph("Clicks:"), _facts(rows)]


def _curve(record: CurveRecord) -> list[Block]:
    """The curve as a table; those of several segments one below the other."""
    curves = record.by_segment
    facts, notes, rows = [], [], []
    interval = next((curve.confidence for curve in curves.values() if curve.confidence is not None), None)
    has_base = any(curve.base is not None for curve in curves.values())
    for segment, curve in curves.items():
        before = f"{segment}: " if segment else ""
        how = "assumed or given" if curve.estimator is None else f"estimated by {curve.estimator}"
        facts += [(f"{before}how", how), (f"{before}origin", curve.origin)]
        for name, changed in (("raised to what the clicks prove", curve.raised), ("clipped", curve.clipped)):
            facts += [(f"{before}{name}", positions(changed, len(changed)))] if changed else []
        notes += [Notice("note", [f"{before}{text}"]) for text in curve.notes]
        for at, value in enumerate(curve.values):
            row = [segment] * bool(record.segments) + [str(at + 1), f"{value:.4g}"]
            if interval is not None:
                known = curve.low is not None and curve.high is not None
                row.append(span(curve.low[at], curve.high[at], ".4g") if known else "")  # type: ignore[index]
            if has_base:
                row.append("" if curve.base is None else f"{curve.base[at]:.4g}")
            rows.append(row)
    heads = ["segment"] * bool(record.segments) + ["position", "slope" if has_base else "propensity"]
    heads += [] if interval is None else [f"{interval:.0%} interval"]
    return [_facts(facts), Table([*heads, *["base"] * has_base], rows), *notes]


def _parameters(origin: Provenance) -> list[Block]:
    """Those that are not at their defaults, beside these; and the others, folded away."""
    defaults = origin.method.defaults if origin.method else {}
    changed = [(name, str(value), str(defaults[name])) for name, value in origin.parameters.items() if name in defaults]
    others = [(name, str(value)) for name, value in origin.parameters.items() if name not in defaults]
    blocks: list[Block] = []
    if changed:
        blocks.append(Table(("not at its default", "value", "default"), changed, text=("value", "default")))
    elif others:
        blocks.append(Paragraph("All are at their defaults."))
    if others:
        title = "The others" if changed else "All parameters"
        blocks.append(Details(title, [Table(("parameter", "value"), others, text=("value",))]))
    return blocks


def _fit(fit: FitRecord) -> list[Block]:
    rows = [(name, _number(value)) for name, value in fit.facts().items()]
    blocks: list[Block] = [Paragraph("Warnings of the fit:")] if fit.warnings else []
    return [_facts(rows), *blocks, *(Notice("warning", [text]) for text in fit.warnings)]


def _number(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4f}"


def _features(ranker: Ranker) -> list[Block]:
    """The features that matter most, where the kind of ranker tells; and all, folded away."""
    blocks: list[Block] = []
    rows: Rows = []
    if isinstance(ranker, LinearRanker):
        order = np.argsort(-np.abs(ranker.coefficients), kind="stable")
        rows = [(ranker.feature_names[at], f"{ranker.coefficients[at]:.4g}") for at in order]
        about, heads = f"Coefficients of the scaled features; intercept {ranker.intercept:.4g}.", ["coefficient"]
    elif isinstance(ranker, TreeRanker):
        used = [entry for entry in ranker.importance().ordered() if entry["splits"]]
        rows = [(entry["feature"], f"{entry['share']:.1%}", f"{entry['splits']:,}") for entry in used]
        made = f"{count(len(ranker.trees), 'tree')} with {count(ranker.n_splits, 'split')}"
        about, heads = f"{made} by {len(used):,} of the features.", ["share of gain", "splits"]
    if rows:
        blocks += [Paragraph(about), Table(("feature", *heads), rows[:_SHOWN])]
        blocks += [Paragraph(f"{len(rows) - _SHOWN:,} more are smaller.")] if len(rows) > _SHOWN else []
    names = [part for name in ranker.feature_names for part in (", ", Mono(name))][1:]
    return [*blocks, Details("All features, in the order that the ranker takes them", [Paragraph(names)])]


def _repeated(origin: Provenance) -> list[Block]:
    """What trains the same ranker again."""
    if origin.command:
        words = f"In a folder with the files that it names, with cldrank {origin.cldrank}, this trains the same ranker:"
        return [Paragraph([words]), Code(origin.command, "sh")]
    if origin.method is None:
        return []
    given = {"clicks": origin.clicks, "propensities": origin.propensities}
    arguments = ", ".join(["dataset", *(name for name, value in given.items() if value is not None)])
    words = f"It was trained in Python. With cldrank {origin.cldrank} and data of these fingerprints, this"
    return [Paragraph([f"{words} trains the same ranker:"]), Code(f"{origin.method.call}.fit({arguments})", "python")]


# -- limits --------------------------------------------------------------------------------------------------------


def known_limits(ranker: Ranker) -> list[str]:
    """What a ranker should not be relied on for, as far as its provenance tells; the gravest first."""
    origin = ranker.provenance
    limits = [*_of_data(origin), *_of_fit(origin.diagnostics), *_of_clicks(origin), *_of_features(ranker)]
    return list(dict.fromkeys([*limits, *_of_use(ranker)]))  # two evaluations may be on the same data


def _of_data(origin: Provenance) -> Iterator[str]:
    if not origin.estimator:
        yield "Where it comes from is not known: nothing below vouches for its scores."
    if origin.synthetic:
        yield "It was trained on SYNTHETIC data, made by a generator: its quality says nothing about real searches."
    if not origin.evaluations:
        yield "No evaluation is recorded: how well it ranks is not known."
    for evaluation in origin.evaluations:
        name = evaluation.data or "data without a name"
        if evaluation.synthetic and not origin.synthetic:
            yield f"Its evaluation on {name} is on SYNTHETIC data."
        if evaluation.fingerprint and evaluation.fingerprint == origin.fingerprint:
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


# -- front matter --------------------------------------------------------------------------------------------------


def _front(ranker: Ranker) -> dict[str, Any]:
    """As model hubs read it; a licence is for the owner to choose."""
    origin = ranker.provenance
    tags = ["learning-to-rank", ranker.kind, *([origin.estimator] if origin.estimator else [])]
    tags += ["learning-from-clicks"] if origin.clicks else []
    tags += ["synthetic-data"] if origin.synthetic else []
    front: dict[str, Any] = {"library_name": "cldrank", "pipeline_tag": "text-ranking", "tags": tags}
    if origin.evaluations:
        front["metrics"] = list(dict.fromkeys(name for record in origin.evaluations for name in record.measures))
        front["model-index"] = [{"name": _title(origin), "results": list(map(_result, origin.evaluations))}]
    return front


def _result(record: EvaluationRecord) -> dict[str, Any]:
    skipped = ", without queries that have no relevant candidate" if record.empty == "skip" else ""
    name = _labelled(record.data, record.synthetic) + skipped
    return {
        "task": {"type": "text-ranking", "name": "learning to rank"},
        "dataset": {"type": "labelled-candidates", "name": name, "revision": record.fingerprint},
        "metrics": [{"type": measure, "value": round(known["mean"], 4)} for measure, known in record.measures.items()],
    }


def front_matter(entries: Mapping[str, Any]) -> str:
    """Entries as YAML, one per line: their values are JSON, which YAML reads, with all that it does not print escaped.

    >>> print(front_matter({"tags": ["a", "b: c"], "value": 0.5}), end="")
    tags: ["a", "b: c"]
    value: 0.5
    """
    text = "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in entries.items())
    return _UNPRINTABLE.sub(lambda letter: f"\\u{ord(letter[0]):04x}", text)
