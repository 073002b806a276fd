"""Laws of the solver; what others compute is in test_solver_peers.py."""

import numpy as np
import pytest
import torch
from tiny_graphs import two_parts
from torch_geometric.data import Data
from transport.problems import align, gw_cost, masses, permutation, points, rotation
from transport.shapes import spiral, swiss_roll

from jsem_pyg.transport import Factor, GeodesicCost, HeatCost, gromov_wasserstein

KINDS = ["kernel", "sqdist"]
DTYPES = [torch.float32, torch.float64]
TIGHT = {"epsilon": 0.1, "tol": 1e-5, "max_iter": 200}


def small(kind, dtype=torch.float64):
    return Factor(points(24, 3, 1, dtype), kind), Factor(points(20, 3, 2, dtype), kind)


def rank_correlation(first, second):
    ranks = torch.stack([first.argsort().argsort(), second.argsort().argsort()]).double()
    return abs(float(torch.corrcoef(ranks)[0, 1]))


def right(plan, order):
    """The share of points that find themselves in another order."""
    return float((order[plan.argmax()] == torch.arange(order.numel())).double().mean())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
class TestLaws:
    def test_new_names_for_points_are_new_names_in_the_plan(self, kind, dtype):
        first, second = small(kind, dtype)
        i, j = permutation(24, 5), permutation(20, 6)
        plan = align(first, second, starts=["axes"], **TIGHT).dense()
        renamed = align(
            Factor(first.x[i], kind), Factor(second.x[j], kind), starts=["axes"], **TIGHT
        )
        atol = (1e-2 if dtype == torch.float32 else 1e-7) / 480
        torch.testing.assert_close(renamed.dense(), plan[i][:, j], atol=atol, rtol=0)

    def test_isometric_copies_are_found_and_cost_nothing(self, kind, dtype):
        x, order = points(40, 4, 0, dtype), permutation(40, 1)
        turned = (x @ rotation(4, 2, dtype))[order]
        turned = turned + 3 if kind == "sqdist" else turned
        plan = align(Factor(x, kind), Factor(turned, kind), epsilon=0.002)
        assert right(plan, order) == 1
        independent = gw_cost(Factor(x, kind), Factor(x, kind), torch.full((40, 40), 1 / 1600))
        assert plan.cost < 0.01 * independent

    def test_copies_of_many_points_are_told_from_their_neighbours(self, kind, dtype):
        """Cooling alone does not get there: masses travel by a few points in a pass."""
        x, order, p = points(300, 3, 0, dtype), permutation(300, 1), masses(300, 3, dtype)
        p[:9] = 0
        turned = (x @ rotation(3, 2, dtype))[order]
        plan = align(Factor(x, kind), Factor(turned, kind), p=p, q=p[order])
        has_mass = p > 0
        found = order[plan.argmax()][has_mass] == torch.arange(300)[has_mass]
        assert float(found.double().mean()) > 0.99
        assert plan.converged
        rows, columns = plan.marginals()
        assert float((columns - (p[order] / p.sum()).double()).abs().sum()) < 1e-3
        assert float((rows - (p / p.sum()).double()).abs().sum()) < 1e-3

    def test_a_point_without_mass_is_as_good_as_none(self, kind, dtype):
        first, second = small(kind, dtype)
        p, q = masses(24, 3, dtype), masses(20, 4, dtype)
        p[[0, 7]] = q[3] = 0
        p, q = p / p.sum(), q / q.sum()
        kept, other = p > 0, q > 0
        options = {"starts": ["axes"], **TIGHT}
        plan = align(first, second, p=p, q=q, **options)
        without = align(
            Factor(first.x[kept], kind), Factor(second.x[other], kind),
            p=p[kept], q=q[other], **options,
        )  # fmt: skip
        whole = plan.dense()
        assert bool(whole.isfinite().all())
        assert float(whole[~kept].sum() + whole[:, ~other].sum()) == 0
        assert plan.argmax()[[0, 7]].tolist() == [-1, -1]
        atol = (1e-2 if dtype == torch.float32 else 1e-7) / 480
        torch.testing.assert_close(whole[kept][:, other], without.dense(), atol=atol, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", ["numba", "auto"])
def test_backends_agree(kind, backend):
    options = {"starts": ["axes"], **TIGHT}
    plan = align(*small(kind), backend=backend, **options)
    reference = align(*small(kind), backend="torch", **options)
    torch.testing.assert_close(plan.dense(), reference.dense(), atol=1e-9, rtol=0)


def test_threads_make_no_difference():
    x, y = points(460, 3, 0, torch.float32), points(60, 3, 1, torch.float32)  # by 300 cells
    before, plans = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            plans.append(align(x, y, starts=["costs"], epsilon=0.3))
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(
        plans[0].dense(), plans[1].dense(), atol=1e-3 / x.size(0) / y.size(0), rtol=0
    )


def test_known_pairs_decide_between_mirror_images():
    """On a line both directions cost the same."""
    x = torch.linspace(-1, 1, 15).double()[:, None]
    for wanted in (torch.arange(15), torch.arange(14, -1, -1)):
        for dtype in (torch.int64, torch.int32):
            pairs = torch.stack([torch.arange(2), wanted[:2]]).to(dtype)
            assert torch.equal(align(x, x, known_pairs=pairs, epsilon=1e-3).argmax(), wanted)


@pytest.mark.parametrize("sizes", [(40, 60), (60, 40), (40, 200), (50, 50)])
@pytest.mark.parametrize("known", [3, 39])
def test_known_points_go_to_their_own_partner(sizes, known):
    """Beside points that have none, with noise, and more of them than a code has numbers."""
    x, noise = (points(max(sizes), 3, seed, torch.float32) for seed in (0, 1))
    order = torch.randperm(max(sizes), generator=torch.Generator().manual_seed(2))
    sides = x[: sizes[0]], (x + 0.3 * noise)[: sizes[1]]
    pairs = order[order < min(sizes)][:known].expand(2, -1)
    plan = align(*sides, known_pairs=pairs)
    assert torch.equal(plan.argmax()[pairs[0]], pairs[1])
    assert torch.equal(plan.transposed().argmax()[pairs[1]], pairs[0])


def test_a_matrix_of_distances_as_coordinates_is_named():
    x = points(6, 2, 0)
    with pytest.warns(UserWarning, match=r"'source' is read as coordinates.*MatrixCost"):
        align(torch.cdist(x, x), x)


def test_features_tell_apart_what_structure_cannot():
    corners = torch.tensor([[1.0, 1], [1, -1], [-1, -1], [-1, 1]])
    order = torch.tensor([2, 3, 1, 0])
    names = torch.eye(4)
    plan = align(Factor(corners), Factor(corners[order]), features=(names, names[order]))
    assert torch.equal(order[plan.argmax()], torch.arange(4))


def test_disconnected_graphs_by_heat():
    edges, num_nodes = two_parts()
    cost = HeatCost(t=2.0)
    order = permutation(num_nodes, 2)
    renamed = order.argsort()[edges]
    plan = align(Data(edge_index=edges), Data(edge_index=renamed), cost=cost)
    assert plan.cost < 0.02 * gw_cost(cost(edges), cost(renamed), torch.full((6, 6), 1 / 36))


def test_a_spiral_is_unrolled_like_a_swiss_roll():
    (curve, along), (surface, across) = spiral(400), swiss_roll(500, 1)
    plan = align(curve, surface, cost=GeodesicCost())
    assert rank_correlation(plan.apply(across[:, None])[:, 0], along.float()) >= 0.999


def test_cold_plans_are_sharp_and_warm_ones_are_not():
    x = points(20, 3, 0)
    cold, warm = align(x, x, epsilon=0.002), align(x, x, epsilon=2.0)
    assert float(cold.perplexity().mean()) < 1.3
    torch.testing.assert_close(warm.dense(), torch.full((20, 20), 1 / 400).double())


@pytest.mark.parametrize("offset", [10.0, 100.0])
def test_the_critical_temperature_counts_the_means_of_kernels(offset):
    """Far from the origin they are nearly all of the scores, and no iteration met the marginals."""
    source = Factor(points(25, 3, 1) + offset, "kernel")
    target = Factor(points(20, 2, 2) + offset, "kernel")
    plan = align(source, target)
    assert plan.converged
    rows, columns = plan.marginals()
    assert float((rows - 1 / 25).abs().sum() + (columns - 1 / 20).abs().sum()) < 1e-3
    hot = align(source, target, epsilon=5.0).dense()
    assert float((hot - 1 / 500).abs().sum()) < 0.25
    assert float((plan.dense() - 1 / 500).abs().sum()) > 0.7


@pytest.mark.parametrize("kind", KINDS)
def test_the_unit_of_costs_and_features_makes_no_difference(kind):
    x, y = points(10, 3, 1), points(13, 2, 2)
    f, h = points(10, 2, 3), points(13, 2, 4)
    options = {"epsilon": 0.1}
    plan = align(Factor(x, kind), Factor(y, kind), features=(f, h), **options)
    assert plan.converged
    unit = 2.0**15
    sides = Factor(x * unit, kind), Factor(y * unit, kind)
    large = align(*sides, features=(f * unit**2, h * unit**2), **options)
    assert large.converged
    torch.testing.assert_close(large.dense(), plan.dense(), rtol=0, atol=1e-4)
    assert large.cost == pytest.approx(plan.cost * unit**4, rel=1e-3)


@pytest.mark.parametrize("seed", [27, 77, 116])
def test_cold_plans_of_few_points_are_not_the_independent_one(seed):
    """It met the marginals where sharp plans missed them, and so was returned, as converged."""
    draw = np.random.default_rng(seed)
    sizes, ranks = draw.integers(3, 14, 2), draw.integers(1, 6, 2)
    x, y = (torch.tensor(draw.normal(size=size)) for size in zip(sizes, ranks, strict=True))
    if draw.random() < 0.5:
        x, y = x.float(), y.float()
    epsilon = float(draw.choice([0.003, 0.01, 0.05, 0.2]))
    plan = gromov_wasserstein(x, y, epsilon=epsilon, progress=False)
    squares = [((z - z.mean(0)) @ (z - z.mean(0)).T).square().mean() for z in (x, y)]
    assert plan.cost < 0.8 * float(sum(squares))  # which the independent plan has
    assert float(plan.perplexity().mean()) < 0.8 * len(y)


def test_a_start_at_the_independent_plan_leaves_it_where_it_is_cold():
    x, y = torch.randn(2, 150, 2, generator=torch.Generator().manual_seed(0))
    options = {"starts": ("zero",), "progress": False}
    plan = gromov_wasserstein(x, y, epsilon=0.05, absolute=True, **options)
    assert float(plan.dense().max()) > 10 / 150**2
    assert gromov_wasserstein(x, y, epsilon=2.0, **options).converged  # where it is the optimum
