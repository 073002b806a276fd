"""SpMM by torch-sparse (extra `[sparse]`), differentiated to any order."""

from typing import Any

import torch
from torch import Tensor

from ..csr import CSR
from ..edge_dot import edge_dot
from ..torch_func import is_transformed
from .operator import Operator
from .series import refuse_transform


class SparseOperator(Operator):
    """A sparse symmetric S. Every term is stored while training, but no [nnz, M] messages."""

    def __init__(self, csr: CSR, value: Tensor) -> None:
        import torch_sparse  # noqa: F401 (loads its operations)

        if is_transformed():
            refuse_transform("the transforms of torch.func")
        self.num_nodes = csr.num_rows
        self.csr, self.value = csr, value

    def apply(self, x: Tensor) -> Tensor:
        """Multiply."""
        if x.numel() == 0:  # torch-sparse would divide by the number of columns
            return x + 0 * self.value.sum()
        product: Tensor = _Product.apply(self.csr, self.value, x)
        return product


class _Product(torch.autograd.Function):
    """Apply S. Gradients by torch-sparse itself would be constants in a second derivative."""

    @staticmethod
    def forward(ctx: Any, csr: CSR, value: Tensor, x: Tensor) -> Tensor:
        ctx.csr = csr
        ctx.save_for_backward(value, x)
        matrix = None, csr.rowptr, csr.derived(_wide_columns), value.detach(), None, None
        product: Tensor = torch.ops.torch_sparse.spmm_sum(*matrix, x.detach())
        return product

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), (value, x), csr = grads, ctx.saved_tensors, ctx.csr
        _, of_value, of_x = ctx.needs_input_grad
        return (
            None,
            edge_dot(grad, x, csr.row, csr.col) if of_value else None,
            _Product.apply(csr, value, grad) if of_x else None,  # S is symmetric
        )

    @staticmethod
    def jvp(ctx: Any, *_: Tensor | None) -> None:
        refuse_transform("forward mode")


def _wide_columns(csr: CSR) -> Tensor:
    return csr.col.long()
