"""Judgements: the relevance of documents to queries, from clicks, in the files that relevance tools read."""

from cldrank.judgements.document_judgements import Judgements, judge_documents
from cldrank.judgements.judgement_files import FORMATS as FORMATS
from cldrank.judgements.judgement_files import check_delivery as check_delivery
from cldrank.judgements.judgement_files import read_query_texts, write_judgements

__all__ = ["Judgements", "judge_documents", "read_query_texts", "write_judgements"]
