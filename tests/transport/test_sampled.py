import math
from functools import partial

import pytest
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from transport.problems import points

from jsem_pyg.neighbors import knn_graph
from jsem_pyg.transport import ColumnCost, sampled_gromov_wasserstein
from jsem_pyg.transport import sampled as sampled_transport

align = partial(sampled_gromov_wasserstein, absolute=True)


def distances(n, seed=0, dtype=torch.float64):
    x = points(n, 3, seed)
    return torch.cdist(x, x).to(dtype)


def shuffled(c, seed=0):
    order = torch.randperm(c.size(0), generator=torch.Generator().manual_seed(seed))
    return c[order][:, order], order.argsort()


def oracle(c):
    return ColumnCost(lambda nodes: c[:, nodes], c.size(0))


def path_lengths(matrix, nodes):
    return torch.from_numpy(dijkstra(matrix, indices=nodes.numpy()).T)


def cost_of(c, d, plan):
    linear = (c.square() @ plan.sum(1))[:, None] + d.square() @ plan.sum(0) - 2 * c @ plan @ d
    return float((linear * plan).sum())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_isometric_copy_is_found(dtype):
    for seed in range(2):
        c = distances(40, seed, dtype)
        d, where = shuffled(c, seed)
        plan = align(c, d, epsilon=0.02, num_anchors=30, seed=seed)
        assert torch.equal(plan.argmax(), where)
        assert plan.scores.like.dtype == dtype
        assert plan.converged
        assert plan.cost < 0.01


def test_columns_on_demand_find_it_as_well(monkeypatch):
    c = distances(40)
    d, where = shuffled(c)
    expected = align(c, d, epsilon=0.02, num_anchors=30)
    plan = align(oracle(c), oracle(d), epsilon=0.02, num_anchors=30)
    assert torch.equal(plan.argmax(), where)
    assert plan.cost == pytest.approx(expected.cost)
    monkeypatch.setattr(sampled_transport, "DRAWS", 1)  # 30 pairs are fewer than 40 columns
    estimated = align(oracle(c), oracle(d), epsilon=0.02, num_anchors=30)
    assert estimated.cost != pytest.approx(expected.cost)
    assert estimated.cost < 0.01


@pytest.mark.parametrize("view", ["table", "columns", "factor"])
def test_a_spiral_is_unrolled_onto_a_swiss_roll(view):
    generator = torch.Generator().manual_seed(0)

    def roll(n, width):
        position = torch.rand(n, generator=generator)
        angle = math.pi * (2.25 + 18 * position).sqrt()  # uniform in arc length
        height = width * torch.rand(n, generator=generator)
        return torch.stack([angle * angle.cos(), height, angle * angle.sin()], 1), position

    sides, positions = zip(roll(100, 0), roll(140, 5), strict=True)
    columns = []
    for x in sides:
        edge_index, _ = knn_graph(x, 8, metric="l2")
        length = (x[edge_index[0]] - x[edge_index[1]]).norm(dim=1) / 90
        matrix = csr_array((length.double().numpy(), edge_index.int().numpy()), (len(x), len(x)))
        columns.append(ColumnCost(partial(path_lengths, matrix), len(x)))
    if view == "table":
        columns = [each.columns(torch.arange(each.num_points)) for each in columns]
    elif view == "factor":
        columns = [each.factor(num_columns=64, rank=32) for each in columns]
    plan = align(*columns, epsilon=0.002, num_anchors=50)
    ranks = positions[1][plan.argmax()].argsort().argsort().double()
    expected = positions[0].argsort().argsort().double()
    assert abs(float(torch.corrcoef(torch.stack([ranks, expected]))[0, 1])) > 0.99


