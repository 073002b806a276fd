import copy
from contextlib import suppress

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch
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
    EndpointConductance,
)
from jsem_pyg.partition import distribute
from jsem_pyg.training import EpochEnd, PruneEdges, fit
from jsem_pyg.training.history import EpochRow
from jsem_pyg.training.training_graph import prepare_graph

QUICK = {"batch_size": 64, "lr": 0.01, "progress": False}
OPEN, CLOSED = 0.9, 0.002


class Gate(nn.Module):
    """Edges with a negative feature are closed, the others open."""

    def forward(self, edge_attr):
        return torch.where(edge_attr[:, 0] < 0, CLOSED, OPEN)


class NodeGate(nn.Module):
    """Edges between different signs of the first channel are closed."""

    def forward(self, edge_attr, x_i, x_j):
        return torch.where(x_i[:, 0] * x_j[:, 0] < 0, CLOSED, OPEN)


class Witness(nn.Module):
    """A diffusion that takes note of the edges of each epoch."""

    def __init__(self, **kwargs):
        super().__init__()
        self.layer = AnisotropicDiffusion(conductance=Gate(), t=2.0, **kwargs)
        self._seen = []

    def forward(self, x, edge_index, edge_weight, edge_attr):
        if self.training:
            self._seen.append(edge_index.size(1))
        return self.layer(x, edge_index, edge_weight, edge_attr)


def ring_and_chords():
    """Two clusters of which the chords and the bridge are closed: 50 of 98 columns."""
    data = two_clusters()
    step = (data.edge_index[0] - data.edge_index[1]).abs() % 12
    is_ring = ((step == 1) | (step == 11)) & (data.y[data.edge_index].diff(dim=0)[0] == 0)
    data.edge_attr = torch.where(is_ring, 1.0, -1.0).unsqueeze(-1)
    assert int(is_ring.sum()) == 48
    return data


def two_layers(dropout=0.5):
    """Two convolutions with what is random and what has running means between them."""

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(3)
            self.first = AnisotropicChebConv(6, 5, t=2.0)
            self.norm = nn.BatchNorm1d(5)
            self.dropout = nn.Dropout(dropout)
            self.second = AnisotropicChebConv(5, 4, t=1.0, conductance="mlp", edge_dim=1)

        def forward(self, x, edge_index, edge_weight, edge_attr):
            z = self.dropout(self.norm(self.first(x, edge_index, edge_weight, edge_attr)))
            return self.second(z, edge_index, edge_weight, edge_attr)

    return Two()


def an_end(model, data, epoch=1, epochs=10_000):
    """The end of an epoch, and the list of what is then kept."""
    kept = []
    row = EpochRow(epoch, 1.0, 1.0, None, 0.1)
    given = prepare_graph(data)
    return EpochEnd(model, row, [row], epochs, given, kept.append), kept


# ---------------------------------------------------------------- what goes, and when


def test_closed_edges_are_left_out_of_the_epochs_to_come():
    data, model, pruning = ring_and_chords(), Witness(), PruneEdges(every=4)
    result = fit(model, data, epochs=12, callbacks=[pruning], **QUICK)
    assert model._seen == [98] * 4 + [48] * 8
    assert torch.equal(result.kept, data.edge_attr[:, 0] > 0)
    assert data.num_edges == 98
    pruned = result.pruned(data)
    assert pruned.num_edges == 48
    assert torch.equal(pruned.edge_weight, data.edge_weight[result.kept])
    assert pruned.num_nodes == 24
    [step] = pruning.steps
    assert step == (4, 98, 50)


def test_a_graph_that_processes_share_is_not_pruned():
    data = distribute(ring_and_chords()).data
    model = AnisotropicDiffusion(conductance=Gate(), t=2.0)
    with pytest.raises(TypeError, match="graph to be that of a single process.*DistributedGraph"):
        fit(model, data, epochs=3, callbacks=[PruneEdges(every=1)], **QUICK)


def test_the_result_is_that_of_all_edges_within_the_bound():
    data, results = ring_and_chords(), []
    for callbacks in ([], [PruneEdges(every=1)]):
        model = AnisotropicDiffusion(conductance=Gate(), t=2.0, tol=1e-8)
        results.append(fit(model, data, epochs=12, callbacks=callbacks, **QUICK))
    whole, part = results
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


