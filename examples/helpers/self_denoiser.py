"""A denoiser that learns from noisy values alone: which edges to close, and how long heat flows.

It smooths the values of the nodes for a short and a longer time, through edges that conduct as a
small perceptron of their features says; the result is a sum of both and of the noisy values, with
learned weights. Brightness and colour of a picture have weights and times of their own.

Nothing clean is needed to learn. From noisy values y and new noise z of the same size one makes
two, y + a z and y - z / a, whose noises are independent ("Recorrupted-to-recorrupted", Pang et al.,
CVPR 2021): what denoises the first is taught by the second. `denoising.py` denoises pictures with
it, `denoising_signals.py` points with normals and gene expression.
"""

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from helpers.patch_graph import patch_graph
from torch import Tensor, nn

from jsem_pyg.graph import GraphStructure
from jsem_pyg.nn import AnisotropicDiffusion, MLPConductance

STRENGTH = 0.5  # a: how much noise is added to what learns
SIZE, TILES, STEPS = 96, 8, 160  # of the squares that are learned from, and how long
PIECE, MARGIN = 256, 24  # what is denoised at once, and what is looked at beyond it
TIMES = (0.7, 3.0)  # to start from
Times = tuple[float, float]


class Graph(NamedTuple):
    structure: GraphStructure
    attr: Tensor  # [E, F]


class Denoiser(nn.Module):
    """[N, C] -> [N, C]: a x + b exp(-s L) x + c exp(-t L) x, where edges learn to close.

    With channels=1, all of them share a, b, c, s and t; else each has its own.
    """

    def __init__(
        self, num_features: int, channels: int = 1, is_open: bool = False, times: Times = TIMES
    ) -> None:
        super().__init__()
        self.is_open = is_open
        start = torch.tensor(times)
        self.diffusion = AnisotropicDiffusion(
            edge_dim=0 if is_open else num_features,
            t=start if channels == 1 else start[:, None].repeat(1, channels),
            conductance="sigmoid" if is_open else MLPConductance(num_features, 16, rate=4.0),
            normalization="rw",  # keeps what is constant
            tol=1e-3,
        )
        self.mix = nn.Parameter(torch.tensor([[0.0], [0.5], [0.5]]).repeat(1, channels))

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        attr = None if self.is_open else graph.attr
        short, long = self.diffusion(x, graph.structure, edge_attr=attr).chunk(2, dim=1)
        return self.mix[0] * x + self.mix[1] * short + self.mix[2] * long


def train(
    examples: list[tuple[Tensor, Tensor, Graph]],
    channels: int = 1,
    is_open: bool = False,
    times: Times = TIMES,
) -> Denoiser:
    """Learn to make the second values [N, C] of the first, whose noise is independent."""
    model = Denoiser(examples[0][2].attr.size(1), channels, is_open, times)
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 0.02, total_steps=STEPS, pct_start=0.2
    )
    for first, second, graph in itertools.islice(itertools.cycle(examples), STEPS):
        optimizer.zero_grad()
        (model(first, graph) - second).square().mean().backward()
        optimizer.step()
        schedule.step()
    return model.eval()


def recorrupt(noisy: Tensor, noise: float) -> tuple[Tensor, Tensor, float]:
    """Two of one, with independent noise, and how much of it the first has."""
    more = noise * torch.randn_like(noisy)
    return noisy + STRENGTH * more, noisy - more / STRENGTH, noise * math.hypot(1, STRENGTH)


def picture_graph(picture: Tensor, noise: float) -> Graph:
    """The graph of similar patches of a picture [C, H, W]."""
    edge_index, attr = patch_graph(picture, noise)
    return Graph(GraphStructure(edge_index, picture[0].numel()), attr)


# Brightness, blue against red, green against both: orthonormal, so that noise stays as it is.
OPPONENT = torch.tensor([[1.0, 1.0, 1.0], [-1.0, 0.0, 1.0], [1.0, -2.0, 1.0]])
OPPONENT /= OPPONENT.norm(dim=1, keepdim=True)


def pixels(picture: Tensor) -> Tensor:
    """[C, H, W] -> [N, C], in opponent colours if there are three."""
    x = picture.flatten(1).t()
    return x @ OPPONENT.t() if len(picture) == 3 else x.contiguous()


def as_picture(x: Tensor, like: Tensor) -> Tensor:
    """The way back."""
    x = x @ OPPONENT if len(like) == 3 else x
    return x.t().reshape(like.shape)


def learn_picture(noisy: Tensor, noise: float, is_open: bool = False) -> Denoiser:
    """Learn from one noisy picture alone."""
    twins = [recorrupt(noisy, noise) for _ in range(TILES)]
    pairs = [square(first, second) for first, second, _ in twins]
    examples = [(pixels(a), pixels(b), picture_graph(a, twins[0][2])) for a, b in pairs]
    return train(examples, len(noisy), is_open)


def square(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """A random square of two pictures: to learn costs the same, however large they are."""
    top, left = (int(torch.randint(max(side - SIZE, 0) + 1, ())) for side in first.shape[1:])
    at = (slice(None), slice(top, top + SIZE), slice(left, left + SIZE))
    return first[at], second[at]


@torch.no_grad()
def denoise_picture(model: Denoiser, noisy: Tensor, noise: float) -> Tensor:
    """Piece by piece, so that memory does not grow with the picture [C, H, W]."""
    out = torch.empty_like(noisy)
    for inside in itertools.product(*map(pieces, noisy.shape[1:])):
        around = [slice(max(each.start - MARGIN, 0), each.stop + MARGIN) for each in inside]
        part = noisy[:, *around]
        x = model(pixels(part), picture_graph(part, noise))
        kept = [
            slice(at.start - by.start, at.stop - by.start)
            for at, by in zip(inside, around, strict=True)
        ]
        out[:, *inside] = as_picture(x, part)[:, *kept]
    return out


def pieces(length: int) -> Iterator[slice]:
    """Parts of a side, each of up to so many pixels."""
    return (slice(start, min(start + PIECE, length)) for start in range(0, length, PIECE))
