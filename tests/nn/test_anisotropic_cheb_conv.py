import pytest
import torch
from layer_cases import NUM_NODES, bend, call, make_data

from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion


@pytest.mark.parametrize("normalization", ["sym", "rw", None])
@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("with_attr", [True, False])
def test_self_loops_are_those_of_gcn(normalization, fuse, with_attr):
    data, conv = make_data(), AnisotropicChebConv(4, 3, normalization=normalization, fuse=fuse)
    bend(conv)
    h = conv.conductance(data.edge_attr) if with_attr else torch.ones(data.num_edges)
    adjacency = torch.zeros(NUM_NODES, NUM_NODES).double()
    adjacency[data.edge_index[0], data.edge_index[1]] = (data.edge_weight * h).detach().double()
    given = (
        torch.zeros(NUM_NODES).double().index_add(0, data.edge_index[0], data.edge_weight.double())
    )
    if normalization is not None:  # edges conduct relative to those around
        mean = torch.where(given > 0, adjacency.sum(1) / given, 1.0)
        adjacency = adjacency / mean.sqrt() / mean.sqrt()[:, None]
    adjacency += torch.eye(NUM_NODES)
    degree = adjacency.sum(1)
    laplacian = degree.diag() - adjacency
    if normalization == "sym":
        laplacian = laplacian / degree.sqrt() / degree.sqrt()[:, None]
    elif normalization == "rw":
        laplacian = laplacian / degree[:, None]
    heat = torch.matrix_exp(-2.0 * laplacian) @ data.x.double()
    attr = data.edge_attr if with_attr else None
    actual = conv(data.x, data.edge_index, data.edge_weight, attr)
    expected = conv.lin(heat.float()) + conv.bias
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


def test_rate_is_how_fast_a_built_in_conductance_learns():
    data = make_data()
    for form in ("sigmoid", "mlp"):
        moved = []
        for rate in (1.0, 4.0):
            torch.manual_seed(0)
            conv = AnisotropicChebConv(4, 3, conductance=form, rate=rate)
            optimizer = torch.optim.Adam(conv.parameters(), lr=0.01)
            call(conv, data).square().sum().backward()
            optimizer.step()
            moved.append((conv.conductance(data.edge_attr) - 0.5).abs().max())
        torch.testing.assert_close(moved[1], 4 * moved[0], rtol=0.05, atol=1e-4)
    for layer in (AnisotropicChebConv(4, 3), AnisotropicDiffusion()):
        assert layer.conductance.rate == 1
    with pytest.raises(ValueError, match="'rate' to be positive"):
        AnisotropicDiffusion(rate=0.0)
