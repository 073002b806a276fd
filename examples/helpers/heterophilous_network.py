"""The residual network of `heterophilous.py`, in which only what the edges carry differs."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from helpers.heterophilous_graphs import node_geometry
from study.endpoint_conductance import EndpointConductance
from torch import Tensor
from torch.nn import BatchNorm1d, LayerNorm, Linear, Module, ModuleList, Parameter
from torch_geometric.data import Data
from torch_geometric.nn import ChebConv, GCNConv
from torch_geometric.utils import to_torch_csr_tensor

from jsem_pyg.diffusion.filters import FilterBank, Heat, Learned
from jsem_pyg.graph import GraphStructure
from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion

VARIANTS = (
    "none",
    "gcn",
    "open",
    "ends",
    "open_heads",
    "ends_heads",
    "learned",
    "learned_ends",
    "learned_maps",
    "cheb",
)
TIMES = [0.5, 2.0]
DEGREE = 4  # of polynomials that are learned, and of ChebConv's
HEADS = 4
MANY_FEATURES = 100  # of which a node has a few


@dataclass(frozen=True)
class Settings:
    """How a network is made and trained; the same for all its variants."""

    blocks: int = 3
    hidden: int = 32
    input_dropout: float = 0.0
    dropout: float = 0.1
    lr: float = 0.01
    epochs: int = 100
    weight_decay: float = 0.0
    geometry: bool = False  # whether a node knows how it lies in the graph


class Bands(Module):
    """What a short time of heat takes from a node, what a longer one does, and what is left.

    They add up to the node's own features, and are far apart in size, so the block scales them.
    """

    def __init__(self, variant: str, channels: int) -> None:
        super().__init__()
        conductance = EndpointConductance(channels, 8, rate=3.0)
        self.diffusion = AnisotropicDiffusion(
            edge_dim=0,
            t=TIMES,
            conductance="sigmoid" if variant.startswith("open") else conductance,
            tol=1e-3,  # a network does not notice
        )
        self.width = (len(TIMES) + 1) * channels

    def forward(self, x: Tensor, graph: GraphStructure) -> Tensor:
        smooth = self.diffusion(x, graph)
        return torch.cat([x, smooth], dim=-1) - F.pad(smooth, (0, x.size(1)))


class Heads(Module):
    """Bands side by side, each of a share of the channels, and with conductances of its own."""

    def __init__(self, variant: str, channels: int) -> None:
        super().__init__()
        self.value = Linear(channels, channels)
        self.heads = ModuleList(Bands(variant, channels // HEADS) for _ in range(HEADS))
        self.width = sum(head.width for head in self.heads)

    def forward(self, x: Tensor, graph: GraphStructure) -> Tensor:
        shares = self.value(x).chunk(HEADS, dim=1)
        bands = [head(share, graph) for head, share in zip(self.heads, shares, strict=True)]
        return torch.cat(bands, dim=1)


class LearnedBands(Module):
    """A node's own features beside two learned polynomials of the Laplacian, heat at first."""

    def __init__(self, variant: str, channels: int) -> None:
        super().__init__()
        bank = FilterBank(*(Learned(DEGREE, start=Heat(t)) for t in TIMES))
        conductance: str | Module = "sigmoid"
        if variant == "learned_ends":
            conductance = EndpointConductance(channels, 8, rate=3.0)
        self.diffusion = AnisotropicDiffusion(edge_dim=0, conductance=conductance, filter=bank)
        self.width = (len(TIMES) + 1) * channels

    def forward(self, x: Tensor, graph: GraphStructure) -> Tensor:
        return torch.cat([x, self.diffusion(x, graph)], dim=-1)


class Beside(Module):
    """A node's own features, and those that a convolution makes of the nodes around it."""

    def __init__(self, variant: str, channels: int) -> None:
        super().__init__()
        self.width = 2 * channels
        if variant == "gcn":
            self.conv: Module = GCNConv(channels, channels, cached=True)
            return
        if variant == "cheb":
            self.conv = ChebConv(channels, channels, DEGREE + 1)
            return
        # As many filters as ChebConv has polynomials.
        bank = FilterBank(*(Learned(DEGREE, start=Heat(2.0**k)) for k in range(-2, 3)))
        self.conv = AnisotropicChebConv(channels, channels, edge_dim=0, filter=bank)

    def forward(self, x: Tensor, graph: Tensor | GraphStructure) -> Tensor:
        return torch.cat([x, self.conv(x, graph)], dim=-1)


