import pytest
import torch

from jsem_pyg.nn import MLPConductance, SigmoidConductance

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
    assert 1e-4 * (1 - 1e-6) <= h.item() <= 1.0
    h.backward()
    assert all(p.grad.isfinite().all() for p in conductance.parameters())


def test_sigmoid_is_the_published_form():
    conductance = SigmoidConductance(1)
    with torch.no_grad():
        conductance.slope.fill_(2.0)
        conductance.threshold.fill_(0.5)
    k = torch.linspace(-3, 3, 7)
    expected = 1e-4 + (1 - 1e-4) * torch.sigmoid(2 * (k - 0.5))
    torch.testing.assert_close(conductance(k), expected)


@pytest.mark.parametrize("form", FORMS)
def test_a_column_far_from_zero_is_named_once(form, caplog):
    z = torch.linspace(-1, 1, 50)
    conductance = form(3)
    for _ in range(2):
        conductance(torch.stack([z, 1e-3 * z + 1, torch.ones(50)], 1))
    assert len(caplog.records) == 1
    assert "column 1 of 'edge_attr' has a mean of 1," in caplog.text
    form(3)(torch.stack([z - 1, 1e3 * z, 1e-3 * z], 1))
    assert len(caplog.records) == 1
