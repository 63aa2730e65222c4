"""The tables as LaTeX, in the style of booktabs."""

from __future__ import annotations

from collections.abc import Sequence

from cldrank._version import __version__
from cldrank.report.narrative import experiment_title, what_was_run
from cldrank.report.result_tables import ResultTable, TableEntry, notes, shares, tables
from cldrank.report.sections import Section

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "±": r"$\pm$", "≈": r"$\approx$", "η": r"$\eta$", "−": r"$-$", "–": "--", "…": r"\dots{}",
    "\n": " ", "\r": " ",
}  # fmt: skip


def render_latex(sections: Sequence[Section]) -> str:
    """A table environment for each table, for a document that uses booktabs."""
    head = f"% Made by cldrank {__version__}. Needs \\usepackage{{booktabs}}.\n"
    if not any(section.has_values for section in sections):
        return f"{head}% There are no results to show.\n"
    parts = [head]
    for section in sections:
        if not section.has_values:
            continue
        for place, table in enumerate((*tables(section), *shares(section)), start=1):
            parts.append(_environment(section, table, f"tab:{section.name}-{place}"))
    return "\n".join(parts)


def _environment(section: Section, table: ResultTable, label: str) -> str:
    made = " Synthetic data." if section.synthetic else ""
    named = experiment_title(section.experiment).removeprefix("Table 1: ")  # LaTeX numbers tables itself
    title = f"{named[:1].upper()}{named[1:]} on {section.data}{f', {table.title}' if table.title else ''}"
    caption = _escaped(f"{title}.{made} {what_was_run(section)} {' '.join(notes(section))}")
    lines = [
        r"\begin{table}[t]",
        r"  \centering\small",
        f"  \\caption{{{caption}}}",
        f"  \\label{{{label}}}",
        f"  \\begin{{tabular}}{{@{{}}l{''.join('r' * len(group.columns) for group in table.groups)}@{{}}}}",
        r"    \toprule",
        *_heads(table),
        r"    \midrule",
    ]
    for row in table.rows:
        if row.begins:
            lines.append(r"    \midrule")
        lines.append(f"    {' & '.join([_name(row.method), *map(_entry, row.entries)])} \\\\")
    return "\n".join([*lines, r"    \bottomrule", r"  \end{tabular}", r"\end{table}", ""])


def _heads(table: ResultTable) -> list[str]:
    lines = []
    if any(group.name for group in table.groups):
        over, rules, column = [], [], 2
        for group in table.groups:
            last = column + len(group.columns) - 1
            over.append(f"\\multicolumn{{{len(group.columns)}}}{{c}}{{{_escaped(group.name)}}}")
            if group.name:
                rules.append(f"\\cmidrule(lr){{{column}-{last}}}")
            column = last + 1
        lines += [f"    & {' & '.join(over)} \\\\", f"    {' '.join(rules)}"]
    heads = [_escaped(column) for group in table.groups for column in group.columns]
    return [*lines, f"    {' & '.join(['Method', *heads])} \\\\"]


def _entry(entry: TableEntry) -> str:
    mean, _, half = entry.text.partition(" ± ")
    text = f"{_escaped(mean)}$\\,\\pm\\,${half}" if half else _escaped(mean)
    if entry.best:
        text = f"\\textbf{{{text}}}"
    elif entry.tied:
        text = f"{text}\\rlap{{$^{{\\approx}}$}}"
    return f"{text} ({_escaped(entry.note)})" if entry.note else text


def _name(method: str) -> str:
    r"""A method's name; what follows a single ^ is raised, as in the paper.

    >>> print(_name("Heckman^rank"))
    Heckman\textsuperscript{rank}
    """
    base, _, raised = method.partition("^")
    if base and raised.isalnum():
        return f"{_escaped(base)}\\textsuperscript{{{_escaped(raised)}}}"
    return _escaped(method)


def _escaped(text: str) -> str:
    r"""Text that LaTeX prints as it is.

    >>> print(_escaped("50% of a_b"))
    50\% of a\_b
    """
    return "".join(_SPECIAL.get(letter, letter) for letter in text)