_FORMS = {
    "open_heads": Heads,
    "ends_heads": Heads,
    "gcn": Beside,
    "cheb": Beside,
    "learned_maps": Beside,
    "learned": LearnedBands,
    "learned_ends": LearnedBands,
}


class Block(Module):
    """Normalise, look around, a perceptron, and a residual."""

    def __init__(self, around: Module | None, channels: int, dropout: float) -> None:
        super().__init__()
        self.norm = LayerNorm(channels)
        self.around = around
        width = channels if self.around is None else self.around.width
        self.scale = BatchNorm1d(width)
        self.mix = Linear(width, channels)
        self.out = Linear(channels, channels)
        self.dropout = dropout

    def forward(self, h: Tensor, graph: Tensor | GraphStructure) -> Tensor:
        x = self.norm(h)
        x = x if self.around is None else self.around(x, graph)
        out = self.out(F.gelu(self.mix(self.scale(x))))
        return h + F.dropout(out, self.dropout, self.training)


class BagOfWords(Module):
    """A linear map of rows that are almost empty, with dropout on their entries."""

    def __init__(self, x: Tensor, out_channels: int) -> None:
        super().__init__()
        row, self.word = x.nonzero(as_tuple=True)
        self.count = x[row, self.word]
        self.start = torch.searchsorted(row, torch.arange(len(x)))
        self.weight = Parameter(torch.empty(x.size(1), out_channels))
        self.bias = Parameter(torch.empty(out_channels))
        for each in (self.weight, self.bias):  # as `Linear` does
            torch.nn.init.uniform_(each, -(x.size(1) ** -0.5), x.size(1) ** -0.5)

    def forward(self, dropout: float) -> Tensor:
        count = F.dropout(self.count, dropout, self.training)
        rows = (self.word, self.weight, self.start)
        return self.bias + F.embedding_bag(*rows, mode="sum", per_sample_weights=count)


class Net(Module):
    """For the nodes of one graph; `around` makes what a block of so many channels looks around by.

    That has a `width`, and is called with features and `edges`, which are the graph if not given.
    """

    def __init__(
        self,
        around: Callable[[int], Module | None],
        data: Data,
        graph: GraphStructure,
        how: Settings,
        edges: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.how, self.x = how, data.x
        self.edges = graph if edges is None else edges
        is_sparse = data.num_features > MANY_FEATURES
        self.words = BagOfWords(data.x, how.hidden) if is_sparse else None
        self.lin = None if is_sparse else Linear(data.num_features, how.hidden)
        self.geometry = node_geometry(graph) if how.geometry else None
        self.place = Linear(self.geometry.size(1), how.hidden) if how.geometry else None
        blocks = (Block(around(how.hidden), how.hidden, how.dropout) for _ in range(how.blocks))
        self.blocks = ModuleList(blocks)
        self.norm = LayerNorm(how.hidden)
        self.out = Linear(how.hidden, int(data.y.max()) + 1)

    def forward(self) -> Tensor:
        dropout = self.how.input_dropout
        if self.words is None:
            h = self.lin(F.dropout(self.x, dropout, self.training))
        else:
            h = self.words(dropout)
        if self.place is not None:
            h = h + self.place(self.geometry)
        h = F.gelu(F.dropout(h, self.how.dropout, self.training))
        for block in self.blocks:
            h = block(h, self.edges)
        return self.out(self.norm(h))


def make_net(variant: str, data: Data, graph: GraphStructure, how: Settings) -> Net:
    """One of VARIANTS."""
    form = _FORMS.get(variant, Bands)
    edges = None
    if variant == "gcn":  # PyG's sparse path: the same numbers as messages, three times as fast
        edges = to_torch_csr_tensor(data.edge_index, size=(data.num_nodes,) * 2)
    elif variant == "cheb":
        edges = data.edge_index
    around = (lambda _: None) if variant == "none" else (lambda width: form(variant, width))
    return Net(around, data, graph, how, edges)
