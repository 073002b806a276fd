import pytest
import torch
from layer_cases import call, make_data

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
