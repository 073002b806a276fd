"""Random graphs on two and three processes against the same layers in one: values and gradients.

A few graphs in every run, as many as `JSEM_CASES` on demand, see `settings.py`.
"""

import copy

import numpy as np
import pytest
import torch
from distributed_cases import start
from processes import run_together
from torch_geometric.data import Data
from trust.settings import CASES

from jsem_pyg.diffusion.filters import Learned, PersonalizedPageRank
from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion, EndpointConductance
from jsem_pyg.partition import Partition, distribute, sum_gradients

CHANNELS = 3

pytestmark = [
    pytest.mark.ci,
    pytest.mark.skipif(
        not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
        reason="this build of torch has no gloo",
    ),
]


def draw_graph(r):
    """Isolated nodes, edges of weight zero, and edges that come several times; or None."""
    n = int(r.integers(3, 26))
    pair = np.argwhere(np.triu(r.random((n, n)) < r.choice([0.1, 0.3, 0.8]), 1))
    if len(pair) == 0:
        return None
    if r.random() < 0.4:
        pair = np.concatenate([pair, pair[: r.integers(1, 4)]])
    weight = r.random(len(pair)) ** r.choice([1, 5])
    weight[r.random(len(pair)) < r.choice([0, 0.2])] = 0
    order = r.permutation(2 * len(pair))
    return Data(
        x=torch.from_numpy(r.normal(size=(n, CHANNELS))),
        edge_index=torch.from_numpy(np.concatenate([pair, pair[:, ::-1]])[order].T.copy()),
        edge_weight=torch.from_numpy(np.tile(weight, 2)[order]),
        edge_attr=torch.from_numpy(np.tile(r.normal(size=(len(pair), 2)), (2, 1))[order]),
        node=torch.arange(n),
    )


def draw_layer(r):
    """With a conductance that sees edges or nodes, or a filter."""
    conductance = EndpointConductance(CHANNELS) if r.random() < 0.3 else "mlp"
    options = {"conductance": conductance, "normalization": str(r.choice(["sym", "rw"]))}
    kind = r.choice(["times", "page rank", "learned"])
    if kind != "learned" and r.random() < 0.3:
        options["normalization"] = None
    if kind == "times":
        options |= {"t": list(r.uniform(0.1, 5, 2)), "tol": 1e-9}
    else:
        options["filter"] = Learned(4) if kind == "learned" else PersonalizedPageRank(0.15)
    if r.random() < 0.5:
        return AnisotropicDiffusion(2, **options).double()
    return AnisotropicChebConv(CHANNELS, 2, 2, **options).double()


def results(layer, data, edge_index, weights):
    """The output [.., n, C], and the gradients of x and of the parameters."""
    x = data.x.clone().requires_grad_()
    out = layer(x, edge_index, data.edge_weight, data.edge_attr)
    (out * weights[..., data.node, : out.size(-1)]).sum().backward()
    return [out.detach(), x.grad, [each for each in layer.parameters() if each.requires_grad]]


def compare(rank, size, folder):
    """Raise an AssertionError at the first graph on which these processes differ from one."""
    start(rank, size, folder)
    for seed in range(CASES or 12):
        r = np.random.default_rng(1000 * size + seed)
        data = draw_graph(r)
        if data is None:
            continue
        cuts = np.sort(r.integers(0, data.num_nodes + 1, size - 1))
        order = torch.from_numpy(r.permutation(data.num_nodes))
        partition = Partition(order, torch.tensor([0, *cuts, data.num_nodes]))
        torch.manual_seed(seed)
        layer = draw_layer(r)
        weights = torch.from_numpy(r.normal(size=(data.num_nodes, 4 * CHANNELS)))
        whole = results(copy.deepcopy(layer), data, data.edge_index, weights)
        part = distribute(data, partition)
        found = results(layer, part.data, part, weights)
        sum_gradients(layer.parameters())
        where = {"rtol": 1e-6, "atol": 1e-7, "msg": lambda text: f"seed {seed}: {text}"}  # noqa: B023
        torch.testing.assert_close(found[0], whole[0][..., part.nodes, :], **where)
        torch.testing.assert_close(found[1], whole[1][part.nodes], **where)
        for got, expected in zip(found[2], whole[2], strict=True):
            torch.testing.assert_close(got.grad, expected.grad, **where)
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("size", [2, 3])
def test_processes_are_one(size, tmp_path):
    run_together(compare, (size, str(tmp_path)), size)
