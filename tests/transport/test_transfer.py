"""Attributes that are written onto what corresponds."""

import math

import pytest
import torch
from torch_geometric.data import Data

from jsem_pyg.transport import Plan, transfer_attributes
from jsem_pyg.transport.sinkhorn.scores import DenseScores

# Three source nodes, two target nodes, and a third that gets nothing.
TABLE = torch.tensor([[0.2, 0.0, 0.0], [0.1, 0.3, 0.0], [0.15, 0.25, 0.0]])
PLAN = Plan(DenseScores(TABLE.log2()), 0.0)
WHOLE = Plan(DenseScores(TABLE[:, :2].log2()), 0.0)


def source():
    return Data(
        x=torch.tensor([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]),
        y=torch.tensor([7, 4, 4]),
        seen=torch.tensor([True, False, False]),
        num_nodes=3,
    )


def target(num_nodes=2):
    return Data(pos=torch.zeros(num_nodes, 2))


def test_means_are_weighted_by_mass():
    moved = transfer_attributes(source(), target(), WHOLE, ("x",))
    expected = TABLE[:, :2].T @ source().x / TABLE[:, :2].sum(0)[:, None]
    torch.testing.assert_close(moved.x, expected)
    assert torch.equal(moved.pos, target().pos)


def test_classes_and_masks_are_voted_on():
    moved = transfer_attributes(source(), target(), WHOLE, ("y", "seen"))
    assert moved.y.tolist() == [4, 4]  # 0.25 against 0.2, though the best match says 7
    assert moved.seen.tolist() == [False, False]
    assert moved.y.dtype == torch.int64
    assert moved.seen.dtype == torch.bool


def test_the_best_match_alone():
    moved = transfer_attributes(source(), target(), WHOLE, ("x", "y", "seen"), mode="argmax")
    assert moved.y.tolist() == [7, 4]
    assert moved.seen.tolist() == [True, False]
    assert torch.equal(moved.x, source().x[:2])


def test_votes_on_more_classes_than_are_counted_at_a_time():
    count = 600
    permutation = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    plan = Plan(DenseScores(torch.eye(count)[permutation].log2()), 0.0)
    known = Data(y=torch.arange(count) * 3, num_nodes=count)
    moved = transfer_attributes(known, target(count), plan)
    assert torch.equal(moved.y[permutation], known.y)


def test_columns_are_voted_on_by_themselves():
    known = Data(tags=torch.tensor([[1, 0], [0, 5], [0, 5]]), num_nodes=3)
    assert transfer_attributes(known, target(), WHOLE, ("tags",)).tags.tolist() == [[0, 5], [0, 5]]


def test_nodes_without_mass_are_filled():
    moved = transfer_attributes(source(), target(3), PLAN, ("x", "y"), fill=-1)
    assert moved.y.tolist() == [4, 4, -1]
    assert moved.x[2].tolist() == [-1, -1]
    with pytest.raises(
        ValueError, match="Expected mass to come to all nodes of .target. .got 1 without"
    ):
        transfer_attributes(source(), target(3), PLAN)
    with pytest.raises(ValueError, match="Expected a 'fill' that 'seen'"):
        transfer_attributes(source(), target(3), PLAN, ("seen",), fill=-1)
    with pytest.raises(ValueError, match="'fill'"):
        transfer_attributes(source(), target(3), PLAN, ("x",), fill=math.nan)


def test_nothing_is_changed_in_place_or_overwritten_unasked():
    known, other = source(), target()
    other.y = torch.tensor([1, 1])
    before = other.clone()
    with pytest.raises(ValueError, match="Expected 'target' to have no attribute 'y' yet"):
        transfer_attributes(known, other, WHOLE)
    named = transfer_attributes(known, other, WHOLE, prefix="matched_")
    assert named.matched_y.tolist() == [4, 4]
    assert named.y.tolist() == [1, 1]
    assert sorted(other.keys()) == sorted(before.keys())
    assert torch.equal(other.y, before.y)


def test_gradients_flow_into_means():
    known = source()
    known.x.requires_grad_()
    transfer_attributes(known, target(), WHOLE, ("x",)).x[0].sum().backward()
    expected = TABLE[:, 0] / TABLE[:, 0].sum()
    torch.testing.assert_close(known.x.grad, expected[:, None].expand(3, 2))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.int8])
def test_types_are_kept(dtype):
    known = Data(z=torch.tensor([1, 2, 2]).to(dtype), num_nodes=3)
    moved = transfer_attributes(known, target(), WHOLE, ("z",))
    assert moved.z.dtype == dtype
    assert moved.z.shape == (2,)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"plan": WHOLE.transposed()}, ValueError, "Expected 'plan' to go from the 3 nodes"),
        ({"attrs": "y"}, TypeError, "Expected 'attrs' to be names"),
        ({"attrs": ("z",)}, ValueError, "Expected 'source' to have the attribute 'z'"),
        ({"attrs": ("edge_index",)}, ValueError, "a row for each of its 3 nodes"),
        ({"attrs": ("name",)}, TypeError, "Expected 'name' to be"),
        ({"attrs": ("broken",)}, ValueError, "'broken'"),
        ({"mode": "median"}, ValueError, "Expected 'mode'"),
        ({"target": None}, TypeError, "Expected 'target' to be a Data"),
    ],
)
def test_bad_input_is_refused(changed, error, message):
    known = source()
    known.edge_index = torch.empty(2, 0, dtype=torch.int64)
    known.name = "graph"
    known.broken = torch.tensor([1.0, math.nan, 0.0])
    given = {"source": known, "target": target(), "plan": WHOLE, **changed}
    with pytest.raises(error, match=message):
        transfer_attributes(**given)
