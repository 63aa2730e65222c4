"""Evaluations, comparisons and verdicts as documents: the same words, tables and figures wherever they are shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from cldrank.documents import (
    Axis,
    Block,
    Document,
    Facts,
    Figure,
    Heading,
    Notice,
    Paragraph,
    Point,
    Series,
    Severity,
    Table,
)
from cldrank.documents.numbers import minus, percent, span
from cldrank.evaluation.by_labels import Evaluation, RankerComparison, data_label
from cldrank.evaluation.click_results import ClickComparison, ClickEvaluation, NeverShown, PermutationCheck, WayToSettle
from cldrank.evaluation.decision_rule import decide
from cldrank.evaluation.experiment_planning import say_way
from cldrank.evaluation.intervals import ClickEstimate
from cldrank.measures import Interval
from cldrank.wording import count, listed

TONES: dict[str, Severity] = {"better": "ok", "worse": "blocking", "no difference": "note", "cannot tell": "warning"}
_SIGNS = {"better": "▲", "worse": "▼", "no difference": "=", "cannot tell": "?"}
_WIDTH = 440
_ALL = 1 - 1e-12  # a share
_FEW_QUERIES = 50  # below which intervals are rough
_MUCH_WEIGHT = 0.25  # of all, on the heaviest 1% of impressions

ByClicks = ClickComparison | ClickEvaluation
Row = tuple[str, Interval, str]  # a name, a value with its interval, what is said when it is pointed at


# -- by labels -----------------------------------------------------------------------------------------------------


def evaluation_document(result: Evaluation, ranker: str = "") -> Document:
    """The measures with their intervals."""
    known = next(iter(result.intervals.values()), None)
    head = ("measure", "mean", f"{known.confidence:.0%} interval" if known else "interval")
    rows = []
    for measure in result.per_query:
        interval = result.intervals.get(measure)
        ends = "–" if interval is None else span(interval.low, interval.high, ".4f")
        rows.append((str(measure), f"{result[measure]:.4f}", ends))
    data = f"{data_label(result.data, result.synthetic)}, {count(result.queries, 'query', 'queries')}"
    return Document(f"{ranker} on {data}" if ranker else f"Evaluation by labels: {data}", [Table(head, rows)])


def comparison_document(result: RankerComparison) -> Document:
    """Both rankers, their difference, and how many queries each wins."""
    new, old = result.evaluations
    ends = f"{next(iter(result.differences.values())).interval.confidence:.0%} interval"
    head = ("measure", result.new, result.old, "difference", ends, "p", "won/tied/lost")
    rows = [
        (
            str(measure),
            f"{new[measure]:.4f}",
            f"{old[measure]:.4f}",
            _signed(pair.difference),
            _ends(pair.interval),
            f"{pair.p_value:.2g}",
            f"{pair.wins:,}/{pair.ties:,}/{pair.losses:,}",
        )
        for measure, pair in result.differences.items()
    ]
    data = f"{data_label(result.data, result.synthetic)}, {count(new.queries, 'query', 'queries')}"
    return Document(f"{result.new} against {result.old} on {data}", [Table(head, rows)])


# -- by clicks -----------------------------------------------------------------------------------------------------


def click_evaluation_document(result: ClickEvaluation) -> Document:
    """Estimates of one ranker, what the log can see, and never-shown results."""
    head = ("measure", "estimate", f"{_confidence(result):.0%} interval", "bounds")
    rows = [
        (
            name,
            f"{estimate.interval.estimate:.4f}",
            span(estimate.interval.low, estimate.interval.high, ".4f"),
            span(estimate.lowest.low, estimate.highest.high, ".4f"),
        )
        for name, estimate in result.measures.items()
    ]
    blocks = [Table(head, rows, about=_about_measures(result)), *_seen_and_never_shown(result), *_notes(result)]
    return Document(_title(result), blocks, [_source(result)])


def verdict_document(result: ClickComparison) -> Document:
    """The page: the verdict on top, then all that it rests on."""
    seen, verdict = result.support, result.verdict
    tiles = {
        "queries": f"{seen.queries:,}",
        "pages": f"{seen.pages:,}",
        "clicks": f"{seen.clicks:,}",
        f"of the top {seen.k} of {result.new} ever shown": percent(seen.shown, 1),
        "effective impressions": f"{seen.effective:,.0f}",
        "largest weight, over the mean": f"{seen.largest_weight:.3g}",
        "never-shown results": f"{result.never_shown.results:,}",
    }
    blocks: list[Block] = [*_verdict(result), Facts(tiles, large=True)]
    if result.settling:
        head = ("experiment", "pages", "for the smallest difference that matters", "what it is")
        never = f"would not {verdict.settling} it"
        rows = [
            (way.name, _pages(way.pages) or never, _pages(way.pages_at_margin), sentence(way.about))
            for way in result.settling
        ]
        blocks.append(Heading(f"What would {verdict.settling} it, with 80% power"))
        blocks.append(Table(head, rows, text=("what it is",)))
    blocks += [*_details(result), _words(permutation_words(result.permutation_check))]
    blocks += [Heading("When this must not be trusted"), *doubts_of(result), _words(_ASSUMED)]
    footer = [f"Intervals cover {_confidence(result):.0%}; the share that lies beyond either end is half of the rest."]
    return Document("Verdict from clicks alone", blocks, [f"{_title(result)}. {_source(result)}"], footer)


def brief_document(result: ClickComparison) -> Document:
    """The verdict with the gain by each measure: what is printed, and shown in a notebook."""
    blocks: list[Block] = [*_verdict(result), *_gain_figure(result), measure_table(result)]
    ways = [_way_in_brief(way) for way in result.settling if way.pages is not None]
    if result.settling:
        text = listed(ways, "or") or "none of the experiments considered"
        blocks.append(Paragraph([f"What would {result.verdict.settling} it: {text}."], quiet=True))
    return Document(_title(result), [*blocks, *_notes(result)], [_source(result)])


def terminal_document(result: ClickComparison) -> Document:
    """What the verdict rests on, and the verdict below, where people look."""
    verdict, tone = result.verdict, TONES[result.verdict.decision]
    blocks: list[Block] = [
        *_details(result),
        _words(permutation_words(result.permutation_check)),
        Notice(tone, [f"Verdict: {verdict.words}"], large=True),
        Paragraph([sentence(verdict.reason)]),
    ]
    if result.settling:
        blocks.append(Heading(f"What would {verdict.settling} it"))
    for way in result.settling:
        blocks.append(Paragraph([f"  {say_way(way, verdict.settling)}"]))
        if way.pages is not None:
            blocks.append(Paragraph([f"    {sentence(way.about)}."], quiet=True))
    return Document(_title(result), blocks, [_source(result)])


# -- parts of these ------------------------------------------------------------------------------------------------


def _verdict(result: ClickComparison) -> Iterator[Block]:
    """The decision with its reason."""
    verdict = result.verdict
    title = f"{_SIGNS[verdict.decision]} {verdict.words}"
    yield Notice(TONES[verdict.decision], [verdict_headline(result)], title, large=True)
    yield _words(sentence(verdict.reason))


def verdict_headline(result: ClickComparison) -> str:
    """The answer in a sentence."""
    new, old, measure, verdict = result.new, result.old, result.first.measure, result.verdict
    match verdict.decision:
        case "better" | "worse" as decision:
            perhaps = "" if verdict.exceeds_margin else f", but perhaps by less than {verdict.margin:.3g}"
            return f"{new} is {decision} than {old}, by {measure}{perhaps}."
        case "no difference":
            return f"{new} and {old} do not differ by more than {verdict.margin:.3g} in {measure}."
        case _:
            return f"These clicks cannot tell whether {new} is better than {old}, by {measure}."


def _details(result: ClickComparison) -> Iterator[Block]:
    """Estimates, what the log can see, never-shown results, and other assumptions."""
    yield Heading("Estimates")
    yield from _gain_figure(result)
    yield measure_table(result)
    yield from map(_words, errors_words(result))
    yield from _seen_and_never_shown(result)
    yield from _relevance_figure(result)
    if result.checks or result.notes:
        yield Heading("Other assumptions")
    if result.checks:
        yield from _checks(result)
    yield from _notes(result)


def _seen_and_never_shown(result: ByClicks) -> Iterator[Block]:
    yield Heading("What the log can see")
    yield from map(_words, support_words(result))
    yield Heading("Never-shown results")
    yield from map(_words, never_shown_words(result))


def measure_table(result: ClickComparison) -> Table:
    """Every measure of both rankers, and their difference."""
    head = ("measure", result.new, result.old, "difference", f"{_confidence(result):.0%} interval")
    rows = []
    for name, pair in result.measures.items():
        values = (f"{each.interval.estimate:.4f}" for each in (pair.new, pair.old))
        rows.append((name, *values, _signed(pair.interval.estimate), _ends(pair.interval)))
    return Table(head, rows, about=f"{result.new} minus {result.old}. {_about_measures(result)}".strip(), wide=True)


def _checks(result: ClickComparison) -> Iterator[Block]:
    measure, usual = result.first.measure, result.first.gain
    tried = [("as above", usual, decide(usual, result.verdict.margin), "")]
    tried += [(check.name, check.gain, check.decision, sentence(check.about)) for check in result.checks]
    rows = [(name, gain, f"{name}: {_signed(gain.estimate)} ({_ends(gain)})") for name, gain, _, _ in tried]
    title, about = f"Gain in {measure} under other assumptions", f"Right of 0, {result.new} is better."
    yield _forest(title, about, rows, f"gain in {measure}", marked=0.0)
    yield Table(
        ("assumption", "gain", "interval", "decision", "what is assumed"),
        [(name, _signed(gain.estimate), _ends(gain), decision, about) for name, gain, decision, about in tried],
        about=f"What each interval alone says; the smallest difference that matters is {result.verdict.margin:.3g}.",
        text=("decision", "what is assumed"),
        wide=True,
    )


def _notes(result: ByClicks) -> list[Paragraph]:
    return [replace(_words(f"note: {note}"), quiet=True) for note in result.notes]


def _title(result: ByClicks) -> str:
    what = f"{result.new} against {result.old}" if isinstance(result, ClickComparison) else result.ranker
    return f"{what} on {data_label(result.data, result.synthetic)}, by clicks alone"


def _source(result: ByClicks) -> str:
    """The log that judges, in numbers, and where the propensities come from."""
    seen = result.support
    log = (
        f"{count(seen.queries, 'query', 'queries')}, {count(seen.pages, 'page')}, "
        f"{count(seen.impressions, 'impression')}, {count(seen.clicks, 'click')}"
    )
    known = "with" if result.curve_is_estimated else "without"
    curve = f"{result.curve} ({known} intervals)"
    if result.left_out:
        queries, them = count(result.left_out, "query", "queries"), "it" if result.left_out == 1 else "them"
        log += f"; {queries} left out, since a ranker was trained on {them}"
    return f"{log}. {sentence(result.estimator)}; propensities: {curve}."


def _about_measures(result: ByClicks) -> str:
    return "ARP is the average position of what is relevant: lower is better." if "ARP" in result.measures else ""


def _pages(pages: int | None) -> str:
    return "" if pages is None else f"{pages:,}"


def _way_in_brief(way: WayToSettle) -> str:
    margin = f", or {_pages(way.pages_at_margin)} for the smallest difference that matters"
    return f"{way.name} (about {_pages(way.pages)} pages{'' if way.pages_at_margin is None else margin})"


# -- words ---------------------------------------------------------------------------------------------------------


def errors_words(result: ClickComparison) -> Iterator[str]:
    """Where the uncertainty of the first difference comes from."""
    errors = result.first.difference.errors
    parts = {"queries and clicks": errors.queries, "the curve": errors.propensities, "the model's fit": errors.model}
    named = listed(f"{error:.4f} by {source}" for source, error in parts.items() if error)
    if named:
        beyond = f"; extrapolation may move it by {errors.extrapolation:.4f}" if errors.extrapolation else ""
        yield f"Standard errors of the difference in {result.first.measure}: {named}{beyond}."


def support_words(result: ByClicks) -> Iterator[str]:
    """How much of the orders the log can see."""
    seen, other = result.support, ""
    if isinstance(result, ClickComparison):
        other = f" (of {result.old}: {_share(seen.shown_old or 0.0)})"
    yield f"Of the top {seen.k} of {_name(result)}, {_share(seen.shown)} was shown at some time{other}."
    yield (
        f"The effective sample size is {seen.effective:,.0f} of {count(seen.impressions, 'impression')}; the largest "
        f"weight is {seen.largest_weight:.3g} times the mean, and the heaviest 1% have {seen.top_percent:.0%} of all "
        "weight."
    )


def never_shown_words(result: ByClicks) -> Iterator[str]:
    """What is known about results that were never shown."""
    measure, estimate = next(iter(result.measures)), _first(result)
    verb, form = ("differs by", "+.4f") if isinstance(result, ClickComparison) else ("is", ".4f")
    yield _who_shows_them(result)
    if not estimate.rests_on_never_shown:
        if result.never_shown.results:
            yield f"{measure} leaves them out: it ranks the results that were shown among themselves."
        return
    low, high = estimate.lowest, estimate.highest
    yield (
        f"Whatever they are worth, {measure} {verb} {span(low.estimate, high.estimate, form)} "
        f"({span(low.low, high.high, form)} with sampling error)."
    )
    yield from _break_even_words(result.never_shown, _name(result))
    yield model_words(result.never_shown)


def _who_shows_them(result: ByClicks) -> str:
    lifted, seen, new = result.never_shown, result.support, _name(result)
    if lifted.results:
        return (
            f"{new} puts {count(lifted.results, 'result')} into its top {seen.k} that nobody ever saw, "
            f"{lifted.per_page:.2g} per page."
        )
    all_shown = f"All results in the top {seen.k} of {new} were shown at some time"
    nothing = "so nothing rests on a model."
    if not isinstance(result, ClickComparison):
        return f"{all_shown}, {nothing}"
    if not _first(result).rests_on_never_shown:
        if seen.shown >= _ALL:
            return f"{all_shown}, {nothing}"
        return f"{new} and {result.old} show the same never-shown results in the same places, {nothing}"
    never = f"of the top {seen.k} of {result.old}, {_share(1 - (seen.shown_old or 0.0))} never was"
    if seen.shown >= _ALL:
        return f"{all_shown}; {never}, and what that part is worth rests on a model."
    return f"{new} lifts no never-shown result above its place in {result.old}; {never}."


def _break_even_words(never_shown: NeverShown, new: str) -> Iterator[str]:
    even = never_shown.break_even
    says = "" if never_shown.model is None else f"the model says {percent_range(never_shown.model)}"
    also = f"; {says}." if says else "."
    if even is None:
        if says:
            yield f"How relevant they are: {says}."
    elif even.high < 0:
        yield f"{new} would be better even if none of them were relevant{also}"
    elif even.low > 1:
        yield f"{new} would not be better even if all of them were relevant{also}"
    elif not 0 < even.estimate < 1:
        yield f"The never-shown results do not decide it{also}"
    else:
        yield f"Break-even: {new} is better if at least {percent_range(even)} of them are relevant{also}"


def model_words(never_shown: NeverShown) -> str:
    """How well the model of never-shown results did where it could be checked."""
    if never_shown.without_model:
        return f"There is no model of them: {never_shown.without_model}"
    if never_shown.hidden_predicted is None or never_shown.hidden_observed is None:
        return "The model could not be checked on results that were hidden from it."
    lowest = "position" if never_shown.hidden_positions == 1 else f"{never_shown.hidden_positions} positions"
    return (
        f"Check of the model: results of the lowest {lowest} were hidden from it; it predicts a relevance of "
        f"{never_shown.hidden_predicted:.0%} for them, and clicks say {percent_range(never_shown.hidden_observed)}."
    )


def permutation_words(check: PermutationCheck | None) -> str:
    """What the permutation check showed."""
    if check is None:
        return "Permutation check: what was shown is ordered as the log has it, so there is nothing to try."
    gain = check.gain
    outcome = (
        "passed: it must not gain anything there, and a loss is harmless"
        if check.passed
        else "failed: something seems to be gained where nothing can be"
    )
    return (
        f"Permutation check, clicks permuted within positions {check.permutations} times: {check.order} gains "
        f"{_signed(gain.estimate)} ({_ends(gain)}) in DCG on the order of the log, {outcome}."
    )


def sentence(text: str) -> str:
    """A text that begins with a capital letter, unless it begins with a name such as nDCG.

    >>> sentence("it is DCG"), sentence("nDCG it is")
    ('It is DCG', 'nDCG it is')
    """
    return text if text[1:2].isupper() else text[:1].upper() + text[1:]


def percent_range(interval: Interval) -> str:
    """An interval in percent.

    >>> percent_range(Interval(0.41, 0.33, 0.49, 0.9, 100))
    '41% (33% to 49%)'
    """
    return f"{percent(interval.estimate)} ({span(interval.low, interval.high, '.0%')})"


def _words(text: str) -> Paragraph:
    """A paragraph whose negative numbers have a true minus."""
    return Paragraph([minus(text)])


def _signed(value: float) -> str:
    return minus(f"{value:+.4f}")


def _ends(interval: Interval) -> str:
    return span(interval.low, interval.high)


def _share(share: float) -> str:
    """A share in percent that is 100% only if it is all.

    >>> _share(0.99996), _share(1.0)
    ('99.9%', '100%')
    """
    return "100%" if share >= _ALL else f"{min(share, 0.999):.1%}"


def _name(result: ByClicks) -> str:
    return result.new if isinstance(result, ClickComparison) else result.ranker


def _first(result: ByClicks) -> ClickEstimate:
    return result.first.difference if isinstance(result, ClickComparison) else next(iter(result.measures.values()))


def _confidence(result: ByClicks) -> float:
    return _first(result).interval.confidence


# -- when a verdict must not be trusted ----------------------------------------------------------------------------

_ASSUMED = (
    "No log can check that people examine a position with the same probability whatever is there and above it, that "
    "they click what they examine if it is relevant and nothing else, and that tomorrow's users search and click as "
    "those of the log did. Rankers that were tuned on these clicks look better than they are."
)


def doubts_of(result: ClickComparison) -> Iterator[Notice]:
    """What this comparison found that speaks against trusting it."""
    seen, check = result.support, result.permutation_check
    if not result.curve_is_estimated:
        text = f"{sentence(result.curve)}: assumed, so no interval says how wrong the curve may be"
        yield _doubt("Propensities", f"{text}{_under_other_curves(result)}.")
    if check is not None and not check.passed:
        text = "With clicks permuted within positions no order can gain, unless the curve is too steep, or positions "
        yield _doubt("Permutation check", f"{text}differ in more than examination; here {check.order} does.")
    if result.verdict.depends_on_never_shown:
        old = "" if seen.shown_old is None else f", and {1 - seen.shown_old:.1%} of that of {result.old}"
        text = f"{1 - seen.shown:.1%} of the top {seen.k} of {result.new} was never shown{old}"
        yield _doubt("Never-shown results", f"{text}; the decision rests on a model of what these are worth.")
    if result.first.difference.rests_on_never_shown:
        yield from _doubts_of_model(result)
    if seen.top_percent > _MUCH_WEIGHT or seen.queries < _FEW_QUERIES:
        text = f"{count(seen.queries, 'query', 'queries')}; the heaviest 1% of impressions have {seen.top_percent:.0%}"
        yield _doubt("Enough to go by", f"{text} of all weight. With few, or where few decide, intervals are rough.")
    if result.synthetic:
        yield _doubt("Synthetic data", "It shows that a method works, not that a ranker is good.")


def _doubts_of_model(result: ClickComparison) -> Iterator[Notice]:
    topic, never_shown = "The model of never-shown results", result.never_shown
    predicted, observed = never_shown.hidden_predicted, never_shown.hidden_observed
    if predicted is None or observed is None:
        yield _doubt(topic, model_words(never_shown))
        return
    off = result.first.difference.errors.extrapolation
    if not observed.low <= predicted <= observed.high and off > result.verdict.margin:
        measure = result.first.measure
        text = f" That error may move the difference in {measure} by {off:.4f}, which its interval includes."
        yield _doubt(topic, model_words(never_shown) + text)


def _under_other_curves(result: ClickComparison) -> str:
    tried = [check for check in result.checks if check.kind == "curve"]
    usual = decide(result.first.gain, result.verdict.margin)
    other = [check.name for check in tried if check.decision != usual]
    if other:
        return f"; with {listed(other)}, the decision is another one"
    return "; other curves decide alike" if tried else ""


def _doubt(topic: str, text: str) -> Notice:
    return Notice("warning", [minus(text)], topic)


# -- figures -------------------------------------------------------------------------------------------------------


def _gain_figure(result: ClickComparison) -> Iterator[Figure]:
    """The gain by each measure, on one scale: in percent of what the old ranker has, where that is not 0."""
    rows = [
        (
            name,
            _scaled(pair.gain, 100 / abs(pair.old.interval.estimate)),
            f"{name}: {_signed(pair.interval.estimate)} ({_ends(pair.interval)})",
        )
        for name, pair in result.measures.items()
        if pair.old.interval.estimate
    ]
    about = (
        f"In percent of the value of {result.old}, with {_confidence(result):.0%} intervals. Right of 0, {result.new} "
        "is better; for ARP that is a lower value."
    )
    if rows:
        yield _forest("Gain by measure", about, rows, "gain, in percent", marked=0.0, unit="%")


def _relevance_figure(result: ClickComparison) -> Iterator[Figure]:
    """The relevance that never-shown results need, and what is known about it."""
    never_shown = result.never_shown
    even, observed, predicted = never_shown.break_even, never_shown.hidden_observed, never_shown.hidden_predicted
    rows: list[Row] = []
    if even is not None:
        drawn = replace(even, **{end: min(max(getattr(even, end), 0.0), 1.0) for end in ("estimate", "low", "high")})
        needed = "none needed (break-even)" if even.estimate <= 0 else "needed (break-even)"
        rows.append((needed, drawn, f"break-even: {percent_range(even)}"))
    if never_shown.model is not None:
        rows.append(("predicted by the model", never_shown.model, f"model: {percent_range(never_shown.model)}"))
    if not rows:
        return
    if predicted is not None and observed is not None:
        rows.append(("check: predicted", replace(observed, estimate=predicted, low=predicted, high=predicted), ""))
        rows.append(("check: clicked", observed, f"clicks: {percent_range(observed)}"))
    yield _forest(
        "How relevant never-shown results are",
        f"From 0% (none of them is relevant) to 100% (all are). {result.new} is better where they are more relevant "
        "than the break-even, the line. The check is of results that were hidden from the model.",
        [(name, _scaled(interval, 100), note) for name, interval, note in rows],
        "relevance, in percent",
        marked=None if even is None or not 0 < even.estimate < 1 else 100 * even.estimate,
        scale=Axis(-2, 104, tuple(range(0, 101, 20)), tuple(f"{at}%" for at in range(0, 101, 20))),
    )


def _forest(
    title: str,
    about: str,
    rows: Sequence[Row],
    across: str,
    *,
    marked: float | None,
    scale: Axis | None = None,
    unit: str = "",
) -> Figure:
    """Values with intervals, one per row."""
    if scale is None:
        ends = [end for _, interval, _ in rows for end in (interval.low, interval.estimate, interval.high)]
        scale = Axis.around([0.0, *ends], most=6)
        scale = replace(scale, labels=tuple(f"{label}{unit}" for label in scale.labels))
    scale = replace(scale, name=across)
    series = tuple(
        Series(name, (Point(at, scale.within(interval.estimate), interval.low, interval.high, note or name),))
        for at, (name, interval, note) in enumerate(rows)
    )
    names = Axis.of_rows([name for name, _, _ in rows])
    return Figure(title, series, names, scale, "rows", _WIDTH, marked=marked, about=about)


def _scaled(interval: Interval, factor: float) -> Interval:
    ends = interval.estimate * factor, interval.low * factor, interval.high * factor
    return replace(interval, estimate=ends[0], low=ends[1], high=ends[2])
