"""Random problems, drawn by hypothesis choice by choice and by seed where there are many numbers.

Choices are hypothesis's, so that what fails shrinks to few and simple ones; the numbers behind them
come from a generator with a drawn seed.
"""

from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from torch_geometric import EdgeIndex
from torch_geometric.typing import WITH_TORCH_SPARSE, SparseTensor

from jsem_pyg.graph import GraphStructure

SEEDS = st.integers(0, 2**31 - 1)
NORMALIZATIONS = st.sampled_from(["sym", "rw", None])
FORMS = ["tensor", "int32", "transposed", "sliced", "strided", "EdgeIndex", "coo", "csr", "csc"]
FORMS += ["structure", *(["SparseTensor"] if WITH_TORCH_SPARSE else [])]
SPARSE = ("coo", "csr", "csc", "SparseTensor")
LAYOUTS = ["contiguous", "transposed", "sliced", "strided", "expanded"]


@dataclass
class Graph:
    """A graph in some form, and what it is."""

    num_nodes: int
    edge_index: torch.Tensor  # [2, E], contiguous int64
    weight: torch.Tensor | None  # [E]
    form: str
    given: Any  # what is handed over

    @property
    def exact_weight(self):
        ones = torch.ones(self.edge_index.size(1), dtype=torch.float64)
        return ones if self.weight is None else self.weight.detach().double()


def generator(seed):
    return torch.Generator().manual_seed(seed)


def lay_out(values, layout):
    """The same numbers, otherwise in memory."""
    if layout == "transposed" and values.dim() > 1:
        return values.mT.contiguous().mT
    if layout == "sliced":
        wide = torch.full((*values.shape[:-1], values.size(-1) + 3), 7, dtype=values.dtype)
        wide[..., 1:-2] = values
        return wide[..., 1:-2]
    if layout == "strided":
        wide = torch.full((*values.shape[:-1], 2 * values.size(-1)), 7, dtype=values.dtype)
        wide[..., ::2] = values
        return wide[..., ::2]
    if layout == "expanded" and values.dim() > 1 and values.numel():
        return values[..., :1].contiguous().expand(values.shape)  # other numbers: one column
    return values.contiguous()


