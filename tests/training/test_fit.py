import importlib
import math

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, Sequential
from training.training_cases import (
    Interruption,
    PlainStub,
    SmoothingStub,
    assert_equal_weights,
    interrupt_at,
    numbers,
    two_clusters,
)

from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion
from jsem_pyg.training import FitResult, Triplets, fit

QUICK = {"batch_size": 64, "lr": 0.01, "progress": False}


@pytest.fixture(autouse=True)
def one_thread():
    """On graphs this small, threads that wait for each other take all the time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


# ---------------------------------------------------------------- what a run does


@pytest.mark.parametrize("sampler", ["graph", "labels"])
def test_the_loss_goes_down(sampler):
    model = SmoothingStub()
    result = fit(model, two_clusters(), sampler=sampler, epochs=40, **QUICK)
    assert isinstance(result, FitResult)
    assert result.model is model
    assert not model.training
    assert [row.epoch for row in result.history] == list(range(1, 41))
    assert result.history[-1].val_loss < 0.9 * result.history[0].val_loss
    assert all(row.t is None and row.seconds > 0 for row in result.history)
    best = min(result.history, key=lambda row: row.val_loss)
    assert result.best_epoch == best.epoch
    assert not result.stopped_early
    table = result.to_pandas()
    assert list(table.columns) == ["loss", "val_loss", "t", "seconds"]
    assert table["loss"].tolist() == [row.loss for row in result.history]
    assert "epochs=40" in repr(result)


def test_only_edge_inputs_that_the_data_has_are_passed():
    data = two_clusters()
    bare = Data(x=data.x, edge_index=data.edge_index)
    fit(PlainStub(), bare, epochs=2, **QUICK)
    fit(GCNConv(6, 3), Data(edge_weight=data.edge_weight, **bare), epochs=2, **QUICK)
    with pytest.raises(TypeError, match="edge_weight"):
        fit(PlainStub(), data, epochs=1, **QUICK)


def test_the_mask_limits_the_labels():
    data, drawn = two_clusters(), []
    data.train_mask = torch.zeros(24, dtype=torch.bool)
    data.train_mask[[1, 2, 20, 21]] = True

    def witness(z, triplets):
        drawn.append(torch.cat(triplets))
        return z.square().mean()

    fit(SmoothingStub(), data, loss=witness, sampler="labels", epochs=1, **QUICK)
    assert torch.cat(drawn).unique().tolist() == [1, 2, 20, 21]


def test_losses_and_samplers_of_the_users_own():
    class Fixed:
        def sample(self, num_triplets, generator=None):
            return Triplets(*torch.tensor([[0], [1], [13]]).expand(3, num_triplets))

    result = fit(SmoothingStub(), two_clusters(), sampler=Fixed(), epochs=5, **QUICK)
    assert result.history[0].loss == result.history[0].val_loss  # one triplet is all there is

    drawn = []

    def hand_made(z, triplets):
        drawn.append(triplets.anchor)
        a, p, n = (z[each] / z[each].norm(dim=1, keepdim=True) for each in triplets)
        return ((a - p).norm(dim=1) - (a - n).norm(dim=1) + 0.5).clamp(min=0).mean()

    named, given = (
        fit(SmoothingStub(), two_clusters(), loss=loss, epochs=3, **QUICK)
        for loss in ("triplet", hand_made)
    )
    assert given.history[-1].loss == pytest.approx(named.history[-1].loss, rel=1e-3)
    trained, compared = drawn[0::2], drawn[1::2]  # new in each epoch; those that validate stay
    assert not torch.equal(trained[0], trained[1])
    assert not torch.equal(trained[0], compared[0])
    assert torch.equal(compared[0], compared[1])


def test_sampler_and_model_leave_the_global_generator_alone():
    torch.manual_seed(5)
    expected = torch.rand(4)
    torch.manual_seed(5)
    first = fit(SmoothingStub(dropout=0.5), two_clusters(), epochs=2, **QUICK)
    assert torch.equal(torch.rand(4), expected)
    torch.manual_seed(6)
    second = fit(SmoothingStub(dropout=0.5), two_clusters(), epochs=2, **QUICK)
    assert_equal_weights(first.model, second.model)
    other = fit(SmoothingStub(dropout=0.5), two_clusters(), epochs=2, seed=1, **QUICK)
    assert numbers(other) != numbers(first)


# ---------------------------------------------------------------- stopping


def scripted_loss():
    """A loss with these values in epochs 1, 2, ..., whatever the model does; two calls an epoch."""
    values = iter([9, 10, 8, 5, 6, 7, 8, 9, 10, 11])
    pair = []

    def loss(z, triplets):
        if not pair:
            pair.extend([next(values)] * 2)
        return pair.pop() + z[0].sum() * 1e-3

    return loss


@pytest.mark.parametrize(("patience", "epochs", "left"), [(3, 7, 3), (None, 8, 8)])
def test_patience_stops_and_gives_back_the_best_weights(patience, epochs, left):
    model, after = SmoothingStub(), [weights(SmoothingStub())]
    result = fit(
        model,
        two_clusters(),
        loss=scripted_loss(),
        epochs=8,
        patience=patience,
        callbacks=[lambda end: after.append(weights(end.model))],
        **QUICK,
    )
    assert result.stopped_early == (patience is not None)
    assert result.best_epoch == 4
    assert len(result.history) == epochs
    # Epoch 4 began with what epoch 3 left.
    assert torch.equal(model.weight, after[left]["weight"])
    assert not torch.equal(after[3]["weight"], after[7]["weight"])


def test_a_callback_that_returns_true_stops():
    ends = []
    result = fit(
        SmoothingStub(),
        two_clusters(),
        epochs=10,
        callbacks=[lambda end: end.row.epoch == 3, ends.append],
        **QUICK,
    )
    assert result.stopped_early
    assert [end.row.epoch for end in ends] == [1, 2, 3]  # the others are called all the same
    assert ends[-1].history == result.history
    assert ends[-1].row == result.history[-1]


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_a_loss_that_is_not_finite_is_an_error_and_costs_no_weights(where):
    after = []

    def loss(z, triplets):
        if len(after) < 2:
            return z.square().mean()
        if where == "loss":
            return z.mean() * math.nan
        return (z - z).square().sum().sqrt()  # zero, with the gradient 0 / 0

    model = SmoothingStub()
    with pytest.raises(RuntimeError, match=f"{where}.* finite in epoch 3"):
        fit(
            model,
            two_clusters(),
            loss=loss,
            epochs=5,
            callbacks=[lambda end: after.append(weights(end.model))],
            **QUICK,
        )
    assert len(after) == 2
    assert torch.equal(model.weight, after[-1]["weight"])


# ---------------------------------------------------------------- resuming


MODELS = {
    "plain": SmoothingStub,
    "dropout": lambda: SmoothingStub(dropout=0.3),
    "diffusion": lambda: AnisotropicDiffusion(t=[1.0, 4.0]),
    "batch_norm": lambda: Normed(),
    "lazy": lambda: AnisotropicChebConv(-1, 3),
}


class Normed(SmoothingStub):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(6)

    def forward(self, *args, **kwargs):
        return self.norm(super().forward(*args, **kwargs))


@pytest.mark.parametrize("make_model", MODELS.values(), ids=MODELS.keys())
def test_a_killed_and_resumed_run_ends_bit_for_bit_as_another(tmp_path, make_model):
    data, path = two_clusters(), tmp_path / "run.pt"
    kwargs = {"epochs": 8, "patience": 6, **QUICK}
    whole = fit(make_model(), data, **kwargs)
    kept = {"checkpoint": path, "checkpoint_every": 2, "resume": True}
    for epoch in (1, 3, 7):
        with pytest.raises(Interruption):
            fit(make_model(), data, callbacks=[interrupt_at(epoch)], **kept, **kwargs)
        assert path.exists() == (epoch > 1)
    epochs_run = []
    watch = [lambda end: epochs_run.append(end.row.epoch)]
    resumed = fit(make_model(), data, callbacks=watch, **kept, **kwargs)
    assert epochs_run[0] == 7
    assert numbers(resumed) == numbers(whole)
    assert resumed.best_epoch == whole.best_epoch
    assert_equal_weights(resumed.model, whole.model)


SEQUENTIAL = """
from torch import nn
from torch_geometric.nn import GCNConv, Sequential


