import pytest
import torch
from torch import nn
from torch_geometric.nn import GCNConv
from training.training_cases import (
    Interruption,
    SmoothingStub,
    assert_equal_weights,
    interrupt_at,
    numbers,
    two_clusters,
)

from jsem_pyg.nn import (
    AnisotropicChebConv,
    AnisotropicDiffusion,
    DiffusionClassifier,
)
from jsem_pyg.training import PruneEdges, fit

QUICK = {"batch_size": 64, "lr": 0.01, "progress": False}
OPEN, CLOSED = 0.9, 0.002


class Gate(nn.Module):
    """Edges with a negative feature are closed, the others open."""

    def forward(self, edge_attr):
        return torch.where(edge_attr[:, 0] < 0, CLOSED, OPEN)


class NegatedGate(Gate):
    def forward(self, edge_attr):
        return super().forward(-edge_attr)


def gated():
    return AnisotropicDiffusion(conductance=Gate(), t=2.0, tol=1e-8)


class Witness(nn.Module):
    """A diffusion that takes note of the edges of each epoch."""

    def __init__(self):
        super().__init__()
        self.layer = gated()
        self._seen = []

    def forward(self, x, edge_index, edge_weight, edge_attr):
        if self.training:
            self._seen.append(edge_index.size(1))
        return self.layer(x, edge_index, edge_weight, edge_attr)


class Chain(nn.Module):
    """Layers one after the other, of which some may never be called."""

    def __init__(self, *layers, unused=None):
        super().__init__()
        self.layers, self.unused = nn.ModuleList(layers), unused

    def forward(self, x, edge_index, edge_weight, edge_attr):
        for layer in self.layers:
            x = layer(x, edge_index, edge_weight, edge_attr)
        return x


def ring_and_chords():
    """Two clusters of which the chords and the bridge are closed: 50 of 98 columns."""
    data = two_clusters()
    step = (data.edge_index[0] - data.edge_index[1]).abs() % 12
    is_ring = ((step == 1) | (step == 11)) & (data.y[data.edge_index].diff(dim=0)[0] == 0)
    data.edge_attr = torch.where(is_ring, 1.0, -1.0).unsqueeze(-1)
    assert int(is_ring.sum()) == 48
    return data


def kept_by_a_look(model, data, pruning=None):
    """The mask of the edges that are left after one epoch; None: all."""
    pruning = PruneEdges(every=1) if pruning is None else pruning
    return fit(model, data, epochs=1, callbacks=[pruning], **QUICK).kept


# ---------------------------------------------------------------- what goes, and when


def test_closed_edges_are_left_out_of_the_epochs_to_come():
    data, model = ring_and_chords(), Witness()
    result = fit(model, data, epochs=12, callbacks=[PruneEdges(every=4)], **QUICK)
    assert model._seen == [98] * 4 + [48] * 8
    assert torch.equal(result.kept, data.edge_attr[:, 0] > 0)
    assert data.num_edges == 98
    pruned = result.pruned(data)
    assert pruned.num_edges == 48
    assert torch.equal(pruned.edge_weight, data.edge_weight[result.kept])
    assert pruned.num_nodes == 24
    with pytest.raises(ValueError, match="'data' to have 98 edges"):
        result.pruned(pruned)


def test_the_result_is_that_of_all_edges_within_the_bound():
    data = ring_and_chords()
    whole, part = (
        fit(gated(), data, epochs=12, callbacks=callbacks, **QUICK)
        for callbacks in ([], [PruneEdges(every=1)])
    )
    assert part.history[-1].val_loss == pytest.approx(whole.history[-1].val_loss, abs=0.01)
    model, graph = part.model, part.pruned(data)
    with torch.no_grad():
        z = model(data.x, data.edge_index, data.edge_weight, data.edge_attr)
        z_part = model(graph.x, graph.edge_index, graph.edge_weight, graph.edge_attr)
    weight = model.conductance(data.edge_attr) * data.edge_weight
    lost, degree = (
        torch.zeros(24).index_add(0, data.edge_index[0], each)
        for each in (torch.where(part.kept, 0.0, weight), weight)
    )
    bound = 2 * float((lost / degree).max()) * model.t.item()  # as docs/mathematics.md derives it
    moved = (z - z_part).norm(dim=0) / data.x.norm(dim=0)
    assert (moved > 0.01 * bound).all()
    assert (moved < bound).all()


@pytest.mark.parametrize(("second", "drops"), [(Gate(), True), (NegatedGate(), False)])
def test_an_edge_stays_that_is_open_in_one_layer(second, drops):
    model = Chain(gated(), AnisotropicDiffusion(conductance=second, normalization=None))
    assert (kept_by_a_look(model, ring_and_chords()) is not None) == drops


