from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cldrank.errors import UsageError
from cldrank.measures import AP, DCG, ERR, NDCG, RR, Measure, P, parse, parse_all

CUTOFFS = st.none() | st.integers(1, 10**6)
NUMBERS = st.floats(min_value=1e-6, max_value=1e6)
MEASURES = st.one_of(
    st.builds(NDCG, CUTOFFS, st.sampled_from(["linear", "exponential"])),
    st.builds(DCG, CUTOFFS, st.sampled_from(["linear", "exponential"])),
    st.builds(AP, CUTOFFS, NUMBERS),
    st.builds(RR, CUTOFFS, NUMBERS),
    st.builds(P, st.integers(1, 1000), NUMBERS),
    st.builds(ERR, CUTOFFS, st.none() | NUMBERS),
)


@settings(deadline=None)
@given(measure=MEASURES)
def test_text_parses_back(measure: Measure) -> None:
    again = parse(str(measure))
    assert again == measure
    assert hash(again) == hash(measure)
    assert type(again) is type(measure)
    assert parse(str(measure).upper()) == parse(str(measure).lower()) == measure


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("nDCG@3", "nDCG@3"),
        ("NDCG@03", "nDCG@3"),
        ("nDCG(gain=exp)@3", "nDCG@3"),
        ("nDCG(gain=Linear)@3", "nDCG(gain=linear)@3"),
        ("MAP", "AP"),
        ("AP(rel=2.0)", "AP(rel=2)"),
        ("AP(rel=0.5)@100", "AP(rel=0.5)@100"),
        ("mrr@10", "RR@10"),
        ("Precision@5", "P@5"),
        (" p ( rel = 2 ) @ 5 ", "P(rel=2)@5"),
    ],
)
def test_spellings(text: str, canonical: str) -> None:
    assert str(parse(text)) == repr(parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nDGC@3", "no measure 'nDGC'. Did you mean nDCG? The measures are DCG, nDCG, AP, RR, P, ERR."),
        ("zebra", "no measure 'zebra'. The measures are"),
        ("", "is not a measure; write a name"),
        ("nDCG@3(gain=linear)", "is not a measure"),
        ("nDCG@0", "cutoff of nDCG must be a whole number of at least 1, not '0'"),
        ("nDCG@2.5", "not '2.5'"),
        ("P", "P needs a cutoff"),
        ("nDCG(rel=2)@3", "nDCG has no parameter 'rel'; its parameters: gain."),
        ("AP(2)", "'2' is not a parameter of AP; write name=value."),
        ("AP(rel=1,rel=2)", "given rel twice"),
        ("AP(rel=0)", "rel of AP, the lowest relevant label, must be a number above 0, not '0'"),
        ("AP(rel=nan)", "not 'nan'"),
        ("ERR(max=inf)", "max of ERR, the highest grade, must be a number above 0"),
        ("nDCG(gain=cubic)", "gain of nDCG is exponential (2^label - 1) or linear, not 'cubic'"),
    ],
)
def test_bad_text_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert message in str(caught.value)


@pytest.mark.parametrize("thing", [3, None, True, ["AP"]])
def test_what_is_no_text_is_refused(thing: object) -> None:
    with pytest.raises(UsageError, match="is not a measure"):
        parse(thing)  # type: ignore[arg-type]


def test_cutoffs_given_as_numbers() -> None:
    assert NDCG(np.int64(3)) == NDCG(3)  # type: ignore[arg-type]
    assert type(NDCG(np.int64(3)).cutoff) is int  # type: ignore[arg-type]
    for bad in (True, 2.0, 0):
        with pytest.raises(UsageError, match="cutoff"):
            NDCG(bad)  # type: ignore[arg-type]


def test_parsing_several() -> None:
    assert parse_all("nDCG@1,nDCG@3; MAP  P(rel=2)@5") == [NDCG(1), NDCG(3), AP(), P(5, rel=2)]
    assert parse_all(["nDCG@1 RR", AP(), "map"]) == [NDCG(1), RR(), AP()]
    assert parse_all(AP(rel=2)) == [AP(rel=2)]
    assert parse_all("AP( rel = 2 ), RR") == [AP(rel=2), RR()]
    nothings: tuple[str | list[str], ...] = ("", " , ", [])
    for nothing in nothings:
        with pytest.raises(UsageError, match="no measure is named"):
            parse_all(nothing)
    with pytest.raises(UsageError, match="is not a measure"):
        parse_all(3)  # type: ignore[arg-type]
