"""How `cldrank propensity` shows what it found: to people, and to programs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cldrank.cli.output import console, new_table, print_line, say

if TYPE_CHECKING:
    from rich.table import Table
    from typing_extensions import TypeIs

    from cldrank.propensity import AffineClicks, Propensities
    from cldrank.propensity.checks.agreement import EstimatorComparison
    from cldrank.propensity.choosing import ChosenMethod
    from cldrank.propensity.segmented import EstimatedSegments

_MOST_POSITIONS = 50


def _is_affine(found: Propensities | AffineClicks) -> TypeIs[AffineClicks]:
    return hasattr(found, "slope")


# -- for people ----------------------------------------------------------------------------------------------------


def say_choice(chosen: ChosenMethod) -> None:
    """Which method was chosen and why, if it was not the user who chose."""
    if chosen.reason:
        say(f"{chosen.name} was chosen: {chosen.reason}.")


def print_found(found: Propensities | AffineClicks) -> None:
    """One line per position, then the fit and the notes."""
    console.print(found.origin, markup=False)
    if _is_affine(found):
        _print_affine(found)
    else:
        _print_curve(found)


def _print_curve(rho: Propensities) -> None:
    table = new_table(*_heads(rho))
    for at in range(min(len(rho), _MOST_POSITIONS)):
        entries = [f"{at + 1}", f"{rho.values[at]:.4g}"]
        if rho.low is not None and rho.high is not None:
            entries.append(f"{rho.low[at]:.4g} – {rho.high[at]:.4g}")
        if rho.comparisons is not None:
            entries.append(f"{rho.comparisons[at]:,.0f}")
        table.add_row(*entries)
    console.print(table)
    _say_more(len(rho))
    if rho.goodness is not None:
        refuted = rho.goodness.p_value < 0.01
        _remark(str(rho.goodness), "warning" if refuted else "fit")
    for note in rho.notes:
        _remark(note, "warning" if note in _doubts(rho) else "note")


def _print_affine(found: AffineClicks) -> None:
    interval = f", {100 * found.confidence:g}% interval" if found.confidence is not None else ""
    table = new_table("position", f"slope{interval}", f"base{interval}")
    bounds = [(found.slope, *found.interval("slope")), (found.base, *found.interval("base"))]
    for at in range(min(len(found), _MOST_POSITIONS)):
        entries = [f"{values[at]:.4g} ({low[at]:.4g} – {high[at]:.4g})" for values, low, high in bounds]
        plain = [f"{values[at]:.4g}" for values, _, _ in bounds]
        table.add_row(f"{at + 1}", *(entries if interval and at else plain))
    console.print(table)
    _say_more(len(found))
    for note in found.notes:
        _remark(note)


def print_segments(found: EstimatedSegments) -> None:
    """All segments side by side with their mean, then their notes."""
    _print_side_by_side({"mean": found.pooled, **found})
    for name, rho in found.items():
        for note in rho.notes:
            _remark(f"{name}: {note}")
        if name in found.refusals:
            _remark(f"{name}, alone: {found.refusals[name].said('shell')}", "warning")


def print_comparison(found: EstimatorComparison) -> None:
    """All estimates side by side, their fit, how far they agree, and why the other methods refuse."""
    fits = any(rho.goodness for rho in found.estimates.values())
    _print_side_by_side(found.estimates, fits)
    if fits:
        console.print("fit: do clicks of the same candidates at other positions agree? Below 0.01, no.\n", style="dim")
    if found.agreements:
        console.print(_apart(found))
        console.print("where two differ most, and by how many standard errors of the difference\n", style="dim")
    for check in found.bounds:
        _remark(str(check), "warning" if check.below else "bound")
    noted = {name: list(rho.notes) for name, rho in found.estimates.items()}
    doubts = {note for rho in found.estimates.values() for note in _doubts(rho)}
    for note, names in _by_text(noted).items():
        _remark(f"{', '.join(names)}: {note}", "warning" if note in doubts else "note")
    for text, names in _by_text({name: [text] for name, text in _reasons(found).items()}).items():
        console.print(f"[yellow]refused[/] {', '.join(names)}:", end=" ")
        print_line(text)


def _reasons(found: EstimatorComparison) -> dict[str, str]:
    """Why methods refuse, without their names, which are keys."""
    from cldrank.propensity.checks.refusal import without_name

    return {name: without_name(refusal, "shell") for name, refusal in found.refusals.items()}


def _apart(found: EstimatorComparison) -> Table:
    """How far any two estimates are apart."""
    table = new_table("methods", "position", "difference", "errors", "")
    for pair in found.agreements:
        at = pair.worst - 1
        where = [f"{pair.worst}", f"{math.expm1(pair.differences[at]):+.1%}"] if pair.scores[at] else ["", ""]
        verdict = "agree" if pair.agree else "[yellow]disagree[/]"
        table.add_row(f"{pair.first}, {pair.second}", *where, f"{abs(pair.scores[at]):.1f}", verdict)
    return table


def _by_text(said: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Who says the same."""
    found: dict[str, list[str]] = {}
    for name, texts in said.items():
        for text in texts:
            found.setdefault(text, []).append(name)
    return found


