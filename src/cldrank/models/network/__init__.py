"""The one stochastic training loop: whole queries in batches, each candidate scored once a step, on CPU or GPU."""

from cldrank.models.network.settings import Training

__all__ = ["Training"]
