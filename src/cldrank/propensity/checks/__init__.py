"""Checks of a curve: goodness of fit, attraction, confounding, refutation, agreement; and refusals in words."""