def _doubts(rho: Propensities) -> list[str]:
    """The notes that are more than that."""
    from cldrank.propensity.checks.refuted import REFUTED

    confounded = [str(rho.confounding)] if rho.confounding is not None and rho.confounding.doubtful else []
    return confounded + [note for note in rho.notes if note.startswith(REFUTED)]


def _heads(rho: Propensities) -> list[str]:
    interval = [f"{100 * (rho.confidence or 0):g}% interval"] if rho.low is not None else []
    return [
        "position",
        "at least" if rho.bound else "examined",
        *interval,
        *(["comparisons"] if rho.comparisons is not None else []),
    ]


def _print_side_by_side(curves: Mapping[str, Propensities], fits: bool = False) -> None:
    """One column per curve, in as many tables as the width of the terminal asks for."""
    names = list(curves)
    fitting = max(1, (console.width - 10) // 21)
    size = max(len(rho) for rho in curves.values())
    for start in range(0, len(names), fitting):
        part = [curves[name] for name in names[start : start + fitting]]
        heads = (f"{name}, at least" if curves[name].bound else name for name in names[start : start + fitting])
        table = new_table("position", *heads)
        for at in range(min(size, _MOST_POSITIONS)):
            table.add_row(f"{at + 1}", *(_entry(rho, at) for rho in part))
        if fits:
            table.add_section()
            table.add_row("fit, p", *(f"{rho.goodness.p_value:.2g}" if rho.goodness else "" for rho in part))
        console.print(table)
    _say_more(size)


def _entry(rho: Propensities, at: int) -> str:
    if at >= len(rho):
        return ""
    if rho.low is None or rho.high is None or not at:
        return f"{rho.values[at]:.3g}"
    return f"{rho.values[at]:.3g} ({rho.low[at]:.3g}–{rho.high[at]:.3g})"


def _say_more(positions: int) -> None:
    if positions > _MOST_POSITIONS:
        console.print(f"and {positions - _MOST_POSITIONS} more positions; --json has them all", style="dim")


def _remark(text: str, kind: str = "note") -> None:
    console.print(f"[{'yellow' if kind == 'warning' else 'dim'}]{kind}:[/]", end=" ")
    print_line(text)


# -- for programs --------------------------------------------------------------------------------------------------


def as_dict(found: Propensities | AffineClicks) -> dict[str, Any]:
    """Positions with all that is known of them, the fit and the notes."""
    checks: dict[str, Any] = {}
    columns: dict[str, Any]
    if _is_affine(found):
        columns = {"slope": found.slope, "base": found.base}
        for name in ("slope", "base") if found.confidence is not None else ():
            columns[f"{name}_low"], columns[f"{name}_high"] = found.interval(name)
    else:
        columns = {"examined": found.values, **{name: getattr(found, name) for name in ("low", "high", "comparisons")}}
        checks = {name: (one := getattr(found, name)) and asdict(one) for name in ("goodness", "confounding")}
    known = {name: column for name, column in columns.items() if column is not None}
    positions = [
        {"position": at + 1, **{name: float(column[at]) for name, column in known.items()}} for at in range(len(found))
    ]
    described = {"origin": found.origin, "confidence": found.confidence, "positions": positions}
    return {**described, **checks, "notes": list(found.notes)}


def choice_as_dict(chosen: ChosenMethod) -> dict[str, Any]:
    """The method, and why it was chosen."""
    return {"method": chosen.name, "chosen_because": chosen.reason}


def comparison_as_dict(found: EstimatorComparison) -> dict[str, Any]:
    """Estimates, refusals and agreements."""
    return {
        "estimates": {name: as_dict(rho) for name, rho in found.estimates.items()},
        "refusals": _reasons(found),
        "agreements": [
            {
                "methods": [pair.first, pair.second],
                "agree": pair.agree,
                "position": pair.worst,
                "standard_errors": abs(float(pair.scores[pair.worst - 1])),
                "log_difference": float(pair.differences[pair.worst - 1]),
            }
            for pair in found.agreements
        ],
        "bounds": [
            {"method": check.curve, "bound": check.bound, "below_at": list(check.below)} for check in found.bounds
        ],
    }
