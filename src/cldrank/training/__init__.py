"""The one stochastic training loop: whole queries in batches, each candidate scored once a step, on CPU or GPU."""

from cldrank.training.settings import Training

__all__ = ["Training"]