def test_few_edges_wait():
    data, model = ring_and_chords(), AnisotropicDiffusion(conductance=Gate())
    data.edge_attr[:] = 1.0
    data.edge_attr[(data.edge_index == torch.tensor([[0], [1]])).all(0)] = -1.0
    data.edge_attr[(data.edge_index == torch.tensor([[1], [0]])).all(0)] = -1.0
    for copies, dropped in ((1, 1), (3, 0)):  # 2 columns of 98, of 294
        end, kept = an_end(model, Batch.from_data_list([data] + (copies - 1) * [opened(data)]))
        PruneEdges(every=1)(end)
        assert len(kept) == dropped


def opened(data):
    data = data.clone()
    data.edge_attr = torch.ones(data.num_edges, 1)
    return data


def test_an_edge_stays_that_is_open_in_one_layer():
    class Two(nn.Module):
        def __init__(self, second):
            super().__init__()
            self.first = AnisotropicDiffusion(conductance=Gate())
            self.second = AnisotropicDiffusion(conductance=second, normalization=None)

        def forward(self, x, edge_index, edge_weight, edge_attr):
            x = self.first(x, edge_index, edge_weight, edge_attr)
            return self.second(x, edge_index, edge_weight, edge_attr)

    data = ring_and_chords()
    for second, dropped in ((Gate(), 1), (Negated(), 0)):
        end, kept = an_end(Two(second), data)
        pruning = PruneEdges(every=1)
        pruning(end)
        assert len(kept) == dropped


class Negated(Gate):
    def forward(self, edge_attr):
        return super().forward(-edge_attr)


def test_a_conductance_that_sees_the_nodes():
    data = two_clusters()
    data.x[:, 0] = 2.0 * data.y - 1
    data.x[3, 0] = 1.0  # a stranger among its neighbours, where it keeps the best edge
    model = AnisotropicDiffusion(edge_dim=0, conductance=NodeGate())
    end, kept = an_end(model, data)
    PruneEdges(every=1)(end)
    source, target = data.edge_index
    between = data.x[source, 0] != data.x[target, 0]
    gone = {(int(i), int(j)) for i, j in data.edge_index[:, ~kept[0]].t()}
    assert (0, 12) in gone
    assert (12, 0) in gone
    # Node 3 conducts alike through four closed edges, each a quarter of what it has.
    assert not {i for i, _ in gone} & {3}
    assert int(between.sum()) == 2 + 8


def test_a_conductance_of_both_ends():
    data, model = two_clusters(), AnisotropicDiffusion(0, conductance=EndpointConductance(6))
    torch.nn.init.constant_(model.conductance.apart, -3.0)
    end, kept = an_end(model, data)
    PruneEdges(0.05, every=1, max_share=0.5)(end)
    h = model.conductance(data.x, data.edge_index)
    assert h[~kept[0]].max() < 0.05
    assert not kept[0].all()


def test_a_look_leaves_no_trace():
    """Nothing is dropped here, so the run is that without a callback."""
    data = ring_and_chords()
    plain = fit(two_layers(), data, epochs=6, **QUICK)
    state = torch.get_rng_state()
    looked = fit(two_layers(), data, epochs=6, callbacks=[PruneEdges(1e-9, every=1)], **QUICK)
    assert torch.equal(state, torch.get_rng_state())
    assert numbers(looked) == numbers(plain)
    assert_equal_weights(looked.model, plain.model)
    assert looked.kept is None
    assert looked.pruned(data).num_edges == 98


def test_steps_of_a_run_that_is_resumed_count_once(tmp_path):
    data, pruning = ring_and_chords(), PruneEdges(every=2)
    for epochs in (3, 5):
        kept = {"checkpoint": tmp_path / "run.st", "resume": True, "checkpoint_every": 1}

        def stop(end, epochs=epochs):
            if epochs == 3 and end.row.epoch == 2:
                raise KeyboardInterrupt

        with suppress(KeyboardInterrupt):
            fit(Witness(), data, epochs=epochs, callbacks=[pruning, stop], **kept, **QUICK)
    assert [each.epoch for each in pruning.steps] == [2]


