import pytest
import torch
from torch.nn import Linear, Sequential, Sigmoid

from jsem_pyg.nn import MLPConductance, SigmoidConductance
from jsem_pyg.nn.conductance import FLOOR
from jsem_pyg.nn.node_conductance import ModuleConductance, make_conductance

FORMS = [SigmoidConductance, MLPConductance]


@pytest.mark.parametrize("form", FORMS)
def test_starts_constant_and_learns_to_tell_edges_apart(form):
    torch.manual_seed(0)
    conductance, edge_attr = form(3), torch.randn(50, 3)
    h = conductance(edge_attr)
    assert h.shape == (50,)
    assert torch.equal(h, h[:1].expand(50))
    optimizer = torch.optim.Adam(conductance.parameters(), lr=0.1)
    for _ in range(30):
        optimizer.zero_grad()
        (conductance(edge_attr) - (edge_attr[:, 0] > 0).float()).square().mean().backward()
        optimizer.step()
    assert conductance(edge_attr)[edge_attr[:, 0] > 0.5].mean() > 0.7
    conductance.reset_parameters()
    h = conductance(edge_attr)
    assert h.max() == h.min()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("extreme", [-1e6, 1e6])
def test_stays_between_the_floor_and_one(form, extreme):
    conductance = form(1)
    with torch.no_grad():
        for parameter in conductance.parameters():
            parameter.fill_(10.0)
    h = conductance(torch.tensor([extreme]))
    assert FLOOR * (1 - 1e-6) <= h.item() <= 1.0
    h.backward()
    assert all(p.grad.isfinite().all() for p in conductance.parameters())


def test_sigmoid_is_the_published_form():
    conductance = SigmoidConductance(1, floor=0.1)
    with torch.no_grad():
        conductance.slope.fill_(2.0)
        conductance.threshold.fill_(0.5)
    k = torch.linspace(-3, 3, 7)
    torch.testing.assert_close(conductance(k), 0.1 + 0.9 * torch.sigmoid(2 * (k - 0.5)))


@pytest.mark.parametrize("form", FORMS)
def test_the_number_of_features_is_checked(form):
    with pytest.raises(ValueError, match=r"'edge_attr' to have shape \[E, 2\].*got \[5, 3\]"):
        form(2)(torch.randn(5, 3))


def test_a_module_is_taken_with_one_or_three_arguments():
    class Three(torch.nn.Module):
        def forward(self, edge_attr, x_i, x_j):
            return torch.sigmoid(-(x_i - x_j).square().sum(-1))

    assert not ModuleConductance(Sequential(Linear(1, 1), Sigmoid())).sees_nodes
    assert ModuleConductance(Three()).sees_nodes
    with pytest.raises(ValueError, match=r"takes \(edge_attr\) or \(edge_attr, x_i, x_j\).*got 2"):
        ModuleConductance(torch.nn.Bilinear(1, 1, 1))


def test_a_module_is_kept_above_the_floor_and_refused_out_of_range():
    class Constant(torch.nn.Module):
        def __init__(self, value):
            super().__init__()
            self.value = value

        def forward(self, edge_attr):
            return torch.full((len(edge_attr), 1), self.value)

    edge_attr = torch.zeros(4, 1)
    assert ModuleConductance(Constant(0.0))(edge_attr).tolist() == pytest.approx([FLOOR] * 4)
    with pytest.raises(ValueError, match=r"'conductance' to return values in \[0, 1\].*Sigmoid"):
        ModuleConductance(Constant(1.5))(edge_attr)
    with pytest.raises(ValueError, match="'conductance' to be finite"):
        ModuleConductance(Constant(float("nan")))(edge_attr)
    with pytest.raises(ValueError, match=r"shape \[E\] or \[E, 1\] .got \[4, 2\], with E = 4"):
        ModuleConductance(Linear(1, 2))(edge_attr)


def test_names():
    assert isinstance(make_conductance("sigmoid", 2, 1.0), SigmoidConductance)
    assert isinstance(make_conductance("mlp", 2, 1.0), MLPConductance)
    assert make_conductance("mlp", 0, 1.0) is None
    with pytest.raises(ValueError, match="'conductance' to be 'sigmoid', 'mlp' or a torch.nn.Mod"):
        make_conductance("relu", 1, 1.0)