def make():
    call = "x, edge_index -> x"
    layers = [(GCNConv(6, 4), call), nn.ReLU(), (GCNConv(4, 4), call)]
    return Sequential("x, edge_index", layers)
"""


def test_a_sequential_of_pyg_is_resumed(tmp_path, monkeypatch):
    """PyG writes a module for its `forward`, with a random number in the module's name."""
    (tmp_path / "networks_of_a_user.py").write_text(SEQUENTIAL)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(Sequential, "forward", Sequential.forward)  # PyG changes that of the class

    def make():
        torch.manual_seed(0)
        return importlib.import_module("networks_of_a_user").make()

    assert make().forward.__module__ != make().forward.__module__
    data = two_clusters()
    data = Data(x=data.x, edge_index=data.edge_index)
    whole = fit(make(), data, epochs=4, **QUICK)
    kept = {"checkpoint": tmp_path / "run.pt", "resume": True}
    fit(make(), data, epochs=2, **kept, **QUICK)
    resumed = fit(make(), data, epochs=4, **kept, **QUICK)
    assert numbers(resumed) == numbers(whole)
    assert_equal_weights(resumed.model, whole.model)


def test_more_epochs_may_be_asked_for_but_not_fewer(tmp_path):
    data, kept = two_clusters(), {"checkpoint": tmp_path / "run.pt", "resume": True}
    fit(SmoothingStub(), data, epochs=4, **kept, **QUICK)
    longer = fit(SmoothingStub(), data, epochs=7, **kept, **QUICK)
    assert_equal_weights(longer.model, fit(SmoothingStub(), data, epochs=7, **QUICK).model)
    with pytest.raises(ValueError, match="'epochs' to be at least 7"):
        fit(SmoothingStub(), data, epochs=5, **kept, **QUICK)
    done = fit(SmoothingStub(), data, epochs=7, **kept, **QUICK)  # nothing left to do
    assert_equal_weights(done.model, longer.model)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, "'seed' to be 0, .*got 1"),
        ({"loss": lambda z, triplets: z.mean()}, "'loss' to be TripletLoss"),
        ({"sketch_dim": 3}, "'sketch_dim' to be None"),
    ],
)
def test_a_run_that_disagrees_with_its_checkpoint_is_refused(tmp_path, change, message):
    data, path = two_clusters(), tmp_path / "run.pt"
    fit(AnisotropicDiffusion(), data, epochs=2, checkpoint=path, **QUICK)
    content = path.read_bytes()
    with pytest.raises(ValueError, match=message):
        fit(
            AnisotropicDiffusion(), data, epochs=4, checkpoint=path, resume=True, **(QUICK | change)
        )
    assert path.read_bytes() == content


