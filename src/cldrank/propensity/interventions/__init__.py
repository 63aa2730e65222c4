"""Interventions: pages on which the order was changed on purpose, or was drawn with known probabilities."""
