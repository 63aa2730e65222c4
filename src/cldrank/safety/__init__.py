"""Rankers that depart from production only as far as the clicks support.

A blend of what a method learned and of an imitation of production is judged against production itself by the clicks on
queries that neither was trained on. See Gupta, Oosterhuis and de Rijke (SIGIR 2023, CIKM 2024) for the idea.
"""

from cldrank.safety.safe import BlendTrial, Safe, UnsafeError

__all__ = ["BlendTrial", "Safe", "UnsafeError"]
