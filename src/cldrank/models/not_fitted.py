"""The error of a method that has not learned yet. It is also scikit-learn's, so this module is imported late."""

from __future__ import annotations

import sklearn.exceptions

from cldrank.errors import UsageError


class NotFittedError(UsageError, sklearn.exceptions.NotFittedError):
    """A method is used before `fit`."""
