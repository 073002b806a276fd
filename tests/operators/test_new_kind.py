"""What a new kind of operator costs: structure, operator, function and layer of directed graphs.

Two nodes exchange heat where the same nodes cite both (co-citation; Small 1973):
S = D^(-1/2) A diag(w / c) A^T D^(-1/2), where a node of weight w cites c others, the columns of A.
"""

from functools import partial

import pytest
import torch
from laws import assert_heat_laws

from jsem_pyg._checks import check_edge_index, check_vector, check_weight_range
from jsem_pyg._groups import group_starts
from jsem_pyg.diffusion.evolve import choose_dtype, evolve
from jsem_pyg.diffusion.options import DOMAINS, HeatOptions
from jsem_pyg.diffusion.times import check_signal, read_times, squeeze_scales
from jsem_pyg.graph.reader import GraphReader
from jsem_pyg.kernels.csr import CSR, Incidence
from jsem_pyg.kernels.table import FACTORED
from jsem_pyg.nn.diffusion_time import DiffusionTime, join_scales
from jsem_pyg.operators import HeatOperator
from jsem_pyg.operators.factored import FactoredOperator

DOMAINS["citations"] = (None,), FACTORED


class Citations:
    """Who cites whom, sorted by both."""

    def __init__(self, edge_index, num_nodes):
        check_edge_index(edge_index, num_nodes)
        self.num_nodes = num_nodes
        self.source, self.target = torch.unique(edge_index, dim=1)
        self.cited = torch.bincount(self.source, minlength=num_nodes)
        order = self.target.argsort(stable=True)
        ones = torch.ones(order.numel(), dtype=torch.int8)
        by_target = CSR(group_starts(self.target[order], num_nodes), self.source[order])
        by_source = CSR(group_starts(self.source, num_nodes), self.target)
        self.incidence = tuple(Incidence(each, ones, num_nodes) for each in (by_target, by_source))

    @property
    def device(self):
        return self.source.device

    def check_weight(self, weight):
        check_weight_range("weight", weight)


def citation_operator(structure, backend, weight, dtype):
    """As the hypergraph's, S' = 2 S - I, of half the rate: S is positive semi-definite."""
    weight = torch.ones(structure.num_nodes) if weight is None else weight
    weight = weight.to(torch.promote_types(weight.dtype, dtype))
    given = weight[structure.source]
    degree = weight.new_zeros(structure.num_nodes).index_add(0, structure.target, given)
    isolated = degree == 0
    root, share = torch.where(isolated, 1, degree).rsqrt(), weight / structure.cited.clamp(min=1)
    factors = root.to(dtype), share.to(dtype)
    matrix = FactoredOperator(structure.incidence, *factors, -1, 2, backend)
    return HeatOperator(matrix, 0.5, isolated=isolated, dtype=dtype)


def prepare(reader, options, t, x, edge_index, weight=None):
    """The times, and what diffuses by them."""
    structure = reader.recall((edge_index,), lambda: Citations(edge_index, x.size(-2)), x.size(-2))
    reader.check_signal(structure, x)
    if weight is not None:
        check_vector("weight", weight, structure.num_nodes, "node")  # before a reader looks at it
        reader.check(structure, "weight", weight, structure.check_weight)
    times = read_times(t, x.size(-1))
    dtype = choose_dtype(x.dtype, x.device, times.slope(0.5), options.tol)
    operator = citation_operator(structure, options.backend, weight, dtype)
    return times, partial(evolve, operator=operator, options=options)


def citation_diffusion(x, edge_index, weight=None, t=1.0, *, tol=1e-6, backend="auto"):
    check_signal(x)
    options = HeatOptions(None, tol, None, backend, domain="citations")
    times, diffuse = prepare(GraphReader(keeps=False), options, t, x, edge_index, weight)
    return squeeze_scales(diffuse(x, times=times), t)


class CitationDiffusion(torch.nn.Module):
    def __init__(self, t=1.0, learn_t=True):
        super().__init__()
        self.time, self.reader = DiffusionTime(t, learn_t), GraphReader()
        self.options = HeatOptions(normalization=None, domain="citations")

    def forward(self, x, edge_index, weight=None):
        check_signal(x)
        times, diffuse = prepare(self.reader, self.options, self.time(), x, edge_index, weight)
        return join_scales(diffuse(x, times=times))


EDGES = torch.tensor([[0, 0, 0, 1, 1, 4], [1, 2, 3, 2, 5, 3]])


def exact(x, weight, t):
    a = torch.zeros(7, 7).double()
    a[EDGES[1], EDGES[0]] = 1  # the cited by the citing
    share = weight.double() / a.sum(0).clamp(min=1)
    degree = a @ weight.double()
    root = torch.where(degree > 0, degree, 1).rsqrt()
    s = root[:, None] * (a @ (share[:, None] * a.T)) * root
    kept = (degree == 0).double().diag()
    return torch.matrix_exp(-t * (torch.eye(7).double() - s - kept)) @ x.double()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("backend", ["torch", "reference"])
def test_function_layer_and_gradients(dtype, backend):
    x, weight = torch.randn(7, 3, dtype=dtype), torch.rand(7, dtype=dtype) + 0.1
    out = citation_diffusion(x, EDGES, weight, 2.0, tol=1e-9, backend=backend)
    torch.testing.assert_close(out, exact(x, weight, 2.0).to(dtype))
    layer = CitationDiffusion(t=[2.0, 3.0])
    both = [exact(x, weight, t) for t in (2.0, 3.0)]
    torch.testing.assert_close(layer(x, EDGES, weight), torch.cat(both, 1).to(dtype))
    if dtype == torch.float64:
        leaves = [each.requires_grad_() for each in (x, weight, torch.tensor(0.7, dtype=dtype))]
        call = partial(citation_diffusion, tol=1e-12, backend=backend)
        assert torch.autograd.gradcheck(lambda x, w, t: call(x, EDGES, w, t), leaves)


def test_it_obeys_the_laws_and_is_prepared_once():
    x, made = torch.randn(7, 4).double(), []
    assert_heat_laws(lambda x, t: citation_diffusion(x, EDGES, t=t), x)
    layer = CitationDiffusion()
    for _ in range(2):
        made.append(layer.reader.recall((EDGES,), lambda: Citations(EDGES, 7), 7))
    assert made[0] is made[1]
    with pytest.raises(ValueError, match="'weight' to be non-negative"):
        layer(x, EDGES, -torch.ones(7))
    with pytest.raises(TypeError, match="'weight' to be a torch.Tensor"):
        layer(x, EDGES, "heavy")
