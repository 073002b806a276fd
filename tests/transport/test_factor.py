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


def test_what_it_says_of_itself():
    factor = Factor(points(5, 2), "kernel", torch.tensor([1.0, -1.0]))
    assert (factor.num_points, factor.rank) == (5, 2)
    assert repr(factor) == "Factor(indefinite kernel, num_points=5, rank=2)"
    assert torch.equal(factor.signs, torch.tensor([1.0, -1.0], dtype=torch.float64))
    assert torch.equal(Factor(points(5, 2)).signs, torch.ones(2, dtype=torch.float64))


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
        ({"sign": torch.tensor([1.0, 0.5])}, r"of 1 and -1 \(got 0.5\)"),
        ({"kind": "sqdist", "sign": torch.ones(2)}, "'sign' only with kind='kernel'"),
        ({"error": -0.5}, "'error' to lie in"),
        (
            {"edge_index": torch.tensor([[0], [3]])},
            r"'edge_index' to hold node indices in \[0, 3\)",
        ),
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


@pytest.mark.parametrize("kind", ["sqdist", "kernel"])
@pytest.mark.parametrize("unit", [1e20, 1e-30])
def test_costs_out_of_the_range_of_their_type_are_refused(kind, unit):
    """They would be infinite, or all zero."""
    x = points(4, 2) * unit
    narrow = Factor(x.float(), kind)
    for make in (narrow.dense, lambda: narrow.columns(torch.tensor([1]))):
        with pytest.raises(ValueError, match=r"whose squares torch.float32 can hold \(got a larg"):
            make()
    assert bool((Factor(x, kind).dense().abs().sum(1) > 0).all())
    assert not Factor(0 * x.float(), kind).dense().any()


def test_squares_of_sums_stay_in_range():
    """Squared distances are up to four times as large as squared coordinates, on every axis."""
    x = torch.tensor([[1.0, 1.0], [-1.0, -1.0]])
    largest = (torch.finfo(torch.float32).max / 8) ** 0.5
    assert Factor(x * 0.999 * largest, "sqdist").dense().isfinite().all()
    with pytest.raises(ValueError, match="whose squares torch.float32 can hold"):
        Factor(x * 1.001 * largest, "sqdist").dense()


def test_autocast_does_not_lower_the_precision():
    factor = Factor(points(6, 3, dtype=torch.float32), "kernel")
    expected = factor.dense()
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(factor.dense(), expected)


def test_coordinates_whose_squares_overflow_in_sums_only_are_refused():
    large = torch.finfo(torch.float64).max ** 0.5 / 4
    with pytest.raises(ValueError, match="coordinates"):
        Factor(torch.full((3, 8), large, dtype=torch.float64) * torch.tensor([1.0, -1, 1])[:, None]
               ).dense()  # fmt: skip


@pytest.mark.parametrize("kind", ["kernel", "sqdist"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16])
def test_nodes_of_any_integer_type_are_nodes(kind, dtype):
    """To torch, an index of type uint8 is a mask, where it has as many entries."""
    factor, nodes = Factor(points(4, 2), kind), torch.tensor([1, 0, 3, 3])
    assert torch.equal(factor.columns(nodes.to(dtype)), factor.columns(nodes))