def test_a_look_leaves_no_trace():
    """Nothing is dropped here, so the run is that without a callback."""

    def model():
        torch.manual_seed(3)
        first = AnisotropicChebConv(6, 5, t=2.0)
        second = AnisotropicChebConv(5, 4, t=1.0, conductance="mlp", edge_dim=1)
        return Chain(first, Between(), second)

    data = ring_and_chords()
    plain, looked = (
        fit(model(), data, epochs=4, callbacks=callbacks, **QUICK)
        for callbacks in ([], [PruneEdges(1e-9, every=1)])
    )
    assert numbers(looked) == numbers(plain)
    assert_equal_weights(looked.model, plain.model)
    assert looked.kept is None
    assert looked.pruned(data).num_edges == 98


class Between(nn.Module):
    """What is random, and what has running means."""

    def __init__(self):
        super().__init__()
        self.norm, self.dropout = nn.BatchNorm1d(5), nn.Dropout(0.5)

    def forward(self, x, edge_index, edge_weight, edge_attr):
        return self.dropout(self.norm(x))


# ---------------------------------------------------------------- resuming


@pytest.mark.parametrize(("every", "where"), [(1, "before"), (3, "after")])
def test_a_resumed_run_drops_what_an_unbroken_one_drops(tmp_path, every, where):
    data, kwargs = ring_and_chords(), {"epochs": 8, **QUICK}
    whole = fit(gated(), data, callbacks=[PruneEdges(every=2)], **kwargs)
    assert whole.kept is not None
    kept = {"checkpoint": tmp_path / "run.st", "checkpoint_every": every, "resume": True}
    for epoch in (2, 3, 7):  # with the look that drops, after it, and later
        callbacks = [interrupt_at(epoch), PruneEdges(every=2)][:: 1 if where == "before" else -1]
        with pytest.raises(Interruption):
            fit(gated(), data, callbacks=callbacks, **kept, **kwargs)
    for _ in range(2):  # a run that is over says the same again
        resumed = fit(gated(), data, callbacks=[PruneEdges(every=2)], **kept, **kwargs)
        assert numbers(resumed) == numbers(whole)
        assert torch.equal(resumed.kept, whole.kept)
        assert_equal_weights(resumed.model, whole.model)


def test_a_checkpoint_wants_the_same_callback(tmp_path):
    kept = {"checkpoint": tmp_path / "run.st", "resume": True, "epochs": 4}

    def run(*callbacks):
        return fit(gated(), ring_and_chords(), callbacks=callbacks, **kept, **QUICK)

    run(PruneEdges(0.01))
    with pytest.raises(ValueError, match="'callbacks.0.threshold' to be 0.01"):
        run(PruneEdges(0.02))
    with pytest.raises(ValueError, match="'callbacks.0' to be PruneEdges"):
        run()
    run(print, PruneEdges(0.01))  # other callbacks make no difference


def test_a_callback_of_ones_own_drops_edges_in_several_steps(tmp_path):
    """The second time, edges are counted among those that were left."""
    data = ring_and_chords()
    kept = data.edge_attr[:, 0] > 0
    second = (data.edge_index[:, kept] > 0).all(0)  # without those of node 0

    def drop(end):
        if end.row.epoch in (1, 3):
            end.keep_edges(kept if end.row.epoch == 1 else second)

    model, path = Witness(), tmp_path / "run.st"
    result = fit(model, data, epochs=4, callbacks=[drop], checkpoint=path, **QUICK)
    assert model._seen == [98, 48, 48, 44]
    left = result.pruned(data)
    assert torch.equal(left.edge_index, data.edge_index[:, kept][:, second])
    model = Witness()
    fit(model, data, epochs=5, checkpoint=path, resume=True, **QUICK)
    assert model._seen == [44]
    for bad, error in ((kept[:5], ValueError), (kept.int(), TypeError), ([True], TypeError)):
        callback = lambda end, bad=bad: end.keep_edges(bad)  # noqa: E731
        with pytest.raises(error, match="'kept'"):
            fit(Witness(), data, epochs=4, callbacks=[callback], **QUICK)


# ---------------------------------------------------------------- what cannot be pruned


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SmoothingStub(), "'model' to be made of diffusions .*got none"),
        (AnisotropicDiffusion(edge_dim=0), "'model' to be made of diffusions .* the model itself"),
        (Chain(DiffusionClassifier(6, 2)), "'model' to be made of diffusions .*isotropic"),
        (Chain(AnisotropicDiffusion(), GCNConv(6, 6)), "made of diffusions .*got layers.1: GCNCon"),
    ],
)
def test_models_that_cannot_be_pruned_are_refused_before_the_first_epoch(model, message):
    ran = []
    with pytest.raises(ValueError, match=message):
        fit(model, two_clusters(), callbacks=[PruneEdges(every=50), ran.append], **QUICK)
    assert not ran
