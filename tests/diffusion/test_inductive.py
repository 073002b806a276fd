import pytest
import torch
from torch.testing import assert_close

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.diffusion.inductive import heat_field
from jsem_pyg.graph import GraphStructure

N, M, K, D = 12, 5, 3, 4
ALONE = N - 1  # has no edges


def random_graph(seed, dtype=torch.float64):
    """Edges with weights and conductances, a node without any, and points that arrive."""
    draw = torch.Generator().manual_seed(seed)
    pairs = torch.combinations(torch.arange(ALONE))
    pairs = pairs[torch.rand(len(pairs), generator=draw) < 0.4].T
    weight, conductance = torch.rand(2, pairs.size(1), generator=draw, dtype=dtype) + 0.01
    structure = GraphStructure(torch.cat([pairs, pairs.flip(0)], 1), N)
    x, x_new = torch.randn(N + M, D, generator=draw, dtype=dtype).split([N, M])
    neighbor = torch.stack([torch.randperm(N, generator=draw)[:K] for _ in range(M)])
    new_weight = torch.rand(M, K, generator=draw, dtype=dtype)
    new_weight[-1] = 0  # a point that is joined to nobody
    return structure, weight.repeat(2), conductance.repeat(2), x, x_new, neighbor, new_weight


def dense_heat(graph, conductance, t, normalization, point):
    """The heat of a point that arrives alone, by the exponential of all."""
    structure, weight, _, x, x_new, neighbor, new_weight = graph
    target, source = structure.edges
    w = torch.zeros(N + 1, N + 1, dtype=torch.float64)
    w[target, source] = (weight if conductance is None else weight * conductance).double()
    w[N, neighbor[point]] = new_weight[point].double()
    degree = w.sum(1)
    degree[degree == 0] = 1
    scale = degree[:, None] if normalization == "rw" else (degree[:, None] * degree).sqrt()
    s = w / scale
    s += torch.diag((w.sum(1) == 0).double())  # who is isolated keeps what it has
    everybody = torch.cat([x, x_new[point : point + 1]]).double()
    return (torch.matrix_exp(t * (s - torch.eye(N + 1))) @ everybody)[N]


@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("t", [0.0, 1e-3, 0.3, 5.0, 40.0, 1e3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_point_has_the_heat_of_the_graph_with_it_alone(normalization, t, dtype):
    for seed in range(3):
        graph = random_graph(seed, dtype)
        structure, weight, conductance, x, x_new, neighbor, new_weight = graph
        for h in (None, conductance):
            tol = 1e-6 if dtype == torch.float32 else 1e-12
            field = heat_field(
                x, structure, weight, t, conductance=h, normalization=normalization, tol=tol
            )
            actual = field.at(x_new, neighbor, new_weight)
            expected = [dense_heat(graph, h, t, normalization, each) for each in range(M)]
            assert actual.dtype == dtype
            assert_close(actual, torch.stack(expected).to(dtype), rtol=10 * tol, atol=10 * tol)


def test_the_heat_of_the_nodes_is_that_of_a_diffusion():
    structure, weight, conductance, x, *_ = random_graph(0)
    for normalization in ("sym", "rw"):
        field = heat_field(
            x, structure, weight, 2.0, conductance=conductance, normalization=normalization
        )
        expected = heat_diffusion(
            x, structure, weight * conductance, 2.0, normalization=normalization
        )
        assert_close(field.heat, expected)


def test_a_point_gets_the_same_bits_alone_and_among_others():
    structure, weight, _, x, x_new, neighbor, new_weight = random_graph(0, torch.float32)
    field = heat_field(x, structure, weight, 2.0)
    together = field.at(x_new, neighbor, new_weight)
    for each in range(M):
        part = slice(each, each + 1)
        assert torch.equal(field.at(x_new[part], neighbor[part], new_weight[part]), together[part])


def test_other_normalizations_are_refused():
    structure, weight, _, x, *_ = random_graph(0)
    with pytest.raises(ValueError, match="'normalization'"):
        heat_field(x, structure, weight, 1.0, normalization=None)
