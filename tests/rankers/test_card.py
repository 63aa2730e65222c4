"""Model cards: every number in one is the ranker's, and no name in it does harm."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_rankers import FEATURES, NAMES, ORIGIN, RANKERS, dataset, linear, network
from markdown_it import MarkdownIt

import cldrank as cr
from cldrank import scaling
from cldrank.errors import UsageError
from cldrank.files import holding
from cldrank.rankers import LinearRanker, Provenance, load_ranker, model_card, ranker_folder, record_evaluation
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
        curve, low, high = (scale / np.arange(1, 6) for scale in (1.0, 0.8, 1.3))
        rho = cr.Propensities(
            curve, "made up", method="AllPairs", low=low, high=high, confidence=0.9, notes=("a note",)
        )
        method = cr.IPS(clip=0.3, model=cr.Linear(l2=0.2)).fit(data, clicks, rho)
        result = cr.evaluate(method, data[:30], ["nDCG@3", "AP"])
        card = model_card(method.ranker_.with_evaluation(result))

        known = facts(card, "Data")
        assert (known["name"], known["queries trained on"], known["missing values"]) == ("shop", "60", "False")
        assert (known["queries"], known["candidates"], known["features"]) == ("60", "480", "4")
        assert known["fingerprint"] == data.fingerprint
        counted = facts(card, "Clicks")
        assert (counted["impressions"], counted["depth"]) == (f"{clicks.impressions.sum():,}", "5")
        assert counted["clicks"] == f"{clicks.clicks.sum():,}"
        assert counted["shown"] == f"{clicks.shown.sum():,}"
        used: Any = method.propensities_
        about = facts(card, "Propensities")
        assert (about["estimator"], about["confidence"]) == ("AllPairs", "0.9")
        assert "a note" in items(card, "Propensities")
        head, *rows = tables(card)["Propensities"][1]
        assert head == ["position", "propensity", "low", "high"]
        assert rows == [
            [str(at + 1), *(f"{values[at]:.4g}" for values in (used.values, used.low, used.high))] for at in range(5)
        ]
        assert facts(card, "Parameters").items() >= {("clip", "0.3"), ("model__l2", "0.2"), ("run__seed", "0")}
        ended = facts(card, "Fit")
        assert (ended["status"], ended["rows"]) == ("converged", f"{method.n_rows_:,}")
        weights = {name: f"{value:.6g}" for name, value in zip(NAMES, method.coef_, strict=True)}
        _, *rows = tables(card)["Features that matter most"][0]
        assert dict(rows) == weights
        assert rows == sorted(rows, key=lambda row: -abs(float(row[1])))
        measured = {row[0]: row[1:] for row in tables(card)["Evaluation"][1][1:]}
        for measure, interval in result.intervals.items():
            numbers = (result[measure], interval.low, interval.high, 0.9)
            assert measured[str(measure)] == [f"{number:.4f}" for number in numbers]
        assert facts(card, "Evaluation")["fingerprint"] == data[:30].fingerprint
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
        assert ended["concordance"] == f"{kept.validation:.6g}"
        assert "Propensities" not in tables(card)
        assert ".fit(dataset)\n" in card

    def test_no_more_features_than_one_reads(self) -> None:
        names = tuple(f"feature {number}" for number in range(100))
        weights = np.arange(100.0) - 30
        ranker = LinearRanker(feature_names=names, scaling=scaling.fit(None, np.ones((1, 100))), coefficients=weights)
        card = model_card(ranker)
        _, *rows = tables(card)["Features that matter most"][0]
        assert [row[0] for row in rows] == [f"feature {99 - at}" for at in range(20)]


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
        expected = "Limits Evaluation Data Clicks Propensities Parameters Fit Features-that-matter-most Repeat-it"
        assert titles == [title.replace("-", " ") for title in expected.split()]
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

    @pytest.mark.parametrize(("concordance", "is_chance"), [(None, False), (0.3, True), (0.5, True), (0.5001, False)])
    def test_no_better_than_chance(self, concordance: float | None, is_chance: bool) -> None:
        assert ORIGIN.diagnostics is not None
        fit = ORIGIN.diagnostics.replaced(concordance=concordance, held_target="labels")
        said = f"no better than chance: its concordance with labels is {concordance or 0:.4f}, and 0.5 is chance"
        assert (said in limits_of(diagnostics=fit)) == is_chance

    def test_use(self) -> None:
        assert "score all of them together" in model_card(RANKERS["borda"]())
        assert "together" not in model_card(network())


def test_a_card_that_was_edited_is_not_lost(tmp_path: Path) -> None:
    linear().save(tmp_path)
    card = tmp_path / "README.md"
    linear(intercept=2.0).save(tmp_path)  # one that was not goes with its ranker
    written = card.read_text()
    card.write_text(written + "mine\n")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UsageError, match="README.md was edited.*move your text to NOTES.md.*and delete README.md"):
        linear().save(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert load_ranker(tmp_path).provenance == ORIGIN  # loading does not care
    card.unlink()
    assert load_ranker(tmp_path).provenance == ORIGIN
    linear(intercept=2.0).save(tmp_path)
    assert card.read_text() == written


def test_notes_are_kept_and_become_part_of_the_card(tmp_path: Path) -> None:
    linear().save(tmp_path)
    assert "## Notes" not in (tmp_path / "README.md").read_text()
    notes = b"For the *shop*. \xff\r\n"
    (tmp_path / "NOTES.md").write_bytes(notes)
    linear(intercept=2.0).save(tmp_path)
    assert (tmp_path / "NOTES.md").read_bytes() == notes
    card = (tmp_path / "README.md").read_text()
    assert "\n## Notes\n\nFor the *shop*. \ufffd\n" in card
    again = load_ranker(tmp_path)
    assert isinstance(again, LinearRanker)
    assert again.intercept == 2


class TestRecording:
    def test_an_evaluation_is_added_to_what_is_there(self, tmp_path: Path) -> None:
        ranker = linear()
        ranker.save(tmp_path)
        loaded = load_ranker(tmp_path)
        record_evaluation(loaded, Found("train", "1" * 64, 0.5), tmp_path)
        record_evaluation(loaded, Found("test", "2" * 64, 0.6), tmp_path)  # the first is not lost
        again = load_ranker(tmp_path).provenance.evaluations
        assert [(one.data, one.measures["AP"]["mean"]) for one in again[-2:]] == [("train", 0.5), ("test", 0.6)]
        record_evaluation(loaded, Found("other name", "1" * 64, 0.7), tmp_path)
        again = load_ranker(tmp_path).provenance.evaluations
        assert [(one.data, one.measures["AP"]["mean"]) for one in again[-2:]] == [("test", 0.6), ("other name", 0.7)]
        assert len(again) == len(ORIGIN.evaluations) + 2
        np.testing.assert_array_equal(load_ranker(tmp_path).predict(dataset()), ranker.predict(dataset()))

    def test_others_wait_while_one_is_recorded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        linear().save(tmp_path / "ranker")
        loaded, save, is_free = load_ranker(tmp_path / "ranker"), ranker_folder.save_ranker, []

        def watched(*given: Any) -> None:
            with holding(tmp_path, wait=False) as free:
                is_free.append(free)
            save(*given)

        monkeypatch.setattr(ranker_folder, "save_ranker", watched)
        record_evaluation(loaded, Found("test", "2" * 64, 0.6), tmp_path / "ranker")
        assert is_free == [False]

    def test_another_ranker_in_its_place_is_refused(self, tmp_path: Path) -> None:
        linear().save(tmp_path)
        loaded = load_ranker(tmp_path)
        linear(intercept=5.0).save(tmp_path)
        with pytest.raises(UsageError, match="another ranker"):
            record_evaluation(loaded, Found("test", "2" * 64, 0.6), tmp_path)
        assert load_ranker(tmp_path).provenance == ORIGIN


class Found:
    """An evaluation."""

    def __init__(self, data: str, fingerprint: str, mean: float) -> None:
        known = {"data": data, "synthetic": False, "queries": 9, "fingerprint": fingerprint, "empty": "zero"}
        self.known = {**known, "measures": {"AP": {"mean": mean}}}

    def as_dict(self) -> dict[str, Any]:
        return self.known
