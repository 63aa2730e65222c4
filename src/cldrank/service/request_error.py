"""`RequestError`: a request that is not answered, with its status and the reason."""

from __future__ import annotations

from typing import Any

from cldrank.errors import DataError


class RequestError(DataError):
    """A request that cannot be answered as it is; `status` is that of the HTTP answer.

    >>> error = RequestError("there are 3 ids for 2 rows of features.")
    >>> print(error.status, error)
    422 there are 3 ids for 2 rows of features.
    """

    def __init__(self, message: str, *words: Any, status: int = 422) -> None:
        super().__init__(message, *words)
        self.status = status
