"""Compiled loops: sums over float32 rows, and the pairs of candidates of a query. Free of the interpreter lock.

In the loops over pairs, the candidates of a query lie in the order in which pairs need them: those shown first, from
the highest target to the lowest, then those not shown. Of boosted trees, σ(f_j - f_i) = e_j / (e_i + e_j) with
e = exp(f), so that no pair needs an exponential.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

_FARTHEST = 100.0  # a score farther than this from the middle of its query counts as this far
_SMALL = 1e-150  # a product of probabilities that is smaller is taken into the sum of logarithms

_options = {"nogil": True, "cache": True, "error_model": "numpy", "fastmath": {"reassoc", "contract"}}


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def dot(block: NDArray[np.float32], coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
    """The score of each row, Σ value * coefficient over its columns."""
    rows, width = block.shape
    scores = np.empty(rows)
    for i in range(rows):
        total = 0.0
        for j in range(width):
            total += np.float64(block[i, j]) * coefficients[j]
        scores[i] = total
    return scores


@njit(nogil=True, cache=True, fastmath={"contract"})
def back(block: NDArray[np.float32], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum of each column over the rows, Σ value * entry of the row."""
    rows, width = block.shape
    sums = np.zeros(width)
    for i in range(rows):
        value = values[i]
        for j in range(width):
            sums[j] += np.float64(block[i, j]) * value
    return sums


@njit(nogil=True, cache=True)
def scaled(block, factors):  # typed by what it is given: the result is as wide as the factors
    """Each row times its factor."""
    rows, width = block.shape
    product = np.empty((rows, width), factors.dtype)
    for i in range(rows):
        factor = factors[i]
        for j in range(width):
            product[i, j] = block[i, j] * factor
    return product


@njit(**_options)
def exponentials(scores, order, low, high, out):
    """exp(f) of the candidates `order[low:high]` of a query, up to a factor, into the beginning of `out`."""
    smallest = largest = np.float64(scores[order[low]])
    for place in range(low, high):
        score = np.float64(scores[order[place]])
        smallest, largest = min(smallest, score), max(largest, score)
    middle = (smallest + largest) / 2
    for place in range(low, high):
        away = np.float64(scores[order[place]]) - middle
        out[place - low] = math.exp(min(max(away, -_FARTHEST), _FARTHEST))


@njit(**_options)
def discounts_at(scores, order, low, size, discounts, out):
    """The discount of each candidate of a query at its rank by the scores, into the beginning of `out`."""
    own = np.empty(size)
    for place in range(size):
        own[place] = -np.float64(scores[order[low + place]])
    ranked = np.argsort(own, kind="mergesort")
    for rank in range(size):
        out[ranked[rank]] = discounts[rank]


@njit(**_options)
def derivatives(
    scores, queries, order, offsets, ends, follows, target, weight, mixed, discounts, gradient, hessian, lost
):
    """First and second derivatives of CLD-pair's loss by each score, and the loss of each query.

    scores             (rows,) f
    queries            those to work on
    order              (rows,) the row at each place
    offsets            (queries + 1,) the places of a query; up to `ends` (queries,) those of the shown
    follows            (rows,) for each shown place, the first of the shown with a lower target
    target, weight     (rows,) by place
    mixed              (queries,) the weight of each pair of a shown and an unshown candidate
    discounts          by rank: a pair of shown ones counts by the difference of those at its ranks; empty: all alike
    gradient, hessian  (rows,) and `lost` (queries,): written, for these queries alone
    """
    longest = 0
    for query in queries:
        longest = max(longest, offsets[query + 1] - offsets[query])
    e, first, second, discount = np.empty(longest), np.empty(longest), np.empty(longest), np.zeros(longest)
    top = len(discounts) > 0
    for query in queries:
        low, size, shown = offsets[query], offsets[query + 1] - offsets[query], ends[query] - offsets[query]
        exponentials(scores, order, low, low + size, e)
        if top:
            discounts_at(scores, order, low, size, discounts, discount)
        first[:size] = 0.0
        second[:size] = 0.0
        loss = 0.0
        for i in range(shown):
            start = follows[low + i] - low
            loss += _shown_pairs(i, start, shown, e, target[low:], weight[low:], top, discount, first, second)
        if mixed[query] > 0.0:
            for i in range(shown):
                loss += _mixed_pairs(i, shown, size, e, mixed[query], first, second)
        lost[query] = loss
        for place in range(size):
            row = order[low + place]
            gradient[row] = first[place]
            hessian[row] = second[place]


@njit(**_options)
def _shown_pairs(i, start, stop, e, target, weight, top, discount, first, second):
    """The pairs of shown candidate `i` with those that it is preferred to, and their loss."""
    own_first = own_second = loss = 0.0
    for j in range(start, stop):
        preference = (target[i] - target[j]) * min(weight[i], weight[j])
        if top:
            preference *= abs(discount[i] - discount[j])
        whole = 1 / (e[i] + e[j])
        wrong, right = e[j] * whole, e[i] * whole
        slope, curve = preference * wrong, preference * wrong * right
        own_first += slope
        own_second += curve
        first[j] += slope
        second[j] += curve
        loss -= preference * math.log(right)
    first[i] -= own_first
    second[i] += own_second
    return loss


