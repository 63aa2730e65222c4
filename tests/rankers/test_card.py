"""Model cards: every number in one is the ranker's, and no name in it does harm."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from made_rankers import FEATURES, NAMES, ORIGIN, RANKERS, linear, network, trees
from markdown_it import MarkdownIt

import cldrank as cr
from cldrank import scaling
from cldrank.rankers import LinearRanker, Provenance, model_card
from cldrank.rankers.provenance import MethodRecord

MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")
EVIL = (
    "a|b",
    "c`d``e",
    "f\ng\n\n# h",
    "<script>alert(1)</script>",
    "</details><img src=x onerror=alert(1)>",
    "[i](javascript:alert(1))",
    "{{ 7 * 7 }}{% raw %}",
    "j\\|k",
    "---",
    "l&lt;m",
    "* **n**",
    "\u202ereversed\x1b[31m",
)
EVIL_TEXT = " ".join(EVIL)
CURVE = ORIGIN.propensities[""]


def body_of(card: str) -> str:
    return card.rpartition("\n---\n")[0]


def tables(card: str) -> dict[str, list[list[list[str]]]]:
    """The tables below each title, as a reader of Markdown sees them: rows of texts, the head first."""
    found: dict[str, list[list[list[str]]]] = {}
    title, in_title = "", False
    for token in MARKDOWN.parse(body_of(card)):
        if token.type.startswith("heading"):
            in_title = token.type == "heading_open"
        elif token.type == "table_open":
            found.setdefault(title, []).append([])
        elif token.type == "tr_open":
            found[title][-1].append([])
        elif token.type == "inline":
            text = "".join(child.content for child in token.children or ())
            if in_title:
                title = text
            elif title in found and found[title][-1] and token.level > 3:
                found[title][-1][-1].append(text)
    return found


def facts(card: str, title: str, number: int = 0) -> dict[str, str]:
    return {row[0]: row[1] for row in tables(card)[title][number][1:]}


def items(card: str, title: str) -> list[str]:
    section = re.search(rf"^## {title}\n(.*?)^##? ", body_of(card) + "\n## ", re.MULTILINE | re.DOTALL)
    assert section
    return re.findall(r"^> \*\*\w+\*\* (.*)$", section[1], re.MULTILINE)


@cache
def example() -> tuple[cr.RankingDataset, cr.ClickTable]:
    random = np.random.default_rng(0)
    features = random.normal(size=(480, 4))
    features[:, 3] = 1.0
    labels = (features[:, 0] > 0.5).astype(int)
    data = cr.RankingDataset.from_arrays(features, np.arange(480) // 8, labels, feature_names=NAMES, name="shop")
    rows = np.concatenate([query * 8 + random.permutation(8)[:5] for query in range(60)])
    position = np.tile(np.arange(1, 6), 60)
    chance = np.where(labels[rows] > 0, 0.9, 0.1) / position
    counts: dict[str, Any] = {"impressions": np.full(300, 40), "clicks": random.binomial(40, chance)}
    return data, cr.ClickTable.from_arrays(data, row=rows, position=position, **counts)


class TestClaims:
    def test_of_a_linear_ranker(self) -> None:
        data, clicks = example()
        rho = cr.Propensities(
            1 / np.arange(1, 6),
            "made up",
            method="AllPairs",
            low=0.8 / np.arange(1, 6),
            high=1.3 / np.arange(1, 6),
            confidence=0.9,
            notes=("a note",),
        )
        method = cr.IPS(clip=0.3, model=cr.Linear(l2=0.2)).fit(data, clicks, rho)
        result = cr.evaluate(method, data[:30], ["nDCG@3", "AP"])
        card = model_card(method.ranker_.with_evaluation(result))

        known = facts(card, "Data")
        assert known["name"] == "shop"
        assert (known["queries"], known["candidates"], known["features"]) == ("60", "480", "4")
        assert known["queries trained on"] == "60"
        assert "share of queries held out" not in known
        assert known["missing values"] == "False"
        assert known["fingerprint"] == data.fingerprint
        counted = facts(card, "Clicks")
        assert counted["impressions"] == f"{clicks.impressions.sum():,}"
        assert counted["clicks"] == f"{clicks.clicks.sum():,}"
        assert counted["depth"] == "5"
        assert counted["shown"] == f"{clicks.shown.sum():,}"

        used = method.propensities_
        assert used.low is not None
        assert used.high is not None
        about = facts(card, "Propensities")
        assert (about["estimator"], about["confidence"]) == ("AllPairs", "0.9")
        assert "a note" in items(card, "Propensities")
        head, *rows = tables(card)["Propensities"][1]
        assert head == ["position", "propensity", "low", "high"]
        assert rows == [
            [str(at + 1), *(f"{values[at]:.4g}" for values in (used.values, used.low, used.high))] for at in range(5)
        ]

        assert facts(card, "Parameters").items() >= {
            ("clip", "0.3"), ("model__l2", "0.2"), ("envelope", "raise"), ("run__seed", "0")
        }  # fmt: skip

        ended = facts(card, "Fit")
        assert ended["status"] == "converged"
        assert ended["rows"] == f"{method.n_rows_:,}"

        weights = {name: f"{value:.6g}" for name, value in zip(NAMES, method.coef_, strict=True)}
        head, *rows = tables(card)["Features that matter most"][0]
        assert dict(rows) == weights
        sizes = [abs(float(value)) for _, value in rows]
        assert sizes == sorted(sizes, reverse=True)

        measured = {row[0]: row[1:] for row in tables(card)["Evaluation"][1][1:]}
        for measure, interval in result.intervals.items():
            numbers = (result[measure], interval.low, interval.high, 0.9)
            assert measured[str(measure)] == [f"{number:.4f}" for number in numbers]
        assert result.fingerprint == data[:30].fingerprint
        assert facts(card, "Evaluation")["fingerprint"] == result.fingerprint
        assert "IPS(clip=0.3, model=Linear(l2=0.2)).fit(dataset, clicks, propensities)" in card
        assert f"**IPS** {cr.IPS.sentence}." in card

    def test_of_trees(self) -> None:
        data, _ = example()
        method = cr.Oracle(model=cr.Trees(rounds=7, min_weight=0.5, validation=0.2)).fit(data)
        card = model_card(method.ranker_)
        importance = method.ranker_.importance()  # type: ignore[attr-defined]
        _, *rows = tables(card)["Features that matter most"][0]
        assert rows == [[name, f"{share:.6g}"] for name, share in importance.items()]
        ended = facts(card, "Fit")
        kept = method.history_[method.best_epoch_ - 1]
        assert ended["kept"] == str(method.best_epoch_)
        assert ended["loss"] == f"{kept.loss:.6g}"
        assert ended["held loss"] == f"{kept.held_loss:.6g}"
        assert ended["concordance"] == f"{kept.validation:.6g}"
        assert (ended["learned queries"], ended["held queries"]) == (
            f"{method.n_queries_}",
            f"{method.n_held_}",
        )
        assert "Propensities" not in tables(card)
        assert ".fit(dataset)\n" in card

    def test_of_slopes_and_bases(self) -> None:
        data, clicks = example()
        trust = cr.propensity.AffineClicks.of(examined=1 / np.arange(1, 6), relevant=0.9, irrelevant=0.1)
        method = cr.AffineIPS().fit(data, clicks, trust)
        head, *rows = tables(model_card(method.ranker_))["Propensities"][1]
        assert head == ["position", "slope", "base"]
        assert rows == [[str(at + 1), f"{trust.slope[at]:.4g}", f"{trust.base[at]:.4g}"] for at in range(5)]

    def test_no_more_features_than_one_reads(self) -> None:
        names = tuple(f"feature {number}" for number in range(100))
        weights = np.arange(100.0) - 30
        ranker = LinearRanker(feature_names=names, scaling=scaling.fit(None, np.ones((1, 100))), coefficients=weights)
        card = model_card(ranker)
        _, *rows = tables(card)["Features that matter most"][0]
        assert [row[0] for row in rows] == [f"feature {99 - at}" for at in range(20)]


@pytest.mark.parametrize("name", ["linear", *RANKERS])
def test_every_kind_of_ranker(name: str) -> None:
    ranker = linear() if name == "linear" else RANKERS[name]()
    assert f"`{ranker!r}`" in model_card(ranker)


def test_unknown_origin() -> None:
    card = model_card(linear(provenance=Provenance()))
    assert "# Ranker of unknown origin" in card
    assert "Where it comes from is not known" in card
    for title in ("Propensities", "Parameters", "Fit", "Repeat it"):
        assert f"## {title}" not in card


class TestHostileTexts:
    @staticmethod
    def ranker() -> LinearRanker:
        assert ORIGIN.method is not None
        assert ORIGIN.diagnostics is not None
        origin = ORIGIN.replaced(
            estimator=EVIL_TEXT,
            data=EVIL_TEXT,
            parameters={**dict.fromkeys(EVIL, EVIL_TEXT), "l2": EVIL_TEXT},
            method=MethodRecord(EVIL_TEXT, EVIL_TEXT, (), EVIL_TEXT),
            propensities={EVIL_TEXT: CURVE.replaced(origin=EVIL_TEXT, estimator=EVIL_TEXT, notes=EVIL)},
            diagnostics=ORIGIN.diagnostics.replaced(status=EVIL_TEXT, constant=EVIL, warnings=EVIL),
            command=f"cldrank train '{EVIL_TEXT}'\n```\n<b>",
            evaluations=(ORIGIN.evaluations[0].replaced(data=EVIL_TEXT, measures={EVIL_TEXT: {"mean": 0.5}}),),
        )
        own = scaling.fit("standard", FEATURES[:, np.arange(len(EVIL)) % 4])
        return LinearRanker(
            feature_names=EVIL, scaling=own, coefficients=np.arange(float(len(EVIL))), provenance=origin
        )

    def test_do_no_harm(self) -> None:
        card = model_card(self.ranker())
        page = MARKDOWN.render(body_of(card))
        assert set(re.findall(r"<(\w+)", page)) <= {
            *("h1", "h2", "p", "strong", "blockquote", "ul", "ol", "li", "code", "pre", "hr"),
            *("table", "thead", "tbody", "tr", "th", "td", "details", "summary"),
        }
        assert page.count("<details>") == page.count("</details>") == 0
        assert "href" not in page
        for own in tables(card).values():
            for table in own:
                assert len({len(row) for row in table}) == 1
        titles = re.findall(r"<h2>(.*?)</h2>", page)
        assert titles == [
            *(
                "Limits",
                "Evaluation",
                "Data",
                "Clicks",
                "Propensities",
                "Parameters",
                "Fit",
                "Features that matter most",
                "Repeat it",
            ),
        ]
        without_code = re.sub(r"^(`{3,})\w+\n.*?^\1$", "", card, flags=re.MULTILINE | re.DOTALL)
        assert not re.search("[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e]", without_code)
        card.encode()

    def test_are_still_to_be_read(self) -> None:
        card = model_card(self.ranker())
        _, *rows = tables(card)["Features that matter most"][0]
        seen = {name for name, _ in rows}
        assert {"a|b", "c`d``e", "<script>alert(1)</script>", "j\\|k", "{{ 7 * 7 }}{% raw %}"} <= seen


def limits_of(**changes: Any) -> str:
    known = {**{name: getattr(ORIGIN, name) for name in ("method", "clicks", "propensities", "diagnostics")}, **changes}
    return "\n".join(items(model_card(linear(provenance=ORIGIN.replaced(**known))), "Limits"))


class TestLimits:
    def test_synthetic_data_is_said_loudly(self) -> None:
        card = model_card(linear())
        assert "> **SYNTHETIC DATA.**" in card
        assert card.index("SYNTHETIC") < 1000
        assert "SYNTHETIC" not in model_card(linear(provenance=ORIGIN.replaced(synthetic=False)))
        measured = (ORIGIN.evaluations[0].replaced(synthetic=True),)
        assert "evaluation on held out is on SYNTHETIC data" in limits_of(synthetic=False, evaluations=measured)

    def test_evaluation(self) -> None:
        assert "No evaluation is recorded" in limits_of(evaluations=())
        assert "No evaluation" not in limits_of()
        own = (ORIGIN.evaluations[0].replaced(fingerprint=ORIGIN.fingerprint),)
        assert "held out is on the data it was trained on" in limits_of(evaluations=own)
        assert "trained on:" not in limits_of()

    def test_biases(self) -> None:
        assert ORIGIN.method is not None
        for corrected in ((), ("position",), ("position", "trust", "selection")):
            said = limits_of(method=ORIGIN.method.replaced(corrects=corrected))
            for bias in ("position", "trust", "selection"):
                assert (f"{bias.capitalize()} bias is not corrected" in said) == (bias not in corrected)
        said = limits_of(clicks=None)
        assert "learned from labels" in said
        assert "bias" not in said

    def test_depth(self) -> None:
        assert "It saw clicks at positions 1 to 3 only, on 7 of 9 candidates." in limits_of()

    def test_propensities(self) -> None:
        said = limits_of()
        assert "assumed (" not in said
        assert "clipped at position 2" in said
        assert "at position 3; they were raised to" in said
        assumed = CURVE.replaced(estimator=None, origin="power law; raised", raised=(), clipped=())
        assert "of segment phone were assumed" in limits_of(propensities={"": CURVE, "phone": assumed})
        said = limits_of(propensities={"": assumed})
        assert "assumed (power law), not estimated" in said
        assert "refute" not in said
        assert "were clipped" not in said

    def test_the_fit(self) -> None:
        fit = ORIGIN.diagnostics
        assert fit is not None
        assert "ended" not in limits_of()
        assert "beware" in limits_of()
        assert "ended as max_steps after 4 steps" in limits_of(diagnostics=fit.replaced(status="max_steps")).replace(
            "\\", ""
        )
        assert "ended as interrupted after 4 steps" in limits_of(diagnostics=fit.replaced(status="interrupted"))

    @pytest.mark.parametrize(("concordance", "is_chance"), [(None, False), (0.3, True), (0.5, True), (0.5001, False)])
    def test_no_better_than_chance(self, concordance: float | None, is_chance: bool) -> None:
        assert ORIGIN.diagnostics is not None
        fit = ORIGIN.diagnostics.replaced(concordance=concordance, held_target="labels")
        said = f"no better than chance: its concordance with labels is {concordance or 0:.4f}, and 0.5 is chance"
        assert (said in limits_of(diagnostics=fit)) == is_chance

    def test_features(self) -> None:
        assert "nothing was learned about them: bm25." in limits_of()
        assert "refuses features that are missing" in limits_of()
        assert "refuses" not in model_card(trees())

    def test_use(self) -> None:
        assert "score all of them together" in model_card(RANKERS["borda"]())
        assert "together" not in model_card(network())


def test_the_same_ranker_has_the_same_card() -> None:
    data, clicks = example()
    rho = cr.Propensities.power(1, 5)
    one, two = (cr.CLD().fit(data, clicks, rho).ranker_ for _ in range(2))
    assert model_card(one) == model_card(two)