def change_entry(name):
    def change(data):
        value = data[name].clone()
        value.view(-1)[-1] = 0.5
        data[name] = value
        return data

    return change


def swap_edges(data):
    """Two edges change places: the same graph, but not the same bits."""
    for name in ("edge_index", "edge_weight", "edge_attr"):
        data[name] = data[name].flip(-1 if name == "edge_index" else 0)
    return data


def add_mask(data):
    data.train_mask = torch.arange(data.num_nodes) % 2 == 0
    return data


@pytest.mark.parametrize(
    ("change", "sampler", "message"),
    [
        (
            lambda data: two_clusters(26),
            "graph",
            r"'data.x' to be float32 .24, 6.* got float32 .26",
        ),
        (swap_edges, "graph", "'data.edge_index'"),
        (change_entry("edge_attr"), "graph", "'data.edge_attr'"),
        (lambda data: Data(x=data.x, edge_index=data.edge_index), "graph", "'data.edge_weight'"),
        (add_mask, "labels", "'data.train_mask' to be left out"),
    ],
)
def test_other_data_is_refused(tmp_path, change, sampler, message):
    kept = {"checkpoint": tmp_path / "run.pt", "sampler": sampler, **QUICK}
    fit(SmoothingStub(), two_clusters(), epochs=2, **kept)
    model, data = SmoothingStub(), change(two_clusters())
    with pytest.raises(ValueError, match=message.replace("* got", r"*\(got")):
        fit(model, data, epochs=3, resume=True, **kept)
    assert torch.equal(model.weight, SmoothingStub().weight)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            lambda: AnisotropicDiffusion(t=[1.0, 4.0], normalization="rw"),
            "normalization' to be 'sym'",
        ),
        (lambda: AnisotropicDiffusion(t=[1.0, 4.0, 9.0]), "'model.time.initial.2' to be left out"),
        (
            lambda: AnisotropicDiffusion(t=[1.0, 4.0]).double(),
            "to be torch.float32 .*torch.float64",
        ),
        (lambda: SmoothingStub(), "'model' to be AnisotropicDiffusion"),
    ],
)
def test_another_model_is_refused_and_left_as_it_is(tmp_path, other, message):
    kept = {"checkpoint": tmp_path / "run.pt", **QUICK}
    fit(AnisotropicDiffusion(t=[1.0, 4.0]), two_clusters(), epochs=2, **kept)
    model = other()
    before, data = weights(model), two_clusters()
    with pytest.raises(ValueError, match=message):
        fit(model, data, epochs=3, resume=True, **kept)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    ("checkpoint", "message"),
    [
        (".", "'checkpoint' to be a file, or nothing yet .got a folder"),
        ("file/run.pt", "'checkpoint' to be in a folder that can be written to"),
    ],
)
def test_a_checkpoint_that_cannot_be_kept_is_refused_before_the_first_epoch(
    tmp_path, monkeypatch, checkpoint, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    ran = []
    with pytest.raises(OSError, match=message):
        fit(
            SmoothingStub(),
            two_clusters(),
            epochs=2,
            checkpoint=checkpoint,
            resume=True,
            callbacks=[ran.append],
            **QUICK,
        )
    assert not ran
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# ---------------------------------------------------------------- sketching


def test_a_sketch_trains_the_operator_for_all_channels():
    widths = []

    class Witness(AnisotropicDiffusion):
        def forward(self, x, *args, **kwargs):
            widths.append(x.size(-1))
            return super().forward(x, *args, **kwargs)

    data = two_clusters(num_channels=40)
    model = Witness()
    result = fit(model, data, sketch_dim=8, epochs=15, **(QUICK | {"lr": 0.1}))
    assert set(widths) == {8}
    assert result.history[-1].val_loss < result.history[0].val_loss
    z = model(data.x, data.edge_index, data.edge_weight, data.edge_attr)
    assert z.shape == data.x.shape


def test_a_sketch_keeps_distances_in_the_mean():
    seen = []

    class Witness(AnisotropicDiffusion):
        def forward(self, x, *args, **kwargs):
            seen.append(x)
            return super().forward(x, *args, **kwargs)

    data = two_clusters(num_nodes=200, num_channels=300)
    fit(Witness(), data, sketch_dim=64, epochs=1, **QUICK)
    ratio = torch.pdist(seen[0]).square().mean() / torch.pdist(data.x).square().mean()
    assert ratio.item() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    ("make_model", "sketch_dim", "message"),
    [
        (AnisotropicDiffusion, 6, "less than the 6 channels"),
        (AnisotropicDiffusion, 0, "'sketch_dim' to be a positive integer"),
        (SmoothingStub, 3, "treats all channels alike"),
        (lambda: AnisotropicChebConv(6, 6), 3, "treats all channels alike"),
        (lambda: AnisotropicDiffusion(t=torch.ones(1, 6)), 3, "treats all channels alike"),
    ],
)
def test_sketches_that_cannot_work_are_refused(make_model, sketch_dim, message):
    with pytest.raises(ValueError, match=message):
        fit(make_model(), two_clusters(), sketch_dim=sketch_dim, epochs=1, **QUICK)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "loss",
    [torch.nn.functional.mse_loss, torch.nn.MSELoss(), lambda z, y: (z - y).square().mean()],
)
def test_a_loss_of_two_tensors_is_told_of_signals(loss):
    data = two_clusters()
    with pytest.raises(TypeError, match="To compare with data.y, take loss='signal'"):
        fit(PlainStub(), Data(x=data.x, edge_index=data.edge_index), loss=loss, **QUICK)
