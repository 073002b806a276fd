"""Edges of several types become one undirected graph; compared with dense matrices."""

import pytest
import torch
from dense import exact_heat_diffusion

from jsem_pyg.nn import HeteroDiffusion

COUNTS = {"a": 4, "b": 3, "lonely": 2}
ONE = torch.tensor([[0], [0]])
A_R_B, B_REV_A, A_S_A = ("a", "r", "b"), ("b", "rev_r", "a"), ("a", "s", "a")


def draw(seed):
    """Random edges of three types, with repeats, loops and missing directions, and weights."""
    generator = torch.Generator().manual_seed(seed)
    edges, weights = {}, {}
    for name, count in ((A_R_B, 7), (B_REV_A, 5), (A_S_A, 9)):
        ends = [torch.randint(COUNTS[e], (count,), generator=generator) for e in (name[0], name[2])]
        edges[name] = torch.stack(ends)
        weights[name] = torch.rand(count, generator=generator, dtype=torch.float64) + 0.1
    return edges, weights


def dense(edges, weights):
    """Sum repeats in each direction, take the mean of the directions given: [R, N, N]."""
    first = {"a": 0, "b": 4}
    out = []
    for names in ((A_R_B, B_REV_A), (A_S_A,)):
        total = torch.zeros(9, 9, dtype=torch.float64)
        for name in names:
            for (i, j), w in zip(edges[name].T.tolist(), weights[name].tolist(), strict=True):
                i, j = i + first[name[0]], j + first[name[2]]
                total[i, j] += w if i != j else 0
        given = (total > 0).double() + (total.T > 0)
        out.append((total + total.T) / given.clamp(min=1))
    return torch.stack(out)


def make_layer(*names):
    """A layer in double precision whose relations conduct each in its own way."""
    layer = HeteroDiffusion((list(COUNTS), list(names)), t=1.5, tol=1e-12).double()
    theta = layer.diffusion.relation_conductance.theta
    theta.data = torch.linspace(-1, 1, theta.numel()).to(theta)
    return layer


def features():
    generator = torch.Generator().manual_seed(0)
    return {
        name: torch.randn(count, 3, generator=generator, dtype=torch.float64)
        for name, count in COUNTS.items()
    }


def heat_of(layer, weight):
    """The heat of weights [R, N, N] times what each relation conducts."""
    h = torch.tensor(list(layer.relations().values()), dtype=torch.float64)
    total = (h[:, None, None] * weight).sum(0)
    x = torch.cat(list(features().values()))
    return exact_heat_diffusion(x, total.nonzero().T, total[total > 0], 1.5)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("has_weight", [True, False])
def test_weights_are_summed_in_a_direction_and_averaged_over_both(seed, has_weight):
    edges, weights = draw(seed)
    layer = make_layer(*edges)
    out = layer(features(), edges, weights if has_weight else None)
    if not has_weight:
        weights = {name: torch.ones_like(weight) for name, weight in weights.items()}
    expected = heat_of(layer, dense(edges, weights))
    torch.testing.assert_close(torch.cat(list(out.values())), expected, rtol=1e-6, atol=1e-6)


def test_the_gradient_of_weights():
    edges, weights = draw(0)
    layer, names = make_layer(*edges), list(edges)

    def heat(*given):
        return layer(features(), edges, dict(zip(names, given, strict=True)))["a"]

    assert torch.autograd.gradcheck(
        heat, [weights[name].requires_grad_() for name in names], fast_mode=True
    )


def test_reverse_types_belong_to_their_relation():
    layer = make_layer(B_REV_A, A_R_B, A_S_A, ("b", "rev_q", "b"))
    assert list(layer.relations()) == ["a r b", "a s a", "b rev_q b"]


def test_both_directions_beside_a_reverse_type_are_one_edge():
    """As `ToUndirected(merge=False)` makes them of edges that have both directions."""
    both, rev = torch.tensor([[0, 1, 1, 1], [1, 0, 2, 2]]), ("a", "rev_s", "a")
    layer, edges = make_layer(A_S_A, rev), {A_S_A: both, rev: both.flip(0)}
    weights = {
        A_S_A: torch.tensor([1.0, 3.0, 2.0, 2.0]).double(),
        rev: torch.tensor([5.0, 7.0, 1.0, 1.0]).double(),
    }
    # The second edge stands there twice.
    for given, first, second in ((None, 1.0, 2.0), (weights, 4.0, 3.0)):
        weight = torch.zeros(1, 9, 9, dtype=torch.float64)
        weight[0, 0, 1] = weight[0, 1, 0] = first
        weight[0, 1, 2] = weight[0, 2, 1] = second
        out = torch.cat(list(layer(features(), edges, given).values()))
        torch.testing.assert_close(out, heat_of(layer, weight), rtol=1e-6, atol=1e-6)


def test_without_edges_features_stay():
    x_dict = {name: torch.stack([x, 2 * x]) for name, x in features().items()}  # a batch
    out = make_layer(A_R_B)(x_dict, {})
    assert all(torch.equal(out[name], x) for name, x in x_dict.items())


@pytest.mark.parametrize(
    ("edges", "weights", "message"),
    [
        ({("a", "t", "a"): torch.zeros(2, 1).long()}, None, "edge types of the metadata"),
        ({A_R_B: torch.tensor([[0], [3]])}, None, r"edge_index_dict\[\('a', 'r', 'b'\)\].*\[0, 3"),
        ({A_R_B: torch.zeros(3, 1).long()}, None, r"edge_index_dict.*shape \[2, E\]"),
        ({A_R_B: ONE}, {A_R_B: torch.ones(3)}, r"edge_weight_dict\[\('a', 'r', 'b'\)\]"),
        ({A_R_B: ONE}, {A_S_A: torch.ones(3)}, "edge types of 'edge_index_dict'"),
    ],
)
def test_what_does_not_fit_is_refused(edges, weights, message):
    with pytest.raises(ValueError, match=message):
        make_layer(A_R_B, A_S_A)(features(), edges, weights)
