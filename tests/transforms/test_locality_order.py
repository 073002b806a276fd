"""A graph whose nodes moved is the same graph, and nothing of it is lost."""

from importlib.util import find_spec

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import Compose

import jsem_pyg.transforms  # noqa: F401  registers the functional name
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
    assert torch.equal(out.graph_label, data.graph_label)
    # Each column still joins the same two nodes, and carries what it carried.
    ends = order[out.edge_index]
    assert out.edge_names == [f"{i}-{j}" for i, j in ends.T.tolist()]
    weight, attr = torch.zeros(2, 60, 60)
    weight[tuple(data.edge_index)] = data.edge_weight
    attr[tuple(data.edge_index)] = data.edge_attr[:, 0]
    assert torch.equal(weight[tuple(ends)], out.edge_weight)
    assert torch.equal(attr[tuple(ends)], out.edge_attr[:, 0])
    assert out.num_edges == data.num_edges
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


def test_restore_of_vectors_batches_and_scales():
    data = make_data()
    transform = LocalityOrder(num_parts=2)
    out = transform(data)
    assert torch.equal(transform.restore(out.y), data.y)
    stacked = torch.stack([out.x, 2 * out.x])
    assert torch.equal(transform.restore(stacked), torch.stack([data.x, 2 * data.x]))
    leaf = torch.ones(60, 1, requires_grad=True)
    (transform.restore(leaf)[:, 0] * torch.arange(60)).sum().backward()
    assert torch.equal(leaf.grad[:, 0], out.node_order.float())
    transform(make_data())  # the same order again
    assert torch.equal(transform.restore(out.x), data.x)
    other = make_data(60, seed=1)  # of the same size
    permuted = transform(other)
    with pytest.raises(ValueError, match=r"'data' beside 'out', as the transform has given 2"):
        transform.restore(out.x)
    assert torch.equal(transform.restore(out.x, out), data.x)
    assert torch.equal(transform.restore(permuted.x, permuted), other.x)
    with pytest.raises(ValueError, match="'out' to have 60 rows"):
        transform.restore(out.x[:40], out)


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
    known = torch.cat([former[out.edge_label_index.long()], out.edge_label[None]]).T.tolist()
    given = torch.cat([data.edge_label_index, data.edge_label[None]]).T.tolist()
    assert sorted(known) == sorted(given)
    assert int(former[out.root_index]) == 7


def test_what_is_refused():
    data, transform = make_data(20), LocalityOrder()
    with pytest.raises(ValueError, match="'pair_index' to hold node indices in"):
        transform(Data(x=data.x, edge_index=data.edge_index, pair_index=torch.tensor([[20], [0]])))
    with pytest.raises(ValueError, match="graph that has been permuted"):
        transform.restore(data.x)
    with pytest.raises(ValueError, match="got 'node_order'"):
        transform(transform(data))
    with pytest.raises(ValueError, match="single graph"):
        transform(Batch.from_data_list([data, data]))
    with pytest.raises(ValueError, match="got 'words'"):
        transform(Data(x=data.x, edge_index=data.edge_index, words=torch.eye(20).to_sparse()))
