"""A graph whose nodes moved is the same graph, and nothing of it is lost."""

from importlib.util import find_spec

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.transforms import Compose
from torch_geometric.typing import WITH_TORCH_SPARSE

import jsem_pyg.transforms  # noqa: F401  registers the functional name
from jsem_pyg.curvature import forman_curvature
from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.nn import AnisotropicDiffusion
from jsem_pyg.transforms import FaissKNNGraph, FormanCurvature, LocalityOrder

METHODS = [*(["metis"] if find_spec("pymetis") else []), "bandwidth"]


def make_data(size=60, seed=0):
    generator = torch.Generator().manual_seed(seed)
    data = Data(x=torch.randn(size, 5, generator=generator))
    data = Compose([FaissKNNGraph(k=4, metric="l2"), FormanCurvature()])(data)
    shuffled = torch.randperm(data.edge_index.size(1), generator=generator)
    data.edge_index = data.edge_index[:, shuffled]
    data.edge_weight, data.edge_attr = data.edge_weight[shuffled], data.edge_attr[shuffled]
    data.y = torch.arange(size)
    data.train_mask = torch.rand(size, generator=generator) < 0.5
    data.pos = torch.randn(size, 2, generator=generator)
    return data


@pytest.mark.parametrize("method", METHODS)
def test_every_row_moves_with_its_node_and_edge(method):
    data = make_data()
    data.name_of = [f"node {i}" for i in range(60)]
    data.index_of = np.arange(60)
    data.rows_of = np.arange(120).reshape(60, 2)
    data.edge_names = [f"{i}-{j}" for i, j in data.edge_index.T.tolist()]
    data.seen_as = torch.arange(60.0)[:, None].expand(60, 3)
    data.graph_label = torch.tensor([7.0])
    before = data.to_dict()
    out = LocalityOrder(method=method, num_parts=3)(data)
    order = out.node_order
    assert order.sort()[0].tolist() == list(range(60))
    assert not torch.equal(order, torch.arange(60))
    for key in ("x", "y", "train_mask", "pos", "seen_as"):
        assert torch.equal(out[key], data[key][order]), key
    assert out.name_of == [f"node {i}" for i in order.tolist()]
    assert out.index_of.tolist() == order.tolist()
    assert (out.rows_of == data.rows_of[order.numpy()]).all()
    assert torch.equal(out.graph_label, data.graph_label)
    # Each column still joins the same two nodes, and carries what it carried.
    ends = order[out.edge_index]
    assert out.edge_names == [f"{i}-{j}" for i, j in ends.T.tolist()]
    known = {
        (i, j): (float(w), float(a))
        for (i, j), w, a in zip(
            data.edge_index.T.tolist(), data.edge_weight, data.edge_attr[:, 0], strict=True
        )
    }
    carried = zip(ends.T.tolist(), out.edge_weight, out.edge_attr[:, 0], strict=True)
    assert all(known[i, j] == (float(w), float(a)) for (i, j), w, a in carried)
    assert len(known) == out.num_edges
    assert (out.edge_index[0] * 60 + out.edge_index[1]).diff().min() > 0  # sorted
    assert all(data[key] is value for key, value in before.items())  # the caller's stay


