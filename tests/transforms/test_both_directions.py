"""Directed edges become undirected ones that know their directions."""

import pytest
import torch
from torch_geometric.data import Batch, Data

from jsem_pyg.nn import AnisotropicDiffusion
from jsem_pyg.transforms import BothDirections


def directed(seed=0, num_nodes=12, num_edges=40):
    generator = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(num_nodes, (2, num_edges), generator=generator)
    weight = torch.rand(num_edges, generator=generator, dtype=torch.float64) + 0.1
    attr = torch.randn(num_edges, 2, generator=generator, dtype=torch.float64)
    return Data(edge_index=edge_index, edge_weight=weight, edge_attr=attr, num_nodes=num_nodes)


@pytest.mark.parametrize("seed", range(3))
def test_the_definition_on_dense_matrices(seed):
    data = directed(seed)
    out = BothDirections()(data)
    w, count = torch.zeros(2, 12, 12, dtype=torch.float64)
    attr = torch.zeros(12, 12, 2, dtype=torch.float64)
    for (i, j), value, a in zip(data.edge_index.T.tolist(), data.edge_weight, data.edge_attr,
                                strict=True):  # fmt: skip
        w[i, j] += value
        attr[i, j] += a
        count[i, j] += 1
    for matrix in (w, count):
        matrix.fill_diagonal_(0)
    row, col = out.edge_index
    assert set(zip(row.tolist(), col.tolist(), strict=True)) == {
        (i, j) for i, j in ((w + w.T) > 0).nonzero().tolist()
    }
    ways = (w > 0).double() + (w.T > 0)
    torch.testing.assert_close(out.edge_weight, ((w + w.T) / ways)[row, col])
    assert torch.equal(out.edge_type, (ways == 1).long()[row, col])
    mean = (attr + attr.transpose(0, 1)) / (count + count.T)[..., None]
    torch.testing.assert_close(out.edge_attr[:, :2], mean[row, col])
    torch.testing.assert_close(out.edge_attr[:, 2], ((w - w.T).abs() / (w + w.T))[row, col])
    layer = AnisotropicDiffusion(3, num_relations=2).double()
    edges = out.edge_index, out.edge_weight, out.edge_attr
    assert layer(torch.eye(12).double(), *edges, edge_type=out.edge_type).isfinite().all()


def test_without_weights_and_without_edges():
    data = BothDirections()(Data(edge_index=torch.tensor([[0, 1, 1], [1, 0, 2]]), num_nodes=4))
    assert data.edge_weight.tolist() == [1, 1, 1, 1]
    assert data.edge_attr.tolist() == [[0], [1], [0], [1]]
    empty = BothDirections()(Data(edge_index=torch.zeros(2, 0, dtype=torch.long), num_nodes=4))
    assert empty.edge_index.shape == (2, 0)
    assert empty.edge_attr.shape == (0, 1)


@pytest.mark.parametrize("keep_types", [True, False])
def test_types_are_kept_or_doubled(keep_types):
    """Each type is made undirected as if it were alone; what errors advise leads to a layer."""
    data = directed(1)
    data.edge_type = torch.randint(4, (40,))
    layer = AnisotropicDiffusion(3, num_relations=4 if keep_types else 8).double()
    x, is_edge = torch.eye(12).double(), data.edge_index[0] != data.edge_index[1]
    one_sided, kind = data.edge_index[:, is_edge], data.edge_type[is_edge]
    both, added = torch.cat([one_sided, one_sided.flip(0)], 1), kind.repeat(2) + 8
    looped = data.edge_index, data.edge_type
    for edges, types in (looped, (one_sided, kind), (both, added)):
        with pytest.raises(ValueError, match=r"BothDirections\(\)"):
            layer(x, edges, edge_type=types)
    out = BothDirections(keep_types)(data)
    for kind in range(4):
        here = data.edge_type == kind
        edges = {key: data[key][..., here] for key in ("edge_index", "edge_weight")}
        one = BothDirections()(Data(**edges, edge_attr=data.edge_attr[here], num_nodes=12))
        there = (out.edge_type if keep_types else out.edge_type // 2) == kind
        for key in ("edge_index", "edge_weight"):
            torch.testing.assert_close(out[key][..., there], one[key])
        torch.testing.assert_close(out.edge_attr[there], one.edge_attr)
        assert keep_types or torch.equal(out.edge_type[there] - 2 * kind, one.edge_type)
    edges = out.edge_index, out.edge_weight, out.edge_attr
    assert layer(x, *edges, edge_type=out.edge_type).isfinite().all()


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="'edge_index'"):
        BothDirections()(Data(num_nodes=3))
    with pytest.raises(TypeError, match="'edge_type' to be of integer type"):
        BothDirections()(Data(edge_index=torch.zeros(2, 0).long(), edge_type=torch.zeros(0)))
    with pytest.raises(ValueError, match="single graph"):
        BothDirections()(Batch.from_data_list([directed(), directed()]))
