"""A cost matrix [N, N] as N short vectors, the only form that factored transport takes."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..._checks import (
    check_between,
    check_choice,
    check_dense,
    check_edge_index,
    check_finite,
    check_float,
    check_vector,
    read_nodes,
)
from ...kernels.torch_func import compute_dtype, without_autocast

KINDS = ("sqdist", "kernel")


@dataclass(frozen=True, eq=False)
class Factor:
    r"""Holds all costs between the points of one space by coordinates [N, r] of the points.

    .. math::
        C_{ik} = ||\mathbf{x}_i - \mathbf{x}_k||^2 \quad \mathrm{or} \quad
        C_{ik} = \sum_a \sigma_a x_{ia} x_{ka}

    It takes N r numbers instead of N^2, and a product with it N r operations (Scetbon, Peyré and
    Cuturi, "Linear-time Gromov Wasserstein distances using low rank couplings and costs", 2022).

    Args:
        x: [N, r] floating-point, finite; half precision is computed in float32.
        kind: "sqdist", squared distances, or "kernel", inner products.
        sign: [r] of 1 and -1, the signs of the eigenvalues of an indefinite kernel; None: all 1.
        error: how far it is from the matrix that it stands for, as a share of its Frobenius norm.
        edge_index: [2, E] edges among the N points, from which a solver may choose its starts;
            None: the nearest neighbours by x.

    Example:
        >>> Factor(torch.tensor([[0.0], [2.0]])).dense()
        tensor([[0., 4.],
                [4., 0.]])
    """

    x: Tensor
    kind: str = "sqdist"
    sign: Tensor | None = None
    error: float = 0.0
    edge_index: Tensor | None = None

    def __post_init__(self) -> None:
        check_float("x", self.x)
        check_dense("x", self.x)
        if self.x.dim() != 2 or self.x.numel() == 0:
            raise ValueError(f"Expected 'x' to be [N, r], not empty (got {list(self.x.shape)}).")
        check_finite("x", self.x)
        check_choice("kind", self.kind, KINDS)
        check_between("error", self.error, -1e-9, float("inf"))
        if self.sign is not None:
            check_vector("sign", self.sign, self.rank, "column of 'x'")
            if self.kind != "kernel" or bool((self.sign.abs() != 1).any()):
                raise ValueError(
                    "Expected 'sign' to be of 1 and -1, and only with kind='kernel' (got "
                    f"{self.sign.tolist()} and {self.kind!r})."
                )
        if self.edge_index is not None:
            check_edge_index(self.edge_index, self.num_points)
        object.__setattr__(self, "x", self.x.to(compute_dtype(self.x)))

    @property
    def num_points(self) -> int:
        """N."""
        return self.x.size(0)

    @property
    def rank(self) -> int:
        """The number of columns r."""
        return self.x.size(1)

    @property
    def signs(self) -> Tensor:
        """[r] of 1 and -1."""
        return torch.ones_like(self.x[0]) if self.sign is None else self.sign.to(self.x)

    @without_autocast
    def columns(self, nodes: Tensor) -> Tensor:
        """Compute the columns [N, M] of M nodes."""
        nodes = read_nodes("nodes", nodes, self.num_points)
        if self.kind == "kernel":
            return (self.x * self.signs) @ self.x[nodes].T
        # Not by inner products, whose rounding would be what near points are apart.
        mode = "donot_use_mm_for_euclid_dist"
        return torch.cdist(self.x, self.x[nodes], compute_mode=mode).square()

    def dense(self) -> Tensor:
        """Compute the matrix [N, N]."""
        return self.columns(torch.arange(self.num_points, device=self.x.device))

    def detach(self) -> "Factor":
        """Drop the history of the numbers."""
        return replace(self, x=self.x.detach())

    def __repr__(self) -> str:
        kind = self.kind if self.sign is None else f"indefinite {self.kind}"
        return f"{type(self).__name__}({kind}, num_points={self.num_points}, rank={self.rank})"