@pytest.mark.parametrize("method", METHODS)
def test_permuted_and_unpermuted_runs_agree(method):
    data = make_data()
    transform = LocalityOrder(method=method, num_parts=4)
    out = transform(data)
    for normalization in ("sym", "rw", None):
        wanted = heat_diffusion(
            data.x.double(), data.edge_index, data.edge_weight.double(),
            t=torch.tensor([0.5, 3.0]).double(), normalization=normalization,
        )  # fmt: skip
        found = heat_diffusion(
            out.x.double(), out.edge_index, out.edge_weight.double(),
            t=torch.tensor([0.5, 3.0]).double(), normalization=normalization,
        )  # fmt: skip
        torch.testing.assert_close(transform.restore(found), wanted, rtol=1e-12, atol=1e-12)
    layer = AnisotropicDiffusion(edge_dim=1).double()
    given = (each.edge_weight.double() for each in (data, out))
    wanted, found = (
        layer(each.x.double(), each.edge_index, weight, each.edge_attr.double())
        for each, weight in zip((data, out), given, strict=True)
    )
    torch.testing.assert_close(transform.restore(found), wanted, rtol=1e-12, atol=1e-12)
    wanted = forman_curvature(data.edge_index, data.edge_weight.double())
    found = forman_curvature(out.edge_index, out.edge_weight.double())
    size = data.num_nodes
    ends = out.node_order[out.edge_index]
    by_column = (data.edge_index[0] * size + data.edge_index[1]).argsort()
    by_place = (ends[0] * size + ends[1]).argsort()
    torch.testing.assert_close(found[by_place], wanted[by_column], rtol=1e-12, atol=1e-12)


def test_gradients_come_back_through_restore():
    data = make_data()
    transform = LocalityOrder(num_parts=4)
    out = transform(data)
    gradients = []
    for graph, back in ((data, lambda rows: rows), (out, transform.restore)):
        x = data.x.double().requires_grad_()
        inside = x if graph is data else x[out.node_order]
        found = back(heat_diffusion(inside, graph.edge_index, graph.edge_weight.double(), t=2.0))
        (found * torch.arange(60.0)[:, None]).sum().backward()
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize(
    ("edge_index", "size"),
    [
        (torch.empty(2, 0, dtype=torch.int64), 1),
        (torch.empty(2, 0, dtype=torch.int64), 5),
        (torch.tensor([[0, 1, 3, 4], [1, 0, 4, 3]]), 7),
        (torch.tensor([[0, 1], [1, 0]]), 2),  # as many edges as nodes
    ],
)
def test_awkward_graphs(edge_index, size):
    x = torch.randn(size, 2)
    weight = torch.ones(edge_index.size(1))
    data = Data(x=x, edge_index=edge_index, edge_weight=weight, num_nodes=size)
    for method in METHODS:
        transform = LocalityOrder(method=method, num_parts=3)
        out = transform(data)
        assert out.num_nodes == size
        assert torch.equal(transform.restore(out.x), x)
        assert out.edge_weight.numel() == edge_index.size(1)


def test_as_many_edges_as_nodes():
    """A ring, and nodes without edges: what belongs to an edge is told by its name."""
    ring = torch.stack([torch.arange(4), torch.arange(1, 5) % 4])
    edge_index = torch.cat([ring, ring.flip(0)], dim=1)
    data = Data(x=torch.arange(8.0)[:, None], edge_index=edge_index, edge_attr=torch.arange(8.0))
    data.edge_attr = (edge_index[0] * 8 + edge_index[1]).float()[:, None]
    out = LocalityOrder(method="bandwidth", num_parts=1)(data)
    ends = out.node_order[out.edge_index]
    assert torch.equal(out.edge_attr[:, 0], (ends[0] * 8 + ends[1]).float())
    assert torch.equal(out.x[:, 0].long(), out.node_order)


@pytest.mark.skipif(not WITH_TORCH_SPARSE, reason="needs torch-sparse")
def test_sparse_rows_and_pairs_move_too():
    from torch_sparse import SparseTensor

    data = make_data(20)
    dense = torch.arange(400.0).view(20, 20)
    data.words, data.my_adj = SparseTensor.from_dense(dense), SparseTensor.from_dense(dense)
    out = LocalityOrder(num_parts=2)(data)
    assert torch.equal(out.words.to_dense(), dense[out.node_order])
    assert torch.equal(out.my_adj.to_dense(), dense[out.node_order][:, out.node_order])


def test_restore_of_vectors_batches_and_scales():
    data = make_data()
    transform = LocalityOrder(num_parts=2)
    out = transform(data)
    assert torch.equal(transform.restore(out.y), data.y)
    stacked = torch.stack([out.x, 2 * out.x])
    assert torch.equal(transform.restore(stacked), torch.stack([data.x, 2 * data.x]))
    transform(make_data(40, seed=1))  # the last graph is another one
    assert torch.equal(transform.restore(out.x, out), data.x)
    with pytest.raises(ValueError, match="'out' to have 40 rows"):
        transform.restore(out.x)


