"""Propensities as text: one line per position."""

from __future__ import annotations

from cldrank.propensity.propensities import Propensities


def table(propensities: Propensities) -> str:
    """Positions, values, intervals and comparisons, then the fit and all notes.

    >>> print(table(Propensities.power(1, 2)))
    power law, eta 1
    position  examined
           1         1
           2       0.5
    """
    low, high, comparisons = propensities.low, propensities.high, propensities.comparisons
    head = f"{'position':>8}  {'examined':>8}"
    if low is not None:
        head += f"  {f'{100 * (propensities.confidence or 0):g}% interval':>18}"
    if comparisons is not None:
        head += f"  {'comparisons':>11}"
    lines = [propensities.origin, head]
    for at, value in enumerate(propensities.values):
        line = f"{at + 1:>8}  {value:>8.4g}"
        if low is not None and high is not None:
            line += f"  {f'{low[at]:.4g} – {high[at]:.4g}':>18}"
        if comparisons is not None:
            line += f"  {comparisons[at]:>11,.0f}"
        lines.append(line)
    if propensities.goodness is not None:
        lines.append(str(propensities.goodness))
    return "\n".join([*lines, *(f"note: {note}" for note in propensities.notes)])