@st.composite
def edge_lists(draw, most_nodes=14, repeats=True):
    """[2, E] both directions, and N: in parts, with isolated nodes, repeated or no edges."""
    num_nodes = draw(st.integers(1, most_nodes))
    g = generator(draw(SEEDS))
    density = draw(st.sampled_from([0.0, 0.15, 0.4, 1.0]))
    chosen = (torch.rand(num_nodes, num_nodes, generator=g) < density).triu(1)
    if draw(st.booleans()):  # the last nodes have no edge
        last = num_nodes - num_nodes // 3
        chosen[last:], chosen[:, last:] = False, False
    once = chosen.nonzero().T
    if repeats and draw(st.booleans()) and once.size(1):
        again = torch.randint(once.size(1), (once.size(1) // 2 + 1,), generator=g)
        once = torch.cat([once, once[:, again]], dim=1)
    both = torch.cat([once, once.flip(0)], dim=1)
    order = torch.arange(both.size(1))
    if draw(st.booleans()):
        order = torch.randperm(both.size(1), generator=g)
    return both[:, order].contiguous(), once.size(1), order, num_nodes, g


@st.composite
def graphs(
    draw, forms=FORMS, exponents=((0, 0), (-3, 3), (-28, -26), (20, 22), (-28, 28), (-150, 150))
):
    """A graph with weights."""
    edge_index, num_once, order, num_nodes, g = draw(edge_lists())
    weight, kind = None, draw(st.sampled_from(["none", "float32", "float64"]))
    if kind != "none":
        low, high = draw(st.sampled_from(exponents))
        if kind == "float32":
            low, high = max(low, -28), min(high, 28)
        exponent = low + (high - low) * torch.rand(num_once, generator=g, dtype=torch.float64)
        once = (0.1 + torch.rand(num_once, generator=g, dtype=torch.float64)) * 10**exponent
        if draw(st.booleans()):
            once[torch.rand(num_once, generator=g) < 0.2] = 0.0
        weight = torch.cat([once, once])[order].to(getattr(torch, kind))
    form = draw(st.sampled_from(forms))
    return hand_over(edge_index, weight, num_nodes, form)


def hand_over(edge_index, weight, num_nodes, form):
    """Bring a graph to a form; sparse ones add repeated edges up, and carry the weights."""
    size = (num_nodes, num_nodes)
    given = edge_index
    if form in SPARSE:
        key = edge_index[1] * num_nodes + edge_index[0]  # rows are targets
        unique, place = torch.unique(key, return_inverse=True)
        ones = torch.ones(
            edge_index.size(1), dtype=torch.float32 if weight is None else weight.dtype
        )
        summed = torch.zeros(unique.numel(), dtype=ones.dtype).index_add(
            0, place, ones if weight is None else weight
        )
        row, col = unique // num_nodes, unique % num_nodes
        edge_index, weight = torch.stack([col, row]), summed
        if form == "csc":
            order = (col * num_nodes + row).argsort()
            edge_index, weight = edge_index[:, order], weight[order]
        if form == "SparseTensor":
            given = SparseTensor(row=row, col=col, value=weight, sparse_sizes=size)
        else:
            coo = torch.sparse_coo_tensor(torch.stack([row, col]), summed, size).coalesce()
            given = {"coo": coo, "csr": coo.to_sparse_csr, "csc": coo.to_sparse_csc}[form]
            given = given if form == "coo" else given()
    elif form == "int32":
        given = edge_index.int()
    elif form in ("transposed", "sliced", "strided"):
        given = lay_out(edge_index, form)
    elif form == "EdgeIndex":
        given = EdgeIndex(edge_index, sparse_size=size)
    elif form == "structure":
        given = GraphStructure(edge_index, num_nodes)
    return Graph(num_nodes, edge_index, weight, form, given)


@st.composite
def signals(draw, num_nodes, dtypes=("float32", "float64"), batches=True):
    """[..., N, D] in some layout."""
    g = generator(draw(SEEDS))
    batch = draw(st.sampled_from([(), (2,), (2, 1)])) if batches else ()
    channels = draw(st.sampled_from([1, 3, 17]))
    scale = draw(st.sampled_from([1.0, 1.0, 1e-30, 1e14]))
    x = scale * torch.randn(*batch, num_nodes, channels, generator=g, dtype=torch.float64)
    x = x.to(getattr(torch, draw(st.sampled_from(dtypes))))
    return lay_out(x, draw(st.sampled_from(LAYOUTS)))


@st.composite
def times(draw, channels, longest, shapes=("0-d", "number", "S", "S1", "SD")):
    """A time of some shape, and the same as a float64 tensor."""

    def one():
        exponent = draw(st.sampled_from([None, -12, -6, -3, -1, 0, 0, 1, 1, 2, 3, 4]))
        value = 0.0 if exponent is None else draw(st.sampled_from([1.0, 2.7, 6.3])) * 10.0**exponent
        return min(value, longest)

    shape = draw(st.sampled_from(shapes))
    if shape == "number":
        value = one()
        return value, torch.tensor(value, dtype=torch.float64)
    if shape == "0-d":
        t = torch.tensor(one(), dtype=torch.float64)
    elif shape == "S":
        t = torch.tensor([one() for _ in range(draw(st.integers(1, 3)))], dtype=torch.float64)
    elif shape == "S1":
        t = torch.tensor([[one()], [one()]], dtype=torch.float64)
    else:
        t = torch.tensor([[one() for _ in range(channels)]], dtype=torch.float64)
    dtype = getattr(torch, draw(st.sampled_from(["float32", "float64"])))
    t = t.to(dtype)
    return t, t.double()