@njit(**_options)
def softmax_derivatives(scores, queries, order, offsets, clicks, mass, gradient, hessian, lost):
    """The same of -Σ clicks log(mass e^f / Σ mass e^f); `clicks` and `mass` (rows,) by place."""
    longest = 0
    for query in queries:
        longest = max(longest, offsets[query + 1] - offsets[query])
    e = np.empty(longest)
    for query in queries:
        low, high = offsets[query], offsets[query + 1]
        exponentials(scores, order, low, high, e)
        total = whole = loss = 0.0
        for place in range(low, high):
            e[place - low] *= mass[place]
            whole += e[place - low]
            total += clicks[place]
        for place in range(low, high):
            chance, row = e[place - low] / whole, order[place]
            gradient[row] = total * chance - clicks[place]
            hessian[row] = total * chance * (1 - chance)
            if clicks[place] > 0.0:
                loss -= clicks[place] * math.log(chance)
        lost[query] = loss


@njit(**_options)
def _mixed_pairs(i, start, stop, e, each, first, second):
    """The pairs of shown candidate `i` with those not shown, of equal weight, and their loss."""
    own_first = own_second = 0.0
    for j in range(start, stop):
        whole = 1 / (e[i] + e[j])
        wrong = e[j] * whole
        curve = wrong * (e[i] * whole)
        own_first += wrong
        own_second += curve
        first[j] += each * wrong
        second[j] += each * curve
    first[i] -= each * own_first
    second[i] += each * own_second
    loss, product = 0.0, 1.0  # a logarithm for many pairs at once
    for j in range(start, stop):
        product *= e[i] / (e[i] + e[j])
        if product < _SMALL:
            loss -= math.log(product)
            product = 1.0
    return each * (loss - math.log(product))


@njit(**_options)
def pair_agreement(scores, queries, order, offsets, ends, follows, target, weight):
    """(3, queries) of each query's preferences: their loss, how much of them the scores agree with, and their total.

    A tie agrees by half.
    """
    sums = np.zeros((3, len(queries)))
    for place in range(len(queries)):
        query = queries[place]
        for i in range(offsets[query], ends[query]):
            for j in range(follows[i], ends[query]):
                preference = (target[i] - target[j]) * min(weight[i], weight[j])
                ahead = np.float64(scores[order[i]]) - np.float64(scores[order[j]])
                sums[0, place] += preference * (math.log1p(math.exp(-abs(ahead))) + max(-ahead, 0.0))
                sums[1, place] += preference * 0.5 * (1 + np.sign(ahead))
                sums[2, place] += preference
    return sums


@njit(**_options)
def preference_sums(offsets, ends, follows, target, weight):
    """The preference of each place, given or received, over all its pairs."""
    sums = np.zeros(len(target))
    for query in range(len(offsets) - 1):
        for i in range(offsets[query], ends[query]):
            for j in range(follows[i], ends[query]):
                preference = (target[i] - target[j]) * min(weight[i], weight[j])
                sums[i] += preference
                sums[j] += preference
    return sums


@njit(**_options)
def linear_pairs(
    x, score, selection, order, offsets, ends, follows, target, weight, mixed, share, slopes, curves, sums
):
    """CLD-pair's log-likelihood of linear scores and selections, with what its derivatives by β and ω are made of.

    Of the pair i, j: Δ = score_i - score_j, and ω stands for the selection.
        both shown, p = preference:   p (log σ(Δ) + C (log σ(ω_i + Δ) + log σ(ω_j + Δ)))
        i shown, j not, p = mixed:    p C (log σ(ω_i + Δ) + log σ(-ω_j))

    x        (rows, width) in float64; `share` is C, the others are those of `derivatives`
    slopes   (2, rows) written: the derivatives by score and selection
    curves   (3, rows) written: the factors of x xᵀ in minus the Hessian, for ββ, βω and ωω
    sums     (3, shown, width) written: of each shown i, Σ_j curvature x_j of log σ(ω_i + Δ), of the two others
             together, and of log σ(ω_j + Δ)
    """
    value, at = 0.0, 0
    width = x.shape[1]
    for query in range(len(ends)):
        for place in range(offsets[query], ends[query]):
            i = order[place]
            for other in range(follows[place], offsets[query + 1]):
                j, seen = order[other], other < ends[query]
                each = (target[place] - target[other]) * min(weight[place], weight[other]) if seen else mixed[query]
                gap = score[i] - score[j]
                value += each * share * _log_sigmoid(selection[i] + gap)
                by_own = each * share * _sigmoid(-selection[i] - gap)
                own = by_own * _sigmoid(selection[i] + gap)
                by_gap, others, theirs = by_own, 0.0, 0.0
                if seen:
                    value += each * (_log_sigmoid(gap) + share * _log_sigmoid(selection[j] + gap))
                    by_order, by_theirs = each * _sigmoid(-gap), each * share * _sigmoid(-selection[j] - gap)
                    theirs = by_theirs * _sigmoid(selection[j] + gap)
                    others = by_order * _sigmoid(gap) + theirs
                    by_gap += by_order + by_theirs
                    slopes[1, j] += by_theirs
                    curves[1, j] -= theirs
                    curves[2, j] += theirs
                    for column in range(width):
                        sums[1, at, column] += others * x[j, column]
                        sums[2, at, column] += theirs * x[j, column]
                else:
                    value += each * share * _log_sigmoid(-selection[j])
                    by_theirs = each * share * _sigmoid(selection[j])
                    slopes[1, j] -= by_theirs
                    curves[2, j] += by_theirs * _sigmoid(-selection[j])
                slopes[0, i] += by_gap
                slopes[0, j] -= by_gap
                slopes[1, i] += by_own
                curves[0, i] += own + others
                curves[0, j] += own + others
                curves[1, i] += own
                curves[2, i] += own
                for column in range(width):
                    sums[0, at, column] += own * x[j, column]
            at += 1
    return value


@njit(**_options)
def _sigmoid(z):
    return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))


@njit(**_options)
def _log_sigmoid(z):
    return min(z, 0.0) - math.log1p(math.exp(-abs(z)))
