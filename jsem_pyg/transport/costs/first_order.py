"""First derivatives only: a second one would be a wrong number, and is refused."""

import torch


def refuse_second_derivative(what: str) -> None:
    """Raise a NotImplementedError if autograd would differentiate a backward pass once more."""
    if torch.is_grad_enabled():
        raise NotImplementedError(
            f"Expected {what} to be differentiated once (got create_graph=True, for a second "
            "derivative). To fix this, take differences of first derivatives."
        )
