"""Judgements: the relevance of documents to queries, from clicks, in the files that relevance tools read."""

from cldrank.judgements.judging import Judgements, judge_documents
from cldrank.judgements.query_texts import read_query_texts
from cldrank.judgements.writing import FORMATS as FORMATS
from cldrank.judgements.writing import WrittenJudgements, write_judgements
from cldrank.judgements.writing import check_delivery as check_delivery

__all__ = [
    "Judgements",
    "WrittenJudgements",
    "judge_documents",
    "read_query_texts",
    "write_judgements",
]
