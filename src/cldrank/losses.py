"""Losses over lists of candidates, as pure functions of torch tensors: a value per list, smaller is better.

Everywhere, B lists of S shown candidates and U candidates that were not shown:

    scores, selection              (B, S) the outputs of the models of relevance and selection for the shown candidates
    unshown_scores, …_selection    (B, U) the same for those not shown
    preference                     (B, S, S) how strongly i is preferred to j; 0 for padding
    mixed                          (B, S, U) the weight of the pair of a shown and an unshown candidate; 0 for padding
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def preferences(target: Tensor, weight: Tensor) -> Tensor:
    """How strongly each candidate of a list is preferred to each other.

    (t_i - t_j)₊ min(w_i, w_j)
    """
    difference = (target[:, :, None] - target[:, None, :]).clamp(min=0)
    return difference * weight[:, :, None].minimum(weight[:, None, :])


def pairwise(scores: Tensor, preference: Tensor) -> Tensor:
    """The logistic loss of the pairs of a list (BPR, RankNet).

    -Σ_ij preference_ij log σ(f_i - f_j)
    """
    from torch.nn.functional import logsigmoid

    return -(preference * logsigmoid(_differences(scores, scores))).sum((1, 2))


def exchanges(scores: Tensor, weight: Tensor) -> Tensor:
    """(B, N, N) by how much exchanging two of N candidates would change the discounts of DCG at their ranks.

    Candidate i stands for `weight` (B, N) candidates of its score.
    """
    ahead = (_differences(scores, scores) < 0).to(weight) @ weight[:, :, None]
    discount = 1 / (ahead[:, :, 0] + 2).log2()
    return _differences(discount, discount).abs()


def softmax(scores: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """The listwise loss of (B, N) candidates, each in the softmax as often as its weight says (ListNet).

    -Σ_i t_i w_i log (w_i e^f_i / Σ_j w_j e^f_j)
    """
    import torch

    chances = torch.log_softmax(scores + weight.clamp(min=1e-30).log(), 1)
    return -(target * weight * chances).sum(1)


def cld_pair(
    scores: Tensor,
    selection: Tensor,
    unshown_scores: Tensor,
    unshown_selection: Tensor,
    preference: Tensor,
    mixed: Tensor,
    selection_weight: float,
) -> Tensor:
    """CLD's pairwise objective: the order of relevance, and the selection that relevance and ω explain together.

    Δ = f_i - f_j
    both shown:   -preference [log σ(Δ) + C (log σ(ω_i + Δ) + log σ(ω_j + Δ))]
    i shown, j not:   -mixed C [log σ(ω_i + Δ) + log σ(-ω_j)]
    """
    given = scores, selection, unshown_scores, unshown_selection, preference, mixed
    lost: Tensor = _cld_pair_with_slopes().apply(*given, selection_weight)
    return lost


@cache
def _cld_pair_with_slopes() -> Any:
    """`cld_pair` with its slopes written out: a single pass computes both, and little is left to autograd."""
    import torch
    from torch.nn.functional import logsigmoid

    class CLDPairLoss(torch.autograd.Function):
        @staticmethod
        def forward(
            ctx: Any,
            f: Tensor,
            omega: Tensor,
            f_u: Tensor,
            omega_u: Tensor,
            preference: Tensor,
            mixed: Tensor,
            c: float,
        ) -> Tensor:
            size, width = f.shape[1], f.shape[1] + f_u.shape[1]
            gap = _differences(f, torch.cat([f, f_u], 1))
            order = gap[:, :, :size]
            chosen, both = mixed * c, preference * c
            inside = torch.cat([omega[:, :, None] + gap, omega[:, None, :] + order, order], 2)
            weight = torch.cat([both, chosen, both, preference], 2)
            left_out = chosen.sum(1)
            lost = -(weight * logsigmoid(inside)).sum((1, 2)) - (left_out * logsigmoid(-omega_u)).sum(1)
            slope = weight.mul_(inside.neg_().sigmoid_())  # of -loss by what is inside
            own, others = slope[:, :, :width], slope[:, :, width : width + size]
            by_omega = own.sum(2).add_(others.sum(1)).neg_()
            others += slope[:, :, width + size :]
            own[:, :, :size] += others
            by_both = own.sum(1)
            by_f = by_both[:, :size] - own.sum(2)
            ctx.save_for_backward(by_f, by_omega, by_both[:, size:], left_out * omega_u.sigmoid())
            return lost

        @staticmethod
        def backward(ctx: Any, by_loss: Tensor) -> tuple[Tensor | None, ...]:
            return (*(by_loss[:, None] * slope for slope in ctx.saved_tensors), None, None, None)

    return CLDPairLoss


def cld(
    scores: Tensor,
    selection: Tensor,
    unshown_selection: Tensor,
    target: Tensor,
    weight: Tensor,
    absent: Tensor,
    gamma: float,
) -> Tensor:
    """CLD's pointwise likelihood, in float64; `absent` (B, U) is the weight of each candidate not shown.

    shown:      weight [(r̄ - f)² - log Φ((ω + γ (r̄ - f)) / √(1 - γ²))]
    not shown:  -absent log Φ(-ω)
    """
    from torch.special import log_ndtr

    residual = target.double() - scores.double()
    seen = log_ndtr((selection.double() + gamma * residual) / (1 - gamma**2) ** 0.5) - residual.square()
    lost: Tensor = -(weight * seen).sum(1) - (absent * log_ndtr(-unshown_selection.double())).sum(1)
    return lost


def concordance(scores: Tensor, preference: Tensor) -> tuple[Tensor, Tensor]:
    """Per list, the total preference that the scores agree with (ties count half), and the total preference."""
    agrees = 0.5 * (_differences(scores, scores).sign() + 1)
    return (preference * agrees).sum((1, 2)), preference.sum((1, 2))


def _differences(first: Tensor, second: Tensor) -> Tensor:
    return first[:, :, None] - second[:, None, :]
