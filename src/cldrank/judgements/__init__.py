"""Judgements: the relevance of documents to queries, from clicks, in the files that relevance tools read."""

from cldrank.judgements.judging import Judgements, judge
from cldrank.judgements.query_texts import read_query_texts
from cldrank.judgements.writing import FORMATS, WrittenJudgements, check_delivery, write_judgements

__all__ = [
    "FORMATS",
    "Judgements",
    "WrittenJudgements",
    "check_delivery",
    "judge",
    "read_query_texts",
    "write_judgements",
]