def test_permuted_graphs_in_a_mini_batch():
    graphs = [make_data(30, seed) for seed in (0, 1)]
    transform = LocalityOrder(num_parts=2)
    batch = Batch.from_data_list([transform(each) for each in graphs])
    together = torch.cat([each.x for each in graphs])
    assert torch.equal(transform.restore(batch.x, batch), together)
    assert torch.equal(batch.to_data_list()[1].x, graphs[1].x[batch[1].node_order])


def test_the_functional_name():
    from torch_geometric.data.datapipes import DatasetAdapter

    data = make_data(20)
    permuted = next(iter(DatasetAdapter([data]).locality_order(num_parts=2)))
    assert "node_order" in permuted


def test_whatever_holds_node_numbers_is_renumbered():
    data = make_data(30)
    generator = torch.Generator().manual_seed(0)
    data.face = torch.randint(30, (3, 30), generator=generator)  # as many as nodes
    data.edge_label_index = torch.randint(30, (2, data.num_edges), generator=generator).int()
    data.edge_label = data.edge_label_index.sum(0)
    data.root_index = torch.tensor(7)
    out = LocalityOrder(num_parts=2)(data)
    former = out.node_order
    triangles = former[out.face].T.tolist()
    assert sorted(triangles) == sorted(data.face.T.tolist())
    assert out.edge_label_index.dtype == torch.int32
    assert torch.equal(former[out.edge_label_index.long()], data.edge_label_index.long())
    assert torch.equal(out.edge_label, data.edge_label)
    assert int(former[out.root_index]) == 7


def test_what_is_refused():
    data, transform = make_data(20), LocalityOrder()
    with pytest.raises(ValueError, match="'pair_index' to hold node indices in"):
        transform(Data(x=data.x, edge_index=data.edge_index, pair_index=torch.tensor([[20], [0]])))
    with pytest.raises(ValueError, match="graph that has been permuted"):
        transform.restore(data.x)
    with pytest.raises(ValueError, match="without a 'node_order'"):
        transform(transform(data))
    with pytest.raises(ValueError, match="have a 'node_order'"):
        transform.restore(data.x, data)
    with pytest.raises(ValueError, match="an 'edge_index' .got none"):
        transform(Data(x=data.x))
    with pytest.raises(ValueError, match="single graph"):
        transform(Batch.from_data_list([data, data]))
    with pytest.raises(ValueError, match="'adj_t' beside it"):
        transform(Data(edge_index=data.edge_index, adj_t=data.edge_index, num_nodes=20))
    for wrong in (torch.ones(3), torch.ones(1, data.num_edges)):
        odd = Data(x=data.x, edge_index=data.edge_index, edge_weight=wrong)
        with pytest.raises(ValueError, match="'edge_weight' to have a row for each"):
            transform(odd)
    with pytest.raises(TypeError, match="'data'"):
        transform(HeteroData())
    with pytest.raises(ValueError, match="'method' to be one of"):
        LocalityOrder("best")
    with pytest.raises(ValueError, match="'num_parts' to be a positive"):
        LocalityOrder(num_parts=0)


def test_lists_of_nodes_and_of_edges_are_told_apart_by_name():
    """In a graph of as many edges as nodes, as tensors are."""
    edge_index = torch.tensor([[0, 5, 1, 4, 2, 3], [5, 0, 4, 1, 3, 2]])
    data = Data(edge_index=edge_index, y=torch.arange(6), names=list("abcdef"), num_nodes=6)
    data.edge_names = [f"{i}-{j}" for i, j in edge_index.T.tolist()]
    out = LocalityOrder()(data)
    assert out.names == ["abcdef"[each] for each in out.y.tolist()]
    ends = out.y[out.edge_index].T.tolist()
    assert out.edge_names == [f"{i}-{j}" for i, j in ends]
