"""How results by clicks are printed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cldrank.cli.output import add_row, console, fits, new_table, print_line, print_title
from cldrank.evaluation.by_labels import data_label
from cldrank.evaluation.click_results import log_words
from cldrank.evaluation.deciding import decide
from cldrank.evaluation.settling import say_way
from cldrank.evaluation.verdict_words import (
    curve_words,
    placebo_words,
    sentence,
    settling_verb,
    support_words,
    unseen_words,
)

if TYPE_CHECKING:
    from rich.table import Table

    from cldrank.evaluation import ClickComparison, ClickEvaluation
    from cldrank.measures import Interval

_COLOURS = {"better": "green", "worse": "red", "no difference": "blue", "cannot tell": "yellow"}


def print_click_comparison(result: ClickComparison) -> None:
    """Estimates, what the log can see, the unseen, other assumptions, and the verdict."""
    _print_head(f"{result.new} against {result.old}", result)
    interval = f"{result.first.interval.confidence:.0%} interval"
    table = new_table("measure", "new", "old", "difference", interval)
    for name, pair in result.measures.items():
        found = pair.interval
        values = (f"{one.interval.estimate:.4f}" for one in (pair.new, pair.old))
        add_row(table, name, *values, f"{found.estimate:+.4f}", _between(found))
    _print_measures(table, result)
    _print_words(result)
    print_title("Other assumptions")
    if result.checks:
        _print_checks(result, interval)
    print_line(f"  {placebo_words(result.placebo)}")
    console.print()
    colour = _COLOURS[result.verdict.decision]
    verdict = f"Verdict: {result.verdict.words}"
    console.print(verdict, markup=False, style=f"bold {colour}", soft_wrap=True)
    print_line(sentence(result.verdict.reason))
    if result.settling:
        verb = settling_verb(result)
        print_title(f"\nWhat would {verb} it")
        for way in result.settling:
            print_line(f"  {say_way(way, verb)}")
            if way.pages is not None:
                console.print(f"    {sentence(way.about)}.", markup=False, style="dim", soft_wrap=True)


def print_click_evaluation(result: ClickEvaluation) -> None:
    """Estimates of one ranker, what the log can see, and the unseen."""
    _print_head(result.ranker, result)
    confidence = next(iter(result.measures.values())).interval.confidence
    table = new_table("measure", "estimate", f"{confidence:.0%} interval", "whatever the unseen are")
    for name, found in result.measures.items():
        bounds = f"{found.lowest.low:.4f} … {found.highest.high:.4f}"
        between = f"{found.interval.low:.4f} … {found.interval.high:.4f}"
        add_row(table, name, f"{found.interval.estimate:.4f}", between, bounds)
    _print_measures(table, result)
    _print_words(result)


def _print_head(what: str, result: ClickComparison | ClickEvaluation) -> None:
    print_title(f"{what} on {data_label(result.data, result.synthetic)}, by clicks alone")
    print_line(log_words(result))
    print_line(f"{result.estimator}; propensities: {curve_words(result)}")


def _print_measures(table: Table, result: ClickComparison | ClickEvaluation) -> None:
    console.print(table)
    if "ARP" in result.measures:
        print_line("ARP is the average position of what is relevant: lower is better.\n")


def _print_words(result: ClickComparison | ClickEvaluation) -> None:
    _print_section("What the log can see", support_words(result))
    _print_section("The unseen", unseen_words(result))
    for note in result.notes:
        print_line(f"note: {note}")


def _print_section(title: str, sentences: Iterable[str]) -> None:
    print_title(title)
    for text in sentences:
        print_line(f"  {text}")
    console.print()


def _print_checks(result: ClickComparison, interval: str) -> None:
    """The first measure under other assumptions; what these are stands beside it, or below where there is no room."""
    head = ("assumption", f"gain in {result.first.measure}", interval, "decision")
    usual = result.first.gain
    rows = [("as above", usual, decide(usual, result.verdict.margin), "")]
    rows += [(one.name, one.gain, one.decision, one.about) for one in result.checks]
    narrow, wide = new_table(*head), new_table(*head, "what is assumed")
    wide.columns[-1].justify = "left"
    for name, gain, decision, about in rows:
        cells = (name, f"{gain.estimate:+.4f}", _between(gain), decision)
        add_row(narrow, *cells)
        add_row(wide, *cells, about)
    if fits(wide):
        console.print(wide)
        return
    console.print(narrow)
    for name, _, _, about in rows[1:]:
        console.print(f"  {name}: {about}", markup=False, style="dim", soft_wrap=True)


def _between(interval: Interval) -> str:
    return f"{interval.low:+.4f} … {interval.high:+.4f}"
