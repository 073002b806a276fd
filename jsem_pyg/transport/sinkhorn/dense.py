"""Dense entropic plans with given marginals, of a table of scores."""

import torch
from torch import Tensor

_FAR = 1e15  # scalings beyond this go into the potentials
_LOOK_EVERY = 5  # iterations between looks at the marginals


def entropic_plan(
    score: Tensor, p: Tensor, q: Tensor, g: Tensor, tol: float, max_iterations: int
) -> tuple[Tensor, Tensor]:
    """Find T = exp(f_i + score_ij + g_j) of marginals p and q, all > 0: log T [N, K], g [K].

    It begins at `g` [K], and ends when the marginal error sum_i |T 1 - p|_i is `tol`, or after so
    many iterations; columns are exact. Potentials are kept as logarithms. Between two exponentials
    of the table, scalings of its rows and columns do the same by products with vectors, as long as
    they stay in range.

    Source: B. Schmitzer, "Stabilized sparse scaling algorithms for entropy regularized transport
    problems", 2019, section 3.
    """
    done, log_p, log_q = 0, p.log(), q.log()
    while True:
        f = log_p - torch.logsumexp(score + g, 1)
        table = score + f[:, None]
        g = log_q - torch.logsumexp(table, 0)
        kernel = table.add_(g).exp()
        u, v = torch.ones_like(p), torch.ones_like(q)
        while True:
            received = kernel @ v
            if done % _LOOK_EVERY == 0 or done >= max_iterations:
                error = float((u * received - p).abs().sum(dtype=torch.float64))
                if error <= tol or done >= max_iterations:
                    return table.add_(u.log()[:, None]).add_(v.log()), g + v.log()
            done += 1
            next_u = p / received
            next_v = q / (next_u @ kernel)
            if not _in_range(next_u, next_v):
                g = g + v.log()
                break
            u, v = next_u, next_v


def _in_range(u: Tensor, v: Tensor) -> bool:
    (least, most), (low, high) = (torch.aminmax(each) for each in (u, v))
    return bool((least > 1 / _FAR) & (most < _FAR) & (low > 1 / _FAR) & (high < _FAR))
