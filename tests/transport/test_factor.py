import pytest
import torch
from transport.problems import points

from jsem_pyg.transport import Factor


def test_squared_distances_and_kernels_by_definition():
    x = points(7, 3)
    sqdist, kernel = Factor(x), Factor(x, "kernel", torch.tensor([1.0, -1.0, 1.0]))
    apart = x[:, None] - x
    torch.testing.assert_close(sqdist.dense(), apart.square().sum(-1))
    expected = sum(s * x[:, a, None] * x[:, a] for a, s in enumerate((1, -1, 1)))
    torch.testing.assert_close(kernel.dense(), expected)
    for factor in (sqdist, kernel):
        nodes = torch.tensor([6, 0, 6])
        torch.testing.assert_close(factor.columns(nodes), factor.dense()[:, nodes])
        assert torch.equal(factor.columns(nodes), factor.columns(nodes.int()))
        assert factor.columns(nodes[:0]).shape == (7, 0)


def test_a_point_is_at_no_distance_from_itself():
    x = points(40, 3, dtype=torch.float32) + 1e3
    assert float(Factor(x).dense().diagonal().abs().max()) < 1e-6


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(dtype):
    x = points(5, 2).to(dtype)
    assert Factor(x).x.dtype == torch.float32
    assert torch.equal(Factor(x).x, x.float())


def test_a_gradient_flows_until_it_is_detached():
    x = points(5, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda each: Factor(each).columns(torch.tensor([1, 3])), x)
    assert torch.autograd.gradcheck(lambda each: Factor(each, "kernel").dense(), x)
    assert not Factor(x).detach().dense().requires_grad


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": torch.full((3, 2), torch.nan)}, "'x' to be finite"),
        ({"x": torch.ones(3)}, r"'x' to be \[N, r\]"),
        ({"x": torch.ones(0, 2)}, r"'x' to be \[N, r\]"),
        ({"kind": "distance"}, "'kind' to be one of"),
        ({"sign": torch.ones(3)}, r"'sign' to have shape \[2\]"),
        ({"sign": torch.tensor([1.0, 0.5])}, r"of 1 and -1, .*got \[1.0, 0.5\]"),
        ({"kind": "sqdist", "sign": torch.ones(2)}, "'sign' to be of 1 and -1, and only with"),
        ({"error": -0.5}, "'error' to lie in"),
        ({"edge_index": torch.tensor([[0], [3]])}, r"'edge_index' to hold node indices in \[0, 3"),
        ({"edge_index": torch.ones(2, 3)}, "'edge_index' to be of integer type"),
    ],
)
def test_what_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        Factor(**{"x": points(3, 2), "kind": "kernel"} | change)


def test_nodes_are_looked_at():
    with pytest.raises(ValueError, match=r"'nodes' to hold node indices in \[0, 3\)"):
        Factor(points(3, 2)).columns(torch.tensor([-1]))
    with pytest.raises(TypeError, match="'nodes' to be of integer type"):
        Factor(points(3, 2)).columns(torch.tensor([True, False, True]))
