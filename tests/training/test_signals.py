"""Training on signals: planted conductances are found, nodes held out stop it, bad input."""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv
from torch_geometric.utils import to_undirected
from training.training_cases import SmoothingStub, assert_equal_weights, numbers, two_clusters

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.nn import AnisotropicDiffusion
from jsem_pyg.training import fit

QUICK = {"loss": "signal", "progress": False}


class Conductances(nn.Module):
    """Heat along edges, each with a weight that is learned by its logarithm."""

    def __init__(self, num_edges, t):
        super().__init__()
        self.log_weight = nn.Parameter(torch.zeros(num_edges))
        self.heat = AnisotropicDiffusion(edge_dim=0, t=t, learn_t=False, normalization=None)

    def forward(self, x, edge_index):
        return self.heat(x, edge_index, self.log_weight.exp())


class Plain(Conductances):
    """The weights themselves, which may leave the range."""

    def forward(self, x, edge_index):
        return self.heat(x, edge_index, self.log_weight)


def planted(num_nodes=300, num_signals=8, t=0.2, noise=0.01):
    """A random graph with random weights, a signal and what heat makes of it."""
    g = torch.Generator().manual_seed(0)
    edges = torch.randint(num_nodes, (2, 3 * num_nodes), generator=g)
    edge_index = to_undirected(edges[:, edges[0] != edges[1]])
    log_weight = 0.8 * torch.randn(edge_index.size(1), generator=g)
    edge_index, log_weight = to_undirected(edge_index, log_weight, reduce="mean")
    x = torch.randn(num_nodes, num_signals, generator=g)
    y = heat_diffusion(x, edge_index, log_weight.exp(), t, normalization=None)
    y = y + noise * y.std() * torch.randn(y.shape, generator=g)
    return Data(x=x, y=y, edge_index=edge_index), log_weight


def correlation(model, log_weight):
    return float(torch.corrcoef(torch.stack([model.log_weight.detach(), log_weight]))[0, 1])


def signals(seed=0):
    """A small graph whose signals are to be averages over neighbours."""
    data = two_clusters()
    data.y = SmoothingStub()(data.x, data.edge_index, data.edge_weight).detach() * 1.5
    return data


def test_planted_conductances_are_found_up_to_time():
    data, log_weight = planted()
    model, twice = (Conductances(data.num_edges, t) for t in (0.2, 0.4))
    result = fit(model, data, **QUICK)
    assert correlation(model, log_weight) > 0.97
    assert float((model.log_weight.detach() - log_weight).abs().median()) < 0.08
    assert result.history[-1].val_loss < 0.05 * result.history[0].val_loss
    # Twice the time halves the weights, and nothing else: only their product is in the data.
    fit(twice, data, **QUICK)
    shift = (model.log_weight - twice.log_weight).median()
    assert float(shift.detach()) == pytest.approx(math.log(2), abs=0.02)
    assert correlation(twice, log_weight) > 0.97


def test_nothing_is_learned_of_edges_that_no_heat_crosses():
    data, _ = planted(60)
    silent = data.edge_index + 60
    data.edge_index = torch.cat([data.edge_index, silent], 1)
    data.x = torch.cat([data.x, torch.ones_like(data.x)])
    data.y = torch.cat([data.y, torch.ones_like(data.y)])
    model = Conductances(data.num_edges, 0.2)
    fit(model, data, epochs=20, **QUICK)
    first, second = model.log_weight.detach().chunk(2)
    assert first.abs().min() > 0
    assert second.abs().max() < 0.02 * first.abs().max()


def test_entries_that_are_hidden_are_not_read():
    data, _ = planted()
    known = torch.rand(data.y.shape, generator=torch.Generator().manual_seed(1)) < 0.7
    hidden, truth = data.clone(), data.y
    hidden.y = truth.masked_fill(~known, float("nan"))
    model = Conductances(data.num_edges, 0.2)
    fit(model, hidden, mask=known, **QUICK)
    found = model(data.x, data.edge_index).detach()
    even = Conductances(data.num_edges, 0.2)(data.x, data.edge_index).detach()
    error = [float((each - truth)[~known].square().mean()) for each in (found, even)]
    assert error[0] < 0.1 * error[1]


