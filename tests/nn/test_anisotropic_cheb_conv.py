import pytest
import torch
from layer_cases import CHANNELS, NUM_NODES, bend, call, make_data

from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion


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


@pytest.mark.parametrize("num_isolated", [0, 2])
@pytest.mark.parametrize("has_weight", [False, True])
def test_beside_loops_an_edge_counts_by_its_conductance_over_the_mean_around(
    num_isolated, has_weight
):
    data = make_data(num_isolated=num_isolated).apply(
        lambda v: v.double() if v.is_floating_point() else v
    )
    conv = bend(AnisotropicChebConv(CHANNELS, 3, t=1.5, tol=1e-12).double())
    given = data.edge_weight if has_weight else None
    out = conv(data.x, data.edge_index, given, data.edge_attr)
    weight = torch.zeros(NUM_NODES, NUM_NODES, dtype=torch.float64)
    weight[tuple(data.edge_index)] = torch.ones(data.num_edges).double() if given is None else given
    part = torch.zeros_like(weight)
    part[tuple(data.edge_index)] = conv.conductance(data.edge_attr).detach()
    part = part * weight
    mean = torch.where(part.sum(1) > 0, part.sum(1) / weight.sum(1), 1)
    conducted = part / (mean[:, None] * mean).sqrt() + torch.eye(NUM_NODES)
    root = conducted.sum(1).sqrt()
    heat = torch.matrix_exp(1.5 * (conducted / root[:, None] / root - torch.eye(NUM_NODES)))
    expected = heat @ data.x @ conv.lin.weight.T + conv.bias
    torch.testing.assert_close(out, expected, rtol=1e-8, atol=1e-8)
