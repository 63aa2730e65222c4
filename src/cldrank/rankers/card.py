"""Model cards: all that is known of a ranker, as Markdown with front matter, derived from its provenance."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cldrank.documents.text import Markdown, markdown_templates
from cldrank.rankers.base import Ranker
from cldrank.rankers.limits import known_limits
from cldrank.rankers.linear import LinearRanker
from cldrank.rankers.provenance import CurveRecord, EvaluationRecord, FitRecord, Provenance, SafetyRecord
from cldrank.rankers.torch_module import ModuleRanker
from cldrank.rankers.trees import TreeRanker
from cldrank.wording import count, positions

Rows = list[tuple[str, ...]]

_SHOWN = 20  # features of the table
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_@.-]*")
_WORDS = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")  # which YAML does not take for texts
_UNPRINTABLE = re.compile("[\x7f-\xa0\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufffe\uffff]")
_FRONT = re.compile(r"---\n(.*?\n)?---\n", re.DOTALL)


def model_card(ranker: Ranker, notes: str = "") -> str:
    r"""The model card of a ranker as Markdown; it depends on nothing but the ranker and the notes.

    notes   text that goes below the card, as it is; front matter at its top goes into that of the card

    >>> from cldrank import scaling
    >>> ranker = LinearRanker(feature_names=["bm25"], scaling=scaling.fit(None, [[1]]), coefficients=[2])
    >>> print(model_card(ranker).partition("\n\n")[2].splitlines()[0])
    # Ranker of unknown origin
    """
    origin = ranker.provenance
    found = _FRONT.match(notes)
    own = (found[1] or "") if found else ""
    theirs = set(re.findall(r"^([\w-]+):", own, re.MULTILINE))
    front = {key: value for key, value in _front(ranker).items() if key not in theirs}
    context = {
        "front": Markdown(as_yaml(front) + own),
        "title": _title(origin),
        "ranker": repr(ranker),
        "origin": origin,
        "data": _data(ranker),
        "clicks": _clicks(origin),
        "parameters": _parameters(origin),
        "curve": None if origin.propensities is None else _curve(origin.propensities),
        "fit": None if origin.diagnostics is None else _fit(origin.diagnostics),
        "safety": None if origin.safety is None else _safety(origin.safety),
        "features": _features(ranker),
        "names": ranker.feature_names,
        "evaluations": [(one, _measures(one)) for one in origin.evaluations],
        "limits": known_limits(ranker),
        "module": ranker.class_name if isinstance(ranker, ModuleRanker) else None,
        "arguments": _arguments(origin),
        "notes": Markdown((notes[found.end() :] if found else notes).strip()),
    }
    return markdown_templates("cldrank.rankers").get_template("model_card.md.jinja").render(context)


# -- parts of the card ---------------------------------------------------------------------------------------------


def _title(origin: Provenance) -> str:
    name = origin.method.label if origin.method else origin.estimator
    data = origin.data or ("data without a name" if origin.rows else "")
    title = f"{name} ranker" if name else "Ranker"
    return f"{title}, trained on {_labelled(data, origin.synthetic)}" if data else f"{title} of unknown origin"


def _labelled(data: str, synthetic: bool) -> str:
    return f"{data or 'data without a name'}{' (synthetic)' if synthetic else ''}"


def _data(ranker: Ranker) -> Rows:
    origin = ranker.provenance
    rows: Rows = [("features", f"{len(ranker.feature_names):,}")]
    if origin.rows:
        made = "synthetic, made by a generator" if origin.synthetic else "not marked as synthetic"
        rows = [
            ("name", origin.data or "none"),
            ("kind", made),
            ("queries", f"{origin.queries:,}"),
            *_queries(ranker),
            ("candidates", f"{origin.rows:,}"),
            *rows,
            ("missing values", "some" if origin.has_missing else "none"),
        ]
    return [*rows, ("fingerprint", origin.fingerprint)] if origin.fingerprint else rows


def _queries(ranker: Ranker) -> Rows:
    """Which of them it was trained on, and which it must be judged on."""
    share, hashes = ranker.provenance.held_out, ranker.trained_on
    rows: Rows = [] if hashes is None else [("queries trained on", f"{len(hashes):,}, remembered by their hashes")]
    return rows if share is None else [*rows, ("held out beside them", f"{share:.4g} of all queries, by their hashes")]


def _clicks(origin: Provenance) -> Rows:
    found = origin.clicks
    if found is None:
        return []
    counted = "every click" if found.every_click else "at most one click per impression"
    return [
        ("impressions", f"{found.impressions:,}"),
        ("clicks", f"{found.clicks:,} ({counted})"),
        ("cells (candidate at a position)", f"{found.cells:,}"),
        ("candidates shown", f"{found.shown:,}"),
        ("lowest position", f"{found.depth:,}"),
        ("fingerprint", found.fingerprint),
    ]


def _parameters(origin: Provenance) -> tuple[Rows, Rows]:
    """Those that are not at their defaults, beside these; and the others."""
    defaults = origin.method.defaults if origin.method else {}
    given = {name: str(value) for name, value in origin.parameters.items()}
    changed: Rows = [(name, value, str(defaults[name])) for name, value in given.items() if name in defaults]
    return changed, [(name, value) for name, value in given.items() if name not in defaults]


def _curve(curve: CurveRecord) -> dict[str, Any]:
    """The curve as a table; those of several segments one below the other."""
    if not curve.segments:
        return _one_curve(curve)
    parts = {name: _one_curve(one) for name, one in curve.by_segment.items()}
    heads = max((part["heads"] for part in parts.values()), key=len)
    return {
        "heads": ["segment", *heads],
        "rows": [(name, *row, *[""] * (len(heads) - len(row))) for name, part in parts.items() for row in part["rows"]],
        "facts": [(f"{name}: {fact}", text) for name, part in parts.items() for fact, text in part["facts"]],
        "notes": [f"{name}: {text}" for name, part in parts.items() for text in part["notes"]],
    }


def _one_curve(curve: CurveRecord) -> dict[str, Any]:
    interval = "" if curve.confidence is None else f"{curve.confidence:.0%} interval"
    heads = ["position", "propensity" if curve.base is None else "slope"]
    heads += [interval] if interval else []
    heads += ["base"] if curve.base is not None else []
    rows: Rows = []
    for at, value in enumerate(curve.values):
        row = [str(at + 1), f"{value:.4g}"]
        if curve.low is not None and curve.high is not None:
            row.append(f"{curve.low[at]:.4g} – {curve.high[at]:.4g}")
        row += [f"{curve.base[at]:.4g}"] if curve.base is not None else []
        rows.append(tuple(row))
    how = "assumed or given" if curve.estimator is None else f"estimated by {curve.estimator}"
    facts: Rows = [("how", how), ("origin", curve.origin)]
    facts += [("raised to what the clicks prove", positions(curve.raised, len(curve.raised)))] if curve.raised else []
    facts += [("clipped", positions(curve.clipped, len(curve.clipped)))] if curve.clipped else []
    return {"heads": heads, "rows": rows, "facts": facts, "notes": curve.notes}


def _fit(fit: FitRecord) -> dict[str, Any]:
    known: dict[str, Any] = {
        "status": fit.status,
        "steps": fit.steps,
        "started from": fit.warm_start or None,
        "log-likelihood": fit.log_likelihood,
        "weighted rows": fit.rows,
        "their total weight": None if fit.weight is None else f"{fit.weight:,.0f}",
        "step kept": fit.kept,
        "loss": fit.loss,
        "queries learned from": fit.learned_queries,
        "queries held out": fit.held_queries,
        "held-out loss": fit.held_loss,
        f"held-out concordance with {fit.held_target}": fit.concordance,
        "constant features": len(fit.constant) or None,
        "collinear features": len(fit.collinear) or None,
    }
    rows = [(name, _number(value)) for name, value in known.items() if value is not None]
    return {"rows": rows, "warnings": fit.warnings}


def _safety(safety: SafetyRecord) -> Rows:
    worst = safety.margin / safety.value if safety.value else 0.0
    judged = f"{safety.gain:+.4f} ({safety.low:+.4f} to {safety.high:+.4f}, {safety.confidence:.0%} interval)"
    return [
        ("share of the learned ranker", f"{safety.share:.0%}"),
        (
            "the rest",
            "an imitation of production" if safety.is_imitated else f"production's score, {safety.production}",
        ),
        ("production's results that the rest alone shows as well", f"{safety.overlap:.1%}"),
        (f"gain in {safety.measure} over production", judged),
        ("production", f"{safety.value:.4f}"),
        ("may be worse by", f"{safety.margin:.4f} ({worst:.1%})"),
        ("judged by the clicks on", count(safety.queries, "query", "queries")),
        ("lower end of the gain, by share", ", ".join(f"{one}: {low:+.4f}" for one, low in safety.tried.items())),
    ]


def _number(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4f}"


def _features(ranker: Ranker) -> dict[str, Any] | None:
    """The features that matter most, where the kind of ranker tells."""
    if isinstance(ranker, LinearRanker):
        order = np.argsort(-np.abs(ranker.coefficients), kind="stable")
        rows: Rows = [(ranker.feature_names[at], f"{ranker.coefficients[at]:.4g}") for at in order]
        return _first(f"Coefficients of the scaled features; intercept {ranker.intercept:.4g}.", ["coefficient"], rows)
    if isinstance(ranker, TreeRanker):
        found = [one for one in ranker.importance().ordered() if one["splits"]]
        rows = [(one["feature"], f"{one['share']:.1%}", f"{one['splits']:,}") for one in found]
        made = f"{count(len(ranker.trees), 'tree')} with {count(ranker.n_splits, 'split')}"
        about = f"{made} by {len(found):,} of the features."
        return _first(about, ["share of gain", "splits"], rows)
    return None


def _first(about: str, heads: Sequence[str], rows: Sequence[tuple[str, ...]]) -> dict[str, Any]:
    return {"about": about, "heads": ["feature", *heads], "rows": rows[:_SHOWN], "rest": max(len(rows) - _SHOWN, 0)}


def _measures(one: EvaluationRecord) -> Rows:
    rows: Rows = []
    for name, found in one.measures.items():
        known = "low" in found
        interval = f"{found['low']:.4f} – {found['high']:.4f} ({found['confidence']:.0%})" if known else "not known"
        rows.append((name, f"{found['mean']:.4f}", interval))
    return rows


def _arguments(origin: Provenance) -> str:
    given = {"clicks": origin.clicks, "propensities": origin.propensities}
    return ", ".join(["dataset", *(name for name, value in given.items() if value is not None)])


# -- front matter --------------------------------------------------------------------------------------------------


def _front(ranker: Ranker) -> dict[str, Any]:
    """As model hubs read it; a licence is for the owner to choose."""
    origin = ranker.provenance
    tags = ["learning-to-rank", ranker.kind, *([origin.estimator] if origin.estimator else [])]
    tags += ["learning-from-clicks"] if origin.clicks else []
    tags += ["synthetic-data"] if origin.synthetic else []
    front: dict[str, Any] = {"library_name": "cldrank", "pipeline_tag": "text-ranking", "tags": tags}
    if origin.evaluations:
        front["metrics"] = list(dict.fromkeys(name for one in origin.evaluations for name in one.measures))
        front["model-index"] = [{"name": _title(origin), "results": list(map(_result, origin.evaluations))}]
    return front


def _result(one: EvaluationRecord) -> dict[str, Any]:
    return {
        "task": {"type": "text-ranking", "name": "learning to rank"},
        "dataset": {
            "type": "labelled-candidates",
            "name": _labelled(one.data, one.synthetic) + _left_out(one),
            "revision": one.fingerprint,
        },
        "metrics": [{"type": measure, "value": found["mean"]} for measure, found in one.measures.items()],
    }


def _left_out(one: EvaluationRecord) -> str:
    """What makes measures on some data other than those of all its queries."""
    return ", without queries that have no relevant candidate" if one.empty == "skip" else ""


def as_yaml(value: Any, indent: str = "") -> str:
    """Mappings, lists, texts and numbers as YAML, which reads them back equal.

    >>> print(as_yaml({"tags": ["a", "b: c"], "value": 0.5}), end="")
    tags:
    - a
    - "b: c"
    value: 0.5
    """
    lines = []
    entries = value.items() if isinstance(value, Mapping) else [("-", one) for one in value]
    for key, one in entries:
        head = f"{indent}-" if key == "-" else f"{indent}{key}:"
        if isinstance(one, Mapping) and key == "-":
            lines.append(f"{head} {as_yaml(one, f'{indent}  ').lstrip()}")
        elif isinstance(one, Mapping):
            lines.append(f"{head}\n{as_yaml(one, f'{indent}  ')}")
        elif isinstance(one, Sequence) and not isinstance(one, str):
            lines.append(f"{head}\n{as_yaml(one, indent)}")
        else:
            lines.append(f"{head} {_scalar(one)}\n")
    return "".join(lines)


def _scalar(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | float):
        return json.dumps(value)
    if isinstance(value, float):
        text = repr(value) if math.isfinite(value) else json.dumps(str(value))
        return re.sub(r"^(-?\d+)e", r"\1.0e", text)  # YAML takes 1e-05 for a text
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return _UNPRINTABLE.sub(lambda one: f"\\u{ord(one[0]):04x}", json.dumps(value, ensure_ascii=False))
