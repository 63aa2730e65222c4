"""Evaluations, comparisons and verdicts as documents: the same words and tables wherever they are shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cldrank import documents as doc
from cldrank.documents.numbers import minus, percent, span
from cldrank.evaluation.by_labels import Evaluation, RankerComparison, data_label
from cldrank.evaluation.click_results import ClickComparison, ClickEvaluation, NeverShown
from cldrank.evaluation.experiment_planning import INTERLEAVING, say_way
from cldrank.evaluation.intervals import ClickEstimate
from cldrank.evaluation.several import SeveralComparisons
from cldrank.measures import Interval
from cldrank.propensity.behaviour import Behaviour
from cldrank.wording import count, listed

TONES: dict[str, doc.Severity] = {
    "better": "ok",
    "worse": "blocking",
    "no difference": "note",
    "cannot tell": "warning",
}
SIGNS = {"better": "▲", "worse": "▼", "no difference": "=", "cannot tell": "?"}
_ALL = 1 - 1e-12  # a share
_WIDTH = 440  # of the figure
_MADE_OF_IT = {  # what a verdict makes of how people behave after a click
    "position-based": ".",
    "stop": ". So only impressions without a click above say how relevant results are.",
    "examine less": ". So impressions below a click count by how much of them is still examined.",
    "click more": ". Sizes are those of an average person; those who click more may differ.",
    "unknown": ": sizes assume that it does not.",
}
_RATE = (
    "Ratings of these results, by people or a language model, would say more about what was never shown: give them "
    "beside the clicks, with `--ratings FILE` or, in Python, `clicks.rated(FILE)`."
)
_INTERLEAVE = (
    "Pages for an interleaving test come from `cldrank serve NEW --against OLD` or `cldrank online interleave`."
)
JudgedByClicks = ClickComparison | ClickEvaluation
ASSUMED = (
    "No log can check that people examine a position with the same probability whatever is there, that they click what "
    "they examine if it is relevant and nothing else, and that tomorrow's users search and click as those of the log "
    "did. Rankers that were tuned on these clicks look better than they are. Of fewer than some fifty "
    "queries, intervals are rough."
)


# -- by labels -----------------------------------------------------------------------------------------------------


def evaluation_document(result: Evaluation) -> doc.Document:
    """The measures with their intervals."""
    known = next(iter(result.intervals.values()), None)
    head = ("measure", "mean", f"{known.confidence:.0%} interval" if known else "interval")
    rows = []
    for measure in result.per_query:
        interval = result.intervals.get(measure)
        ends = "–" if interval is None else span(interval.low, interval.high, ".4f")
        rows.append((str(measure), f"{result[measure]:.4f}", ends))
    data = f"{data_label(result.data, result.synthetic)}, {count(result.queries, 'query', 'queries')}"
    return doc.Document(f"{result.ranker} on {data}", [doc.Table(head, rows)])


def comparison_document(result: RankerComparison) -> doc.Document:
    """Both rankers, their difference, and how many queries each wins."""
    new, old = result.evaluations
    ends = f"{next(iter(result.differences.values())).interval.confidence:.0%} interval"
    head = ("measure", result.new, result.old, "difference", ends, "p", "won/tied/lost")
    rows = [
        (
            str(measure),
            f"{new[measure]:.4f}",
            f"{old[measure]:.4f}",
            signed(pair.difference),
            worded_ends(pair.interval),
            f"{pair.p_value:.2g}",
            f"{pair.wins:,}/{pair.ties:,}/{pair.losses:,}",
        )
        for measure, pair in result.differences.items()
    ]
    data = f"{data_label(result.data, result.synthetic)}, {count(new.queries, 'query', 'queries')}"
    return doc.Document(f"{result.new} against {result.old} on {data}", [doc.Table(head, rows)])


# -- by clicks -----------------------------------------------------------------------------------------------------


def click_evaluation_document(result: ClickEvaluation) -> doc.Document:
    """Estimates of a ranker, what the log can see, and never-shown results."""
    rows, confidence = [], _first(result).interval.confidence
    for name, estimate in result.measures.items():
        interval, ends = estimate.interval, (estimate.lowest.low, estimate.highest.high)
        rows.append((name, f"{interval.estimate:.4f}", span(interval.low, interval.high, ".4f"), span(*ends, ".4f")))
    table = doc.Table(("measure", "estimate", f"{confidence:.0%} interval", "bounds"), rows)
    return doc.Document(
        _title(result), [*ratings_blocks(result), table, *_seen_and_never_shown(result)], [source(result)]
    )


def verdict_document(result: ClickComparison) -> doc.Document:
    """The verdict on top, then all that it rests on, what would settle it, and when not to trust it."""
    verdict, confidence = result.verdict, _first(result).interval.confidence
    title = f"{SIGNS[verdict.decision]} {verdict.words}"
    answer = verdict.headline(result.new, result.old, result.first.measure)
    blocks: list[doc.Block] = [
        doc.Notice(TONES[verdict.decision], [answer], title, large=True),
        prose(_sentence(verdict.reason)),
        *ratings_blocks(result),
        doc.Heading("Estimates"),
        _measure_table(result),
        *_gain_figure(result),
        prose(_errors_words(result)),
        *_seen_and_never_shown(result),
        doc.Heading("Other assumptions"),
    ]
    if result.checks:
        blocks.append(_check_table(result))
    blocks += [prose(_permutation_words(result))]
    if result.settling:
        blocks.append(doc.Heading(f"What would {verdict.settling} it, with 80% power"))
    for way in result.settling:
        about = "" if way.pages is None else f" {_sentence(way.about)}."
        blocks.append(prose(f"{say_way(way, verdict.settling)}{about}"))
    blocks += how_to_interleave(result)
    if verdict.is_open and result.ratings is None and result.never_shown.results:
        blocks.append(prose(_RATE))
    blocks += [doc.Heading("When this must not be trusted"), prose(ASSUMED)]
    footer = [f"Intervals cover {confidence:.0%}; the share that lies beyond either end is half of the rest."]
    return doc.Document(_title(result), blocks, [source(result)], footer)


def how_to_interleave(result: ClickComparison) -> Iterator[doc.Block]:
    """The commands that make interleaved pages, where these would settle an open verdict."""
    if result.verdict.is_open and any(way.name == INTERLEAVING and way.pages is not None for way in result.settling):
        yield prose(_INTERLEAVE)


def ratings_blocks(result: JudgedByClicks) -> Iterator[doc.Block]:
    """How well ratings agree with clicks, before anything that uses them."""
    use = result.ratings
    if use is None:
        return
    yield doc.Heading("Ratings beside clicks")
    yield from (prose(f"{_sentence(str(agreement))}.") for agreement in use.agreements)
    if use.unused:
        yield prose(f"They are not used: {use.unused}.")
    elif use.by_people:
        yield prose(f"What people rated informs {count(use.by_people, 'never-shown result')}.")
    yield prose(f"{_sentence(use.account)}.")


def _seen_and_never_shown(result: JudgedByClicks) -> Iterator[doc.Block]:
    yield doc.Heading("What the log can see")
    yield from map(prose, _support_words(result))
    yield doc.Heading("Never-shown results")
    yield from map(prose, _never_shown_words(result))


def _measure_table(result: ClickComparison) -> doc.Table:
    """Every measure of both rankers, and their difference."""
    confidence = _first(result).interval.confidence
    head = ("measure", result.new, result.old, "difference", f"{confidence:.0%} interval")
    rows = []
    for name, pair in result.measures.items():
        values = (f"{each.interval.estimate:.4f}" for each in (pair.new, pair.old))
        rows.append((name, *values, signed(pair.interval.estimate), worded_ends(pair.interval)))
    return doc.Table(head, rows, about=f"{result.new} minus {result.old}.", wide=True)


def _gain_figure(result: ClickComparison) -> Iterator[doc.Figure]:
    """The gain by each measure with its interval, in percent of what the old ranker has, where that is not 0."""
    wholes = {name: abs(pair.old.interval.estimate) / 100 for name, pair in result.measures.items()}
    pairs = {name: pair for name, pair in result.measures.items() if wholes[name]}
    if not wholes[result.first.measure]:
        return
    margin = result.verdict.margin / wholes[result.first.measure]
    about = f"Right of 0, {result.new} is better. Lines beside 0: the margin, {margin:.3g}% of what {result.old} has."
    intervals = {name: pair.interval for name, pair in pairs.items()}
    yield _interval_figure("Gain by measure", intervals, wholes, "gain, in percent", (0.0, -margin, margin), about)


def _interval_figure(
    title: str,
    intervals: Mapping[str, Interval],
    wholes: Mapping[str, float],
    what: str,
    marked: tuple[float, ...],
    about: str,
) -> doc.Figure:
    """Intervals by name, a row each, divided by what they are a share of, if anything."""
    series, reach = [], [*marked]
    for at, (name, interval) in enumerate(intervals.items()):
        ends = (interval.estimate, interval.low, interval.high)
        estimate, low, high = (end / wholes.get(name, 1.0) for end in ends)
        note = f"{name}: {signed(interval.estimate)} ({worded_ends(interval)})"
        series.append(doc.Series(name, (doc.Point(at, estimate, low, high, note),)))
        reach += [low, estimate, high]
    rows, values = doc.Axis.of_rows(list(intervals)), doc.Axis.around(reach, most=6, name=what)
    return doc.Figure(title, tuple(series), rows, values, "rows", _WIDTH, marked=marked, about=about)


def _check_table(result: ClickComparison) -> doc.Table:
    rows = [
        (check.name, signed(check.gain.estimate), worded_ends(check.gain), check.decision) for check in result.checks
    ]
    about = f"{result.first.measure} with a steeper and a flatter curve: what each interval alone says."
    return doc.Table(("curve", "difference", "interval", "decision"), rows, about=about, text=("decision",), wide=True)


def _title(result: JudgedByClicks) -> str:
    what = f"{result.new} against {result.old}" if isinstance(result, ClickComparison) else result.ranker
    return f"{what} on {data_label(result.data, result.synthetic)}, by clicks alone"


def source(result: JudgedByClicks) -> str:
    """The log that judges, in numbers, and where the propensities come from."""
    seen = result.support
    log = (
        f"{count(seen.queries, 'query', 'queries')}, {count(seen.pages, 'page')}, "
        f"{count(seen.impressions, 'impression')}, {count(seen.clicks, 'click')}"
    )
    if seen.events:
        log += f"; relevance counts what events are worth: {seen.events}"
    known = "with intervals" if result.curve_is_estimated else "without intervals, so nothing says how wrong it may be"
    curve = f"{result.curve} ({known})"
    if result.left_out:
        queries, them = count(result.left_out, "query", "queries"), "it" if result.left_out == 1 else "them"
        log += f"; {queries} left out, since a ranker was trained on {them}"
    return f"{log}. {_sentence(result.estimator)}; propensities: {curve}."


# -- several rankers -----------------------------------------------------------------------------------------------


def several_document(result: SeveralComparisons) -> doc.Document:
    """Which to try first, all differences with their intervals, and what they rest on."""
    by_clicks = {name: pair for name, pair in result.comparisons.items() if isinstance(pair, ClickComparison)}
    title = f"Try {result.try_first} first" if result.try_first else f"Keep {result.old}"
    intervals = {name: result.interval(name) for name in _by_estimate(result)}
    about = f"Right of 0, a ranker is better than {result.old}."
    blocks: list[doc.Block] = [
        doc.Notice(TONES[result.decision], [_choice_words(result)], title, large=True),
        *(block for pair in list(by_clicks.values())[:1] for block in ratings_blocks(pair)),
        _ranker_table(result),
        _interval_figure("Differences", intervals, {}, f"difference in {result.measure}", (0.0,), about),
        doc.Paragraph(
            f"All of these intervals hold the truth at once with {result.confidence:.0%} confidence, each by itself "
            f"with {result.confidence_each:.1%}."
        ),
    ]
    if by_clicks:
        blocks += [*_grounds(by_clicks), *_what_next(result, by_clicks)]
    names = listed(result.comparisons, "and")
    data = data_label(result.data, result.synthetic)
    grounds = [source(pair) for pair in by_clicks.values()][:1]
    return doc.Document(
        f"{names} against {result.old} on {data}{', by clicks alone' * bool(by_clicks)}", blocks, grounds
    )


def _choice_words(result: SeveralComparisons) -> str:
    """Which ranker to try first, how it compares, and which others may be better."""
    first, old, level = result.try_first, result.old, result.not_told_apart
    if first is None:
        return f"All are worse than {old}, by {result.measure}: there is none to try."
    how = {
        "better": f"{first} is better than {old}",
        "no difference": f"{first} and {old} do not differ by more than matters",
    }.get(result.decision, f"It is open whether {first} is better than {old}")
    others = [name for name in result.comparisons if name != first and result.decisions[name] != "worse"]
    text = f"{how}, by {result.measure}"
    if level:
        return f"{text}. It has the highest estimate, but {listed(level, 'and')} cannot be told from it."
    return f"{text}, and {first} is ahead of {listed(others, 'and')}." if others else f"{text}."


def _ranker_table(result: SeveralComparisons) -> doc.Table:
    """Each ranker with its value and difference."""
    head = ("ranker", result.measure, "difference", "interval", "verdict")
    rows, values = [], {name: pair.as_dict()["measures"][result.measure] for name, pair in result.comparisons.items()}
    for name in _by_estimate(result):
        interval, pair = result.interval(name), result.comparisons[name]
        words = pair.verdict.words if isinstance(pair, ClickComparison) else result.decisions[name]
        value = f"{values[name]['new']:.4f}"
        rows.append((name, value, signed(interval.estimate), worded_ends(interval), words))
    rows.append((result.old, f"{next(iter(values.values()))['old']:.4f}", "", "", ""))
    return doc.Table(head, rows, about=f"Each minus {result.old}.", text=("verdict",), wide=True)


def _by_estimate(result: SeveralComparisons) -> list[str]:
    """The names, the highest estimate first."""
    return sorted(result.comparisons, key=lambda name: -result.interval(name).estimate)


def _grounds(by_clicks: dict[str, ClickComparison]) -> Iterator[doc.Block]:
    """What the log can see of each ranker, and why each verdict is as it is."""
    yield doc.Heading("What the log can see")
    head = ("ranker", "top shown", "never shown", "by queries", "curve", "model", "extrapolation")
    rows = []
    for name, pair in by_clicks.items():
        errors = pair.first.difference.errors
        parts = (errors.queries, errors.propensities, errors.model, errors.extrapolation)
        seen = (percent(pair.support.shown), f"{pair.never_shown.results:,}")
        rows.append((name, *seen, *(f"{part:.4f}" for part in parts)))
    about = "The share of the top that was ever shown, results that never were, and the parts of the error."
    yield doc.Table(head, rows, about=about, wide=True)
    yield doc.Paragraph(behaviour_words(next(iter(by_clicks.values())).behaviour))
    yield doc.Heading("Why")
    for name, pair in by_clicks.items():
        yield prose(f"{name}: {pair.verdict.reason}")


def _what_next(result: SeveralComparisons, by_clicks: dict[str, ClickComparison]) -> Iterator[doc.Block]:
    """What would settle whether the ranker to try first is better, and when not to trust it."""
    if result.try_first is not None and by_clicks[result.try_first].settling:
        pair = by_clicks[result.try_first]
        verb = pair.verdict.settling
        yield doc.Heading(f"What would {verb} it for {result.try_first}, with 80% power")
        for way in pair.settling:
            yield prose(say_way(way, verb))
        yield from how_to_interleave(pair)
    yield doc.Heading("When this must not be trusted")
    yield doc.Paragraph(ASSUMED)


# -- words ---------------------------------------------------------------------------------------------------------


def _errors_words(result: ClickComparison) -> str:
    """Where the uncertainty of the first difference comes from."""
    errors = result.first.difference.errors
    return (
        f"Standard errors of the difference in {result.first.measure}: {errors.queries:.4f} by queries and clicks, "
        f"{errors.propensities:.4f} by what people examine, {errors.model:.4f} by the model's fit, "
        f"{errors.extrapolation:.4f} since never-shown results may be unlike shown ones with the same features."
    )


def _support_words(result: JudgedByClicks) -> Iterator[str]:
    """How much of the orders the log can see."""
    seen, other = result.support, ""
    if isinstance(result, ClickComparison):
        other = f" (of {result.old}: {_share(seen.shown_old or 0.0)})"
    yield f"Of the top {seen.k} of {_name(result)}, {_share(seen.shown)} was shown at some time{other}."
    impressions = count(seen.impressions, "impression")
    yield f"With their weights, {impressions} are as precise as {seen.effective:,.0f} of equal weight would be."
    yield behaviour_words(result.behaviour)


def behaviour_words(people: Behaviour) -> str:
    """How people behave after a click, and what the verdict makes of it.

    >>> behaviour_words(Behaviour("unknown"))
    'Whether a click changes what people examine below it is unknown: sizes assume that it does not.'
    """
    return f"{_sentence(str(people))}{_MADE_OF_IT[people.looks]}"


def _never_shown_words(result: JudgedByClicks) -> Iterator[str]:
    """What is known about results that were never shown."""
    never_shown, new, estimate = result.never_shown, _name(result), _first(result)
    if never_shown.results:
        results, k = count(never_shown.results, "result"), result.support.k
        yield f"{new} puts {results} into its top {k} that nobody ever saw, {never_shown.per_page:.2g} per page."
    if not estimate.rests_on_never_shown:
        yield "Nothing rests on what never-shown results are worth."
        return
    low, high, measure = estimate.lowest, estimate.highest, next(iter(result.measures))
    verb, form = ("differs by", "+.4f") if isinstance(result, ClickComparison) else ("is", ".4f")
    yield (
        f"Whatever they are worth, {measure} {verb} {span(low.estimate, high.estimate, form)} "
        f"({span(low.low, high.high, form)} with sampling error)."
    )
    yield _break_even_words(never_shown, new)
    yield _model_words(never_shown)


def _break_even_words(never_shown: NeverShown, new: str) -> str:
    even, model = never_shown.break_even, never_shown.model
    if even is not None and even.high < 0:
        text = f"{new} would be better even if none of them were relevant"
    elif even is not None and even.low > never_shown.most:
        text = f"{new} would not be better even if all of them were relevant"
    elif even is not None and 0 < even.estimate < never_shown.most:
        level = f"at least {_level_range(even, never_shown)} of them are relevant"
        if never_shown.most != 1:
            level = f"they are worth at least {_level_range(even, never_shown)} when examined"
        text = f"Break-even: {new} is better if {level}"
    else:
        text = "Clicks do not tell how relevant they are"
    return f"{text}." if model is None else f"{text}; the model says {_level_range(model, never_shown)}."


def _model_words(never_shown: NeverShown) -> str:
    """How well the model of never-shown results did where it could be checked."""
    if never_shown.without_model:
        return f"There is no model of them: {never_shown.without_model}"
    if never_shown.hidden_predicted is None or never_shown.hidden_observed is None:
        return "The model could not be checked on results that were hidden from it."
    predicted, observed = never_shown.hidden_predicted, never_shown.hidden_observed
    return (
        f"Check of the model: results of the lowest positions were hidden from it; it predicts a relevance of "
        f"{_level(predicted, never_shown)} for them, and clicks say {_level_range(observed, never_shown)}; the "
        f"prediction is {_missed_words(predicted, observed, never_shown)}."
    )


def _missed_words(predicted: float, observed: Interval, never_shown: NeverShown) -> str:
    """By how much a prediction misses an interval, in points of what is shown of both; value is no share."""
    if observed.low <= predicted <= observed.high:
        return "within its error"
    points = abs(round(100 * predicted) - round(100 * observed.estimate))
    by = count(points, "point") if points else "less than a point"
    if never_shown.most != 1:
        by = f"{abs(predicted - observed.estimate):.3f}"
    return f"too {'high' if predicted > observed.high else 'low'} by {by}"


def _permutation_words(result: ClickComparison) -> str:
    """What the permutation check showed."""
    check = result.permutation_check
    if check is None:
        return "Permutation check: what was shown is ordered as the log has it, so there is nothing to try."
    outcome = (
        "passed: it must not gain anything there, and a loss is harmless"
        if check.passed
        else "failed: something seems to be gained where nothing can be"
    )
    return (
        f"Permutation check, clicks permuted within positions at random: {check.order} gains "
        f"{signed(check.gain.estimate)} ({worded_ends(check.gain)}) in DCG on the order of the log, {outcome}."
    )


def _sentence(text: str) -> str:
    """A text that begins with a capital letter, unless it begins with a name such as nDCG."""
    return text if text[1:2].isupper() else text[:1].upper() + text[1:]


def _level(value: float, never_shown: NeverShown) -> str:
    """A relevance: a share or, where events have weights, a value."""
    return percent(value) if never_shown.most == 1 else f"{value:.3f}"


def _level_range(interval: Interval, never_shown: NeverShown) -> str:
    form = ".0%" if never_shown.most == 1 else ".3f"
    return f"{_level(interval.estimate, never_shown)} ({span(interval.low, interval.high, form)})"


def prose(text: str) -> doc.Paragraph:
    """A paragraph whose negative numbers have a true minus."""
    return doc.Paragraph([minus(text)])


def signed(value: float) -> str:
    """A difference with its sign and four digits."""
    return minus(f"{value:+.4f}")


def worded_ends(interval: Interval) -> str:
    """Where an interval ends, in words."""
    return span(interval.low, interval.high)


def _share(share: float) -> str:
    """A share in percent that is 100% only if it is all."""
    return "100%" if share >= _ALL else f"{min(share, 0.999):.1%}"


def _name(result: JudgedByClicks) -> str:
    return result.new if isinstance(result, ClickComparison) else result.ranker


def _first(result: JudgedByClicks) -> ClickEstimate:
    return result.first.difference if isinstance(result, ClickComparison) else next(iter(result.measures.values()))
