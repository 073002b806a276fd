import copy
import math

import pytest
import torch
from torch_geometric.data import Data
from training.training_cases import two_clusters

from jsem_pyg.evaluation import partition_scores
from jsem_pyg.nn import AnisotropicDiffusion, DiffusionClassifier
from jsem_pyg.training import fit
from jsem_pyg.transforms import FaissKNNGraph


def blobs(num_classes=4, size=25, spread=0.5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(num_classes).repeat_interleave(size)
    noise = spread * torch.randn(len(y), 6, generator=generator)
    return FaissKNNGraph(k=6)(Data(x=3 * torch.eye(num_classes, 6)[y] + noise, y=y))


def classes(model, data):
    with torch.no_grad():
        return model(data.x, data.edge_index, data.edge_weight).argmax(-1)


def test_finds_clusters_that_are_apart():
    data = blobs()
    data.x = 1e3 * data.x + 1e4  # wherever they are, and in whatever unit
    result = fit(DiffusionClassifier(6, 4), data)
    assert not result.model.training
    assert partition_scores(classes(result.model, data), data.y).ari == 1
    assert [row.epoch for row in result.history] == [1, 2, 3, 4]
    lowest = min(result.history, key=lambda row: row.val_loss)
    assert result.best_epoch == lowest.epoch < 4
    assert all(math.isfinite(row.loss) and math.isfinite(row.val_loss) for row in result.history)
    assert result.model.t.item() == pytest.approx(result.history[-1].t, rel=1e-5)


def test_finds_out_how_many_clusters_there_are():
    data, model = blobs(), DiffusionClassifier(6)
    torch.manual_seed(3)
    state = torch.get_rng_state()
    fit(model, data)
    assert torch.equal(torch.get_rng_state(), state)
    assert model.num_classes == 4
    assert partition_scores(classes(model, data), data.y).ari == 1
    known = torch.where(torch.arange(100) % 5 == 0, data.y, -1)
    labelled = DiffusionClassifier(6)
    fit(labelled, data, labels=torch.where(known == 3, -1, known))
    assert labelled.num_classes == 3


@pytest.mark.parametrize("num_classes", [4, None])
def test_what_is_refused_leaves_the_model_as_it_was(num_classes):
    data, model = blobs(), DiffusionClassifier(6, num_classes)
    if num_classes:
        fit(model, data)
    before = copy.deepcopy(model)
    one_way = data.edge_subgraph(data.edge_index[0] < data.edge_index[1])
    for labels in (None, data.y):
        with pytest.raises(ValueError, match="undirected"):
            fit(model, one_way, labels=labels)
    assert model.num_classes == num_classes
    torch.testing.assert_close(model.state_dict(), before.state_dict(), rtol=0, atol=0)


def test_known_labels_name_the_classes():
    data = blobs()
    order = torch.tensor([2, 0, 3, 1])
    labels = torch.where(torch.arange(100) % 25 == 0, order[data.y], -1)
    result = fit(DiffusionClassifier(6, 4), data, labels=labels)
    assert torch.equal(classes(result.model, data), order[data.y])


def test_labels_in_the_data_are_not_looked_at():
    data, found = blobs(spread=1.5), []
    for y in (data.y, data.y.flip(0), None):
        unlabelled = Data(x=data.x, edge_index=data.edge_index, edge_weight=data.edge_weight, y=y)
        unlabelled.train_mask = torch.ones(data.num_nodes, dtype=torch.bool)
        model = DiffusionClassifier(6, 4)
        fit(model, unlabelled)
        found.append(classes(model, data))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_times_are_chosen_from_those_given():
    data = blobs()
    model = DiffusionClassifier(6, 4, t=2.5)
    assert fit(model, data, times=[0.5, 4.0]).history[0].t in (0.25, 0.5, 2.0, 4.0)
    labels = torch.where(torch.arange(100) % 25 == 0, data.y, -1)
    assert fit(model, data, times=[0.6, 6.0], labels=labels).history[0].t in (0.3, 0.6, 3.0, 6.0)


def test_a_graph_without_edges_and_points_that_coincide_are_no_error():
    none = torch.empty(2, 0, dtype=torch.int64)
    data = Data(x=torch.eye(6)[torch.arange(12) % 6], edge_index=none)
    model = fit(DiffusionClassifier(6, 3), data).model
    assert torch.isfinite(model(data.x, data.edge_index)).all()


def test_fit_trains_a_classifier_by_self_training_and_all_else_by_triplets():
    data = two_clusters()
    result = fit(DiffusionClassifier(6, 2), data, epochs=2, device="cpu", progress=False)
    assert len(result.history) == 2
    assert result.model.lin.weight.abs().max() > 1  # solved for, not stepped
    assert len(fit(AnisotropicDiffusion(), data, epochs=3).history) == 3
    del data.edge_attr  # which a classifier does not take
    assert len(fit(DiffusionClassifier(6, 2), data, loss="triplet", epochs=3).history) == 3


def test_centre_and_class_means_of_the_graph_stay_with_the_model():
    data, other = blobs(), blobs(seed=1)
    model = fit(DiffusionClassifier(6, 4), data).model
    torch.testing.assert_close(model.center.mean, data.x.mean(0))
    graph = data.edge_index, data.edge_weight
    with torch.no_grad():
        p = model(data.x, *graph)
        alone = model.classify(data.x[:7])
        torch.testing.assert_close(alone, model.classify(data.x)[:7])
        model.reset_means()  # then evaluation takes the means of the call, which are the same
        torch.testing.assert_close(model(data.x, *graph), p)
    fit(model, other)  # which forgets them
    torch.testing.assert_close(model.center.mean, other.x.mean(0))


@pytest.mark.parametrize(
    ("model", "change", "message"),
    [
        (DiffusionClassifier(6, 2), {"sampler": "labels"}, "'sampler' to be left out.* 'labels'"),
        (DiffusionClassifier(5, 2), {}, "'data.x' to have the 5 channels of 'model' .got 6"),
        (
            DiffusionClassifier(6, 3),
            {"labels": torch.arange(24) % 2},
            "a node of each class 0 to 2",
        ),
        (DiffusionClassifier(6), {"labels": torch.full((24,), -1)}, "'labels' to name a node of"),
    ],
)
def test_what_does_not_fit_is_refused(model, change, message):
    with pytest.raises(ValueError, match=message):
        fit(model, two_clusters(), **change)


def test_the_order_of_edges_does_not_matter():
    """Times whose clusters are the same are equal, whatever the rounding of their modularity."""
    g = torch.Generator().manual_seed(3)
    y = torch.arange(12) % 3
    x = torch.randn(12, 5, generator=g, dtype=torch.float64) + 3 * torch.eye(5).double()[y]
    data = FaissKNNGraph(k=4, metric="l2")(Data(x=x))
    times = []
    for _ in range(8):
        order = torch.randperm(data.num_edges, generator=g)
        other = Data(x, data.edge_index[:, order], edge_weight=data.edge_weight[order])
        result = fit(DiffusionClassifier(5, 3).double(), other, epochs=2)
        times.append([row.t for row in result.history])
    assert all(each == times[0] for each in times)


def test_autocast_leaves_training_in_full_precision():
    data, models = blobs(), []
    for enabled in (False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            models.append(fit(DiffusionClassifier(6, 4), data).model)
    torch.testing.assert_close(models[1].state_dict(), models[0].state_dict(), rtol=0, atol=0)