def test_many_draws_end_where_pot_does():
    ot = pytest.importorskip("ot")
    c, d = distances(20), distances(15, 1)
    p = torch.rand(20, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.5
    p, q = p / p.sum(), torch.full((15,), 1 / 15, dtype=torch.float64)
    ours = align(c, d, epsilon=2.0, p=p, num_anchors=20000)
    theirs = ot.gromov.entropic_gromov_wasserstein(
        c.numpy(), d.numpy(), p.numpy(), q.numpy(), epsilon=2.0, tol=1e-9, max_iter=500,
        numItermax=20000, stopThr=1e-10,
    )  # fmt: skip
    theirs = torch.from_numpy(theirs)
    assert float((ours.dense() - theirs).abs().sum()) < 0.01
    assert abs(ours.cost - cost_of(c, d, theirs)) < 5e-3 * ours.cost


def test_draws_are_repeated_by_seed_and_leave_the_global_generator_alone():
    c, d = distances(20), distances(25, 1)
    before = torch.get_rng_state()
    first, again, other = (
        align(c, d, epsilon=0.1, num_anchors=10, seed=seed).dense() for seed in (3, 3, 4)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(before, torch.get_rng_state())


def test_one_point_and_points_that_are_all_the_same():
    for n, m in ((1, 1), (1, 5), (4, 6)):
        c, d = torch.zeros(n, n), torch.zeros(m, m)
        plan = align(c, d, epsilon=0.1, num_anchors=5)
        torch.testing.assert_close(plan.dense(), torch.full((n, m), 1 / (n * m)))
        assert plan.cost == 0


def test_not_converged_is_said(caplog):
    c, d = distances(20), distances(25, 1)
    plan = align(c, d, epsilon=0.1, num_anchors=10, max_iter=2)
    assert not plan.converged
    assert "has not converged in 2 steps" in caplog.text


def test_epsilon_is_a_share_of_the_critical_temperature():
    """Above it plans are blurred, far below it sharp, whatever the unit of the costs."""
    c = distances(25)
    d, where = shuffled(c)
    hot = sampled_gromov_wasserstein(c, d, epsilon=4.0)
    assert float(hot.perplexity().min()) > 20
    scaled = sampled_gromov_wasserstein(10 * c, 10 * d, epsilon=0.1)
    plan = sampled_gromov_wasserstein(c, d, epsilon=0.1)
    assert torch.equal(plan.argmax(), where)
    assert float(plan.perplexity().max()) < 4
    assert scaled.epsilon == pytest.approx(100 * plan.epsilon)
    torch.testing.assert_close(scaled.dense(), plan.dense())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p": torch.ones(4)}, "one entry for each point"),
        ({"p": torch.zeros(3)}, "mass somewhere"),
        ({"source": torch.ones(2, 3)}, r"to be \[N, N\]"),
        ({"source": torch.arange(9.0).view(3, 3)}, "to be symmetric"),
        ({"source": ColumnCost(lambda n: torch.arange(9.0).view(3, 3)[:, n], 3)}, "symmetric"),
        ({"source": ColumnCost(lambda n: torch.ones(2, n.numel()), 3)}, r"to have shape \[3, 1\]"),
        ({"source": ColumnCost(lambda n: torch.ones(1), 1 << 26)}, "a plan of at most"),
    ],
)
def test_what_is_refused(change, message):
    options = {"source": torch.ones(3, 3), "target": torch.ones(3, 3), "epsilon": 0.1} | change
    with pytest.raises(ValueError, match=message):
        align(options.pop("source"), options.pop("target"), **options)


@pytest.mark.parametrize("seed", [18, 378])
def test_a_sharp_plan_that_misses_its_masses_has_not_converged(seed, caplog):
    """Half a percent of the mass is elsewhere after 2,000 scalings."""
    g = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(*shape, generator=g, dtype=torch.float64) for shape in ((4, 1), (3, 2)))
    p, q = (torch.rand(n, generator=g, dtype=torch.float64) + 0.1 for n in (4, 3))
    costs = torch.cdist(x, x), torch.cdist(y, y)
    plan = sampled_gromov_wasserstein(*costs, p=p, q=q, epsilon=0.05)
    table = plan.dense()
    missed = (table.sum(1) - p / p.sum()).abs().sum() + (table.sum(0) - q / q.sum()).abs().sum()
    assert missed > 1e-3
    assert not plan.converged
    assert f"the marginal error is {missed:.1e}" in caplog.text


@pytest.mark.parametrize("view", ["table", "columns"])
def test_the_unit_of_costs_does_not_matter_in_its_range(view):
    c = distances(20, dtype=torch.float32)
    d, _ = shuffled(c)
    make = oracle if view == "columns" else (lambda each: each)
    plan = sampled_gromov_wasserstein(make(c), make(d))
    for unit in (2.0**-30, 2.0**30):
        other = sampled_gromov_wasserstein(make(c * unit), make(d * unit))
        torch.testing.assert_close(other.dense(), plan.dense())
        assert other.cost == pytest.approx(plan.cost * unit**2)
        assert other.epsilon == pytest.approx(plan.epsilon * unit**2)
    with pytest.raises(ValueError, match="'target' to have a largest cost from 1e-12 to 1e.12"):
        sampled_gromov_wasserstein(c, d * 2.0**60)
    with pytest.raises(ValueError, match="'epsilon' of a temperature of at least"):
        sampled_gromov_wasserstein(c, d, epsilon=1e-30)