def test_the_losses_are_errors_on_the_masks():
    data = signals()
    data.train_mask = torch.arange(24) < 12
    data.val_mask = torch.arange(24) >= 18
    model = SmoothingStub()
    error = (model(data.x, data.edge_index, data.edge_weight) - data.y).square().detach()
    row = fit(model, data, epochs=1, **QUICK).history[0]
    assert row.loss == pytest.approx(float(error[:12].mean()))
    assert row.val_loss == pytest.approx(float(error[18:].mean()))
    del data.train_mask  # then all but the held-out ones are known
    row = fit(SmoothingStub(), data, epochs=1, **QUICK).history[0]
    assert row.loss == pytest.approx(float(error[:18].mean()))
    row = fit(SmoothingStub(), data, epochs=1, mask=torch.arange(24) < 6, **QUICK).history[0]
    assert row.loss == pytest.approx(float(error[:6].mean()))


def test_training_stops_once_nodes_held_out_get_worse():
    data = signals()
    data.val_mask = torch.arange(24) >= 18
    data.y[18:] = data.y[18:] / 3  # what is learned of the others does not hold there
    result = fit(SmoothingStub(), data, patience=5, **QUICK)
    assert result.stopped_early
    assert len(result.history) == result.best_epoch + 5
    assert result.history[-1].val_loss > result.history[result.best_epoch - 1].val_loss


def test_the_best_of_several_starting_times_is_kept():
    data, _ = planted(t=6.0, noise=0.0)
    options = {"lr": 0.01, "epochs": 8, **QUICK}
    found = {}
    for t in (0.1, 5.0):
        model = AnisotropicDiffusion(edge_dim=0, t=t, normalization=None)
        found[t] = fit(model, data, **options)
    model = AnisotropicDiffusion(edge_dim=0, t=1.0, normalization=None)
    result = fit(model, data, times=[0.1, 5.0], **options)
    best = min(found.values(), key=lambda each: min(row.val_loss for row in each.history))
    for found_row, best_row in zip(numbers(result), numbers(best), strict=True):
        assert found_row == pytest.approx(best_row, rel=1e-3)
    assert_close(model.time(), best.model.time(), rtol=1e-4, atol=0)


def test_one_time_to_start_from_is_no_list():
    with pytest.raises(TypeError, match="'times' to be a list of diffusion times .got float"):
        fit(AnisotropicDiffusion(edge_dim=0), signals(), loss="signal", times=5.0)


def test_a_run_is_resumed(tmp_path):
    options = {"checkpoint": tmp_path / "run.safetensors", **QUICK}
    whole = fit(SmoothingStub(), signals(), epochs=6, **QUICK)
    fit(SmoothingStub(), signals(), epochs=3, **options)
    resumed = fit(SmoothingStub(), signals(), epochs=6, resume=True, **options)
    assert_equal_weights(resumed.model, whole.model)
    other = signals()
    other.y[0] += 1
    with pytest.raises(ValueError, match="y"):
        fit(SmoothingStub(), other, epochs=9, resume=True, **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": None}, "'data' to have 'y'.*interpolate"),
        ({"y": torch.zeros(24, dtype=torch.int64)}, "'data.y'"),
        ({"y": torch.full((24, 6), float("nan"))}, "'data.y"),
        ({"y": torch.zeros(24, 2)}, "'model' to return shape"),
        ({"y": two_clusters().x}, "'data.x' to differ from 'data.y'.*interpolate"),
        ({"mask": torch.zeros(24, dtype=torch.bool)}, "'mask'"),
        ({"val_mask": torch.ones(24, dtype=torch.bool)}, "validate on"),
        ({"times": [1.0]}, "'times' for a model with diffusion times"),
        ({"times": [1.0], "checkpoint": "run.safetensors"}, "'checkpoint' to be left out"),
        ({"sampler": "labels"}, "'sampler' to be left out"),
    ],
)
def test_bad_input_leads_to_what_works(change, message):
    data = signals()
    for name in ("y", "val_mask"):
        if name in change:
            data[name] = change.pop(name)
    with pytest.raises((TypeError, ValueError), match=message):
        fit(SmoothingStub(), data, **({"epochs": 1} | QUICK | change))


def test_a_weight_that_turns_negative_leads_to_its_logarithm():
    data, _ = planted(60)
    with pytest.raises(ValueError, match="train its logarithm"):
        fit(Plain(data.num_edges, 0.2), data, lr=0.5, **QUICK)


def test_a_signal_may_be_a_vector():
    data = two_clusters()
    data.y, data.x = data.x[:, 0] * 2, data.x
    del data.edge_attr
    result = fit(GCNConv(6, 1), data, epochs=20, **QUICK)
    assert result.history[-1].loss < result.history[0].loss
