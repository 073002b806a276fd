"""Fewer channels to train a diffusion on."""

import torch
from torch import Tensor, nn

from .._checks import check_positive_int
from ..nn import AnisotropicDiffusion
from .seeds import Purpose, derive_generator


def sketch(model: nn.Module, x: Tensor, sketch_dim: int, seed: int) -> Tensor:
    """Project the channels of x [N, D] at random to [N, sketch_dim], keeping distances in the mean.

    Raises:
        TypeError: If `sketch_dim` is no integer.
        ValueError: If `sketch_dim` is not in [1, D), or if `model` could not be applied to all
            channels after it was trained on a sketch of them.
    """
    check_positive_int("sketch_dim", sketch_dim)
    num_channels = x.size(1)
    if sketch_dim >= num_channels:
        raise ValueError(
            f"Expected 'sketch_dim' to be less than the {num_channels} channels of 'data.x' (got "
            f"{sketch_dim}). To fix this error, leave it out and train on all channels."
        )
    if not (isinstance(model, AnisotropicDiffusion) and model.sketchable):
        raise ValueError(
            "Expected 'model' to be an AnisotropicDiffusion that treats all channels alike when "
            f"'sketch_dim' is given (got {model}), since only a diffusion commutes with a "
            "projection of the channels. To fix this error, leave 'sketch_dim' out."
        )
    generator = derive_generator(seed, Purpose.SKETCH)
    projection = torch.randn(num_channels, sketch_dim, generator=generator) / sketch_dim**0.5
    return x @ projection.to(x)
