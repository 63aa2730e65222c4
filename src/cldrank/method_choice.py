"""The method and the model that suit a log, by its facts: `auto`, and the rules that it goes by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from cldrank.auditing import AuditFacts, audit_table
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import UnidentifiableError
from cldrank.export.format import format_named
from cldrank.methods import Method, method_named
from cldrank.methods.evidence import check_clicks, check_dataset
from cldrank.models import Run, models
from cldrank.propensity import AffineClicks, BySegment, estimators
from cldrank.propensity.choosing import fitted_curve
from cldrank.propensity.curve_files import parse_curve
from cldrank.propensity.segment_propensities import Curve, slopes_and_bases
from cldrank.rankers import LinearRanker, NetworkRanker, TreeRanker
from cldrank.wording import count, listed

_ASSUMED = "power:1.0"  # where the log does not say how likely positions are examined
_RANKERS = {"linear": LinearRanker, "mlp": NetworkRanker, "trees": TreeRanker}
_SHOWN = 0.95  # of the candidates: hardly any selection
_EXAMINED = 0.8  # of the impressions: hardly any position bias
_QUERIES = 400  # with clicks, from which a network is ahead of a linear model


class ChoiceFacts(NamedTuple):
    """What the rules look at.

    shown       of the candidates of queries that were searched, the share that was shown
    examined    of the impressions, the share that is examined, by the curve
    has_bases   whether the curve has slopes and bases
    queries     with clicks
    usable      the models that are installed, take the features, and are taken by every engine to export to
    """

    shown: float
    examined: float
    has_bases: bool
    queries: int
    usable: tuple[str, ...]


class Rule(NamedTuple):
    """Of several rules, the first that applies decides. Page and reason say when that is, and what else there is."""

    choice: str
    applies: Callable[[ChoiceFacts], bool]
    when: str
    beside: str


METHOD_RULES = (
    Rule(
        "affine-ips",
        lambda facts: facts.has_bases,
        "slopes and bases are given",
        "CLD-pair and IPS leave trust uncorrected",
    ),
    Rule(
        "naive",
        lambda facts: facts.shown >= _SHOWN and facts.examined >= _EXAMINED,
        f"at least {_SHOWN:.0%} of the candidates were shown, and {_EXAMINED:.0%} of the impressions examined",
        "IPS and CLD-pair would add variance",
    ),
    Rule(
        "ips",
        lambda facts: facts.shown >= _SHOWN,
        f"at least {_SHOWN:.0%} of the candidates were shown",
        "CLD-pair comes to the same, and Naive leaves position bias in",
    ),
    Rule(
        "cld-pair",
        lambda _: True,
        f"less than {_SHOWN:.0%} of the candidates were shown",
        "IPS and Naive pass over the rest, and lost more where we measured",
    ),
)
MODEL_RULES = (
    Rule(
        "trees",
        lambda facts: "trees" in facts.usable,
        "XGBoost is installed",
        "linear models lost more where we measured, and networks with few queries",
    ),
    Rule(
        "mlp",
        lambda facts: "mlp" in facts.usable and facts.queries >= _QUERIES,
        f"PyTorch is installed, and {_QUERIES} queries have clicks",
        "trees need XGBoost, and linear models gain less from many queries",
    ),
    Rule(
        "linear",
        lambda facts: "linear" in facts.usable,
        "XGBoost is not installed",
        "networks need PyTorch, many queries, and an engine that takes them",
    ),
)


@dataclass(frozen=True)
class Choice:
    """A method that has not been fitted, the propensities to fit it with, and why, in two sentences.

    The reason is empty where a user has chosen.
    """

    method: Method
    propensities: Curve | None
    reason: str = ""


def auto(
    data: RankingDataset,
    clicks: ClickTable,
    propensities: Curve | None = None,
    *,
    export_to: str | Sequence[str] = (),
    run: Run | None = None,
) -> Choice:
    """Choose method and model by the facts of a log, never by labels; see `METHOD_RULES` and `MODEL_RULES`.

    propensities   without them, the best founded estimate that the log supports or, where it supports none, 1/position
    export_to      engines that are to serve the ranker, such as "solr"

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[0.9], [0.4], [0.1]] * 9, np.repeat(range(9), 3))
    >>> clicks = cr.ClickTable.from_arrays(
    ...     data, position=[1, 2, 0] * 9, impressions=[9, 9, 0] * 9, clicks=[4, 1, 0] * 9
    ... )
    >>> choice = cr.auto(data, clicks, cr.Propensities.power(1, 2), export_to="elasticsearch")
    >>> choice.method
    CLDPair(model=Trees())
    >>> print(choice.reason)
    CLD-pair, since less than 95% of the candidates were shown (67%; by the propensities given, 75% of ...
    """
    check_clicks(clicks, check_dataset(data, "auto"), "auto")
    audited = audit_table(clicks, data).facts
    curve, words = (propensities, "the propensities given") if propensities is not None else _curve(audited, clicks)
    engines = [format_named(name, "export_to") for name in ([export_to] if isinstance(export_to, str) else export_to)]
    facts = _facts(audited, clicks, curve, engines)
    for_method = next(rule for rule in METHOD_RULES if rule.applies(facts))
    for_model = next((rule for rule in MODEL_RULES if rule.applies(facts)), MODEL_RULES[0])  # which suits everything
    kind, model = method_named(for_method.choice), models()[for_model.choice]()
    model.check_installed()
    served = f" for {listed(engine.label for engine in engines)}" if engines else ""
    reason = (
        f"{kind.label}, since {for_method.when} ({facts.shown:.0%}; by {words}, {facts.examined:.0%} of the "
        f"impressions are examined); {for_method.beside}. "
        f"{model.label[0].upper()}{model.label[1:]}{served}, since {for_model.when} "
        f"({count(facts.queries, 'query', 'queries')} with clicks); {for_model.beside}."
    )
    return Choice(kind(model=model, run=run or Run()), curve, reason)


def _facts(audited: AuditFacts, clicks: ClickTable, curve: Curve, engines: Sequence[Any]) -> ChoiceFacts:
    queries, (incomplete, _) = audited.queries, audited.incomplete or (0, 0)
    usable = (
        name
        for name, kind in models().items()
        if (kind.needs is None or find_spec(kind.needs[0]) is not None)
        and (kind.takes_missing or not incomplete)
        and all(_RANKERS[name] in engine.takes for engine in engines)
    )
    return ChoiceFacts(
        shown=queries.shown / max(queries.candidates or 0, 1),
        examined=float(np.average(slopes_and_bases(curve, clicks)[0], weights=clicks.impressions)),
        has_bases=isinstance(curve, AffineClicks),
        queries=queries.searched - queries.unclicked,
        usable=tuple(usable),
    )


def _curve(audited: AuditFacts, clicks: ClickTable) -> tuple[Curve, str]:
    """The curve that `cldrank propensity estimate` finds, or the assumed one, and where it comes from, in words.

    An estimate is `trusted`: a part of the queries may refute by chance what all of them say.
    """
    chosen = audited.chosen
    if chosen is not None:
        estimator: Any = estimators()[chosen.estimator]()
        try:
            curve = fitted_curve(BySegment(estimator) if clicks.n_segments > 1 else estimator, clicks)
            return curve.trusted(), f"the estimate of {chosen.estimator}"
        except UnidentifiableError:
            pass
    return parse_curve(_ASSUMED, clicks), f"an assumed {_ASSUMED}, held to the clicks, which identify no curve"