# ---------------------------------------------------------------- resuming


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("where", ["before", "after"])
def test_a_resumed_run_drops_what_an_unbroken_one_drops(tmp_path, every, where):
    data, path = ring_and_chords(), tmp_path / "run.st"
    kwargs = {"epochs": 12, **QUICK}

    def model():
        return AnisotropicDiffusion(conductance=Gate(), t=2.0)

    pruning = PruneEdges(every=2)
    whole = fit(model(), data, callbacks=[pruning], **kwargs)
    assert whole.kept is not None
    kept = {"checkpoint": path, "checkpoint_every": every, "resume": True}
    for epoch in (2, 3, 7):  # with the look that drops, after it, and later
        other = PruneEdges(every=2)
        callbacks = [interrupt_at(epoch), other][:: 1 if where == "before" else -1]
        with pytest.raises(Interruption):
            fit(model(), data, callbacks=callbacks, **kept, **kwargs)
    last = PruneEdges(every=2)
    resumed = fit(model(), data, callbacks=[last], **kept, **kwargs)
    assert numbers(resumed) == numbers(whole)
    assert torch.equal(resumed.kept, whole.kept)
    assert_equal_weights(resumed.model, whole.model)
    # A run that is over says the same again.
    again = fit(model(), data, callbacks=[PruneEdges(every=2)], **kept, **kwargs)
    assert torch.equal(again.kept, whole.kept)


def test_a_run_that_is_resumed_for_more_epochs_drops_what_an_unbroken_one_drops(tmp_path):
    """Also where the first part ends with an epoch after which it looks."""
    data, kept = ring_and_chords(), {"checkpoint": tmp_path / "run.st", "resume": True}
    whole, _, resumed = (
        fit(
            AnisotropicDiffusion(conductance=Gate(), t=2.0),
            data,
            epochs=epochs,
            callbacks=[PruneEdges(every=3)],
            **options,
            **QUICK,
        )
        for epochs, options in ((8, {}), (3, kept), (8, kept))
    )
    assert numbers(resumed) == numbers(whole)
    assert torch.equal(resumed.kept, whole.kept)
    assert_equal_weights(resumed.model, whole.model)


def test_a_checkpoint_wants_the_same_callback(tmp_path):
    data, path = ring_and_chords(), tmp_path / "run.st"

    def run(*callbacks):
        model = AnisotropicDiffusion(conductance=Gate())
        kept = {"checkpoint": path, "resume": True}
        return fit(model, data, epochs=4, callbacks=callbacks, **kept, **QUICK)

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


def test_another_graph_is_not_pruned():
    data = ring_and_chords()
    result = fit(Witness(), data, epochs=12, callbacks=[PruneEdges(every=1)], **QUICK)
    with pytest.raises(ValueError, match="'data' to have 98 edges"):
        result.pruned(result.pruned(data))
    with pytest.raises(TypeError, match="'data' to be a torch_geometric.data.Data"):
        result.pruned(3)


# ---------------------------------------------------------------- what cannot be pruned


class Around(nn.Module):
    def __init__(self, **layers):
        super().__init__()
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, x, edge_index, edge_weight, edge_attr):
        return self.diffusion(x, edge_index, edge_weight, edge_attr)


class Dropping(Around):
    def forward(self, x, edge_index, edge_weight, edge_attr):
        return self.diffusion(x, edge_index[:, :0], edge_weight[:0], edge_attr[:0])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SmoothingStub(), "'model' to have an AnisotropicDiffusion"),
        (AnisotropicDiffusion(edge_dim=0), "'model' to be made of diffusions .* the model itself"),
        (DiffusionClassifier(6, 2), "'model' to be made of diffusions .*got isotropic"),
        (
            Around(diffusion=AnisotropicDiffusion(), conv=GCNConv(6, 6)),
            "'model' to be made of diffusions .*got conv: GCNConv",
        ),
        (
            Around(diffusion=AnisotropicDiffusion(), other=AnisotropicDiffusion()),
            "'model' to compute the conductance of edges in AnisotropicDiffusion",
        ),
        (Dropping(diffusion=AnisotropicDiffusion()), "with the 98 edges .*conductance of 0"),
    ],
)
def test_models_that_cannot_be_pruned(model, message):
    end, _ = an_end(model, ring_and_chords())
    with pytest.raises(ValueError, match=message):
        PruneEdges(every=1)(end)


def test_a_model_that_cannot_be_pruned_is_refused_before_the_first_epoch():
    data, ran, model = two_clusters(), [], SmoothingStub()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match="'model' to have an AnisotropicDiffusion"):
        fit(model, data, callbacks=[PruneEdges(every=50), ran.append], **QUICK)
    assert not ran
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)


def test_edges_without_features_are_all_open():
    data = two_clusters()
    del data.edge_attr
    end, _ = an_end(AnisotropicDiffusion(), data)
    with pytest.raises(ValueError, match="conductance of edges .*without 'edge_attr'"):
        PruneEdges(every=1)(end)


@pytest.mark.parametrize(
    ("change", "message"), [({"max_share": 2}, r"'max_share' to lie in \(0, 1\]")]
)
def test_bad_arguments(change, message):
    with pytest.raises(ValueError, match=message):
        PruneEdges(**change)
