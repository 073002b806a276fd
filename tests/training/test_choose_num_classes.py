import pytest
import torch
from torch_geometric.data import Data

from jsem_pyg.evaluation import modularity
from jsem_pyg.graph import knn_graph
from jsem_pyg.training.choose_num_classes import choose_num_classes, modularities_by_merging
from jsem_pyg.training.training_graph import prepare_graph


def blobs(num_classes, each=30):
    draw = torch.Generator().manual_seed(0)
    x = torch.eye(8)[torch.arange(num_classes).repeat_interleave(each)]
    x = x + 0.15 * torch.randn(len(x), 8, generator=draw)
    edge_index, edge_weight = knn_graph(x, 8)
    return prepare_graph(Data(x=x, edge_index=edge_index, edge_weight=edge_weight))


@pytest.mark.parametrize("num_classes", [2, 3, 5, 8])
def test_groups_that_lie_apart_are_counted(num_classes):
    chosen = choose_num_classes(blobs(num_classes), 12)
    assert chosen.num_classes == num_classes
    assert sorted(chosen.modularities) == list(range(2, 13))


def test_nearly_the_best_is_good_enough_and_less_is_not():
    chosen = choose_num_classes(blobs(5), 20, t=2.0)
    best = max(chosen.modularities.values())
    assert chosen.modularities[chosen.num_classes] >= 0.99 * best
    fewer = [q for count, q in chosen.modularities.items() if count < chosen.num_classes]
    assert max(fewer) < 0.99 * best


def test_merging_finds_the_best_pair_and_its_modularity():
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(5, (40,), generator=draw)
    edge_index, weight = knn_graph(torch.randn(40, 3, generator=draw), 4)
    source, target = labels[edge_index]
    share = torch.zeros(5, 5).index_put_((source, target), weight / weight.sum(), accumulate=True)
    found = modularities_by_merging(share)
    assert found[5] == pytest.approx(modularity(edge_index, weight, labels), abs=1e-6)
    merged = [
        modularity(edge_index, weight, torch.where(labels == one, other, labels))
        for one in range(5)
        for other in range(one)
    ]
    assert found[4] == pytest.approx(max(merged), abs=1e-6)
    assert list(found) == [5, 4, 3, 2]


def test_few_points_that_coincide_are_no_error():
    x = torch.eye(3)[torch.tensor([0, 0, 1, 1])]
    edge_index = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    chosen = choose_num_classes(prepare_graph(Data(x=x, edge_index=edge_index)), 30)
    assert chosen.num_classes == 2
