import pytest
import tiny_graphs
import torch
import torch.nn.functional as F

from jsem_pyg.diffusion import diffusion_cosine, exact_heat_diffusion
from jsem_pyg.testing import random_graph

RING = tiny_graphs.ring(3)[0]


def signal(num_nodes, dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(num_nodes, 5, generator=generator, dtype=dtype)


@pytest.mark.parametrize("t", [0.0, 3.0])
@pytest.mark.parametrize("normalization", ["sym", "rw", None])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_the_cosine_of_the_exact_diffusion(t, normalization, dtype):
    edge_index, weight = random_graph(25, 0.2, num_isolated=2, dtype=dtype)
    x = signal(25, dtype)
    y = exact_heat_diffusion(x, edge_index, weight, t, normalization=normalization)
    expected = F.cosine_similarity(y[edge_index[0]], y[edge_index[1]])
    cosine = diffusion_cosine(x, edge_index, weight, t, normalization)
    assert cosine.dtype == dtype
    torch.testing.assert_close(cosine, expected, rtol=1e-5, atol=1e-5)


def test_symmetric_bitwise_in_any_order_and_for_repeated_edges():
    edge_index, weight = random_graph(25, 0.3)
    x = signal(25)
    cosine = diffusion_cosine(x, edge_index, weight)
    assert torch.equal(diffusion_cosine(x, edge_index.flip(0), weight), cosine)
    order = torch.randperm(weight.numel(), generator=torch.Generator().manual_seed(0))
    assert torch.equal(diffusion_cosine(x, edge_index[:, order], weight[order]), cosine[order])
    twice = diffusion_cosine(x, edge_index.repeat(1, 2), weight.repeat(2) / 2)
    torch.testing.assert_close(twice, cosine.repeat(2))


def test_gradients():
    edge_index, weight = random_graph(6, 0.6, num_isolated=1)
    x = signal(6).requires_grad_()
    t = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)

    def symmetric_cosine(x, t, weight):
        both = torch.zeros(6, 6, dtype=weight.dtype).index_put(tuple(edge_index), weight)
        both = (both + both.t())[tuple(edge_index)] / 2
        return diffusion_cosine(x, edge_index, both, t)

    torch.autograd.gradcheck(symmetric_cosine, (x, t, weight.requires_grad_()), atol=1e-4)


@pytest.mark.parametrize("graph", [tiny_graphs.empty(), tiny_graphs.single_node()])
def test_a_graph_without_edges(graph):
    edge_index, num_nodes = graph
    assert diffusion_cosine(torch.zeros(num_nodes, 3), edge_index).shape == (0,)


def test_an_isolated_node_may_have_no_direction():
    x = torch.tensor([[1.0], [1.0], [0.0]], requires_grad=True)
    cosine = diffusion_cosine(x, torch.tensor([[0, 1], [1, 0]]))
    assert cosine.tolist() == [1.0, 1.0]
    cosine.sum().backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize(
    ("x", "edge_index", "options", "error", "message"),
    [
        (torch.zeros(3, 2), RING, {}, ValueError, "got 3 of 3 rows at the ends of edges"),
        (torch.ones(3, 0), RING, {}, ValueError, "without zero vectors"),
        (torch.ones(3, 2), RING, {"t": torch.ones(2)}, ValueError, "'t' to be a number or a 0-d"),
        (torch.ones(3, 2), RING, {"edge_weight": torch.arange(1.0, 7.0)}, ValueError, "both dir"),
    ],
)
def test_refuses(x, edge_index, options, error, message):
    with pytest.raises(error, match=message):
        diffusion_cosine(x, edge_index, **options)
