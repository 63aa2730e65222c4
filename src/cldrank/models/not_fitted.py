"""The error of a method that has not learned yet. It is also scikit-learn's, so this module is imported late."""

from __future__ import annotations

import sklearn.exceptions

from cldrank.errors import UsageError


class NotFittedError(UsageError, sklearn.exceptions.NotFittedError):
    """A method is used before `fit`.

    >>> import cldrank as cr
    >>> cr.IPS().predict([[1.0]])
    Traceback (most recent call last):
    cldrank.models.not_fitted.NotFittedError: this IPS has not learned anything yet; call fit first.
    """
