"""Plans between a few points, against the sums that define them: marginals, masses, costs.

A few cases in every run; ``JSEM_CASES=2000 pytest tests/trust/test_differential*.py`` draws as
many of each test. Whatever a case is, either the numbers are right or the call is refused by an
error of ours for one of the reasons in `REFUSED`.
"""

import itertools
import re

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch_geometric.data import Data
from transport.problems import gw_cost
from trust.draws import LAYOUTS, SEEDS, edge_lists, generator, lay_out
from trust.settings import draws

from jsem_pyg.transport import Factor, gromov_wasserstein, match_graphs, sampled_gromov_wasserstein

REFUSED = r"'epsilon' .* at least|'starts' to have more than 'zero'"
SIZES = st.integers(1, 6)
DTYPES = st.sampled_from([torch.float32, torch.float64])


@st.composite
def clouds(draw, num_points, dim=None):
    """Coordinates [N, r]: some repeated, some all the same, of some layout."""
    g = generator(draw(SEEDS))
    dim = dim or draw(st.integers(1, 3))
    x = torch.randn(num_points, dim, generator=g, dtype=torch.float64)
    kind = draw(st.sampled_from(["apart", "apart", "repeated", "one place"]))
    if kind == "repeated":
        x = x[torch.randint(num_points, (num_points,), generator=g)]
    elif kind == "one place":
        x = x[:1].expand(num_points, -1)
    return lay_out(x * 10.0 ** draw(st.sampled_from([-3, 0, 3])), draw(st.sampled_from(LAYOUTS)))


@st.composite
def masses(draw, num_points):
    """None, or masses that need not sum to one, some of them zero."""
    kind = draw(st.sampled_from(["none", "random", "zeros"]))
    if kind == "none":
        return None
    mass = torch.rand(num_points, generator=generator(draw(SEEDS)), dtype=torch.float64) + 0.1
    if kind == "zeros":
        mass[1::2] = 0
    return mass


def shares(mass, num_points):
    mass = torch.ones(num_points, dtype=torch.float64) if mass is None else mass.double()
    return mass / mass.sum()


def check_plan(plan, shape):
    """What holds of every plan: the table and the sums agree."""
    table = plan.dense().double()
    assert table.shape == shape
    assert bool((table >= 0).all() and table.isfinite().all())
    rows, columns = plan.marginals()
    torch.testing.assert_close(rows, table.sum(1), rtol=1e-4, atol=1e-7)
    torch.testing.assert_close(columns, table.sum(0), rtol=1e-4, atol=1e-7)
    assert plan.transposed().shape == shape[::-1]
    return table


def scale_of(x, y):
    """The largest squared difference between two costs."""
    largest = max(float(each.double().square().sum(1).max()) for each in (x, y))
    return 4 * largest**2 + 1e-300


@draws(10)
@given(st.data())
def test_gromov_wasserstein(data):
    sizes = data.draw(SIZES), data.draw(SIZES)
    dtype, kind = data.draw(DTYPES), data.draw(st.sampled_from(["kernel", "sqdist"]))
    x, y = (data.draw(clouds(n)).to(dtype) for n in sizes)
    p, q = (data.draw(masses(n)) for n in sizes)
    options = {"epsilon": data.draw(st.sampled_from([1e-3, 0.01, 0.3])), "progress": False}
    features = None
    if data.draw(st.booleans()):
        g = generator(data.draw(SEEDS))
        features = tuple(torch.randn(n, 2, generator=g).to(dtype) for n in sizes)
        options |= {"features": features, "alpha": 0.4}
    first, second = Factor(x, kind), Factor(y, kind)
    try:
        plan = gromov_wasserstein(first, second, p=p, q=q, **options)
    except ValueError as error:
        if not re.search(REFUSED, str(error)):
            raise
        return
    table = check_plan(plan, sizes)
    left, right = (shares(mass, n) for mass, n in zip((p, q), sizes, strict=True))
    rows, columns = table.sum(1), table.sum(0)
    torch.testing.assert_close(rows, left, rtol=2e-3, atol=1e-6)
    if plan.converged:
        assert float((columns - right).abs().sum()) <= 3e-3
    assert not bool((rows[left == 0] > 0).any())
    expected = gw_cost(first, second, table)
    unit = scale_of(x, y)
    if features is not None:
        apart = torch.cdist(*(each.double() for each in features)).square()
        expected = 0.4 * expected + 0.6 * float((apart * table).sum())
        unit = 0.4 * unit + 0.6 * float(apart.max())
    assert plan.cost == pytest.approx(expected, rel=1e-3, abs=3e-5 * unit)


@draws(15)
@given(st.data())
def test_sampled_gromov_wasserstein(data):
    sizes = data.draw(st.integers(2, 6)), data.draw(st.integers(2, 6))
    costs = []
    for n in sizes:
        x = data.draw(clouds(n))
        costs.append(torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist"))
    assume(all(bool(each.max() > 0) for each in costs))
    p, q = (data.draw(masses(n)) for n in sizes)
    plan = sampled_gromov_wasserstein(
        *costs, p=p, q=q, num_anchors=10, epsilon=data.draw(st.sampled_from([0.05, 0.5]))
    )  # fmt: skip
    table = check_plan(plan, sizes)
    left, right = (shares(mass, n) for mass, n in zip((p, q), sizes, strict=True))
    if plan.converged:
        assert float((table.sum(1) - left).abs().sum()) <= 1.01e-3
        assert float((table.sum(0) - right).abs().sum()) <= 1.01e-3
    unit = float(max(each.max() for each in costs)) ** 2
    assert plan.cost == pytest.approx(gw_cost(*costs, table), rel=1e-3, abs=1e-4 * unit)


def nodes_of(edge_index, num_nodes):
    return Data(edge_index=edge_index, num_nodes=num_nodes)


def adjacency(edge_index, num_nodes):
    table = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    return table.index_put((edge_index[0], edge_index[1]), torch.ones(1).double(), accumulate=False)


@draws(25)
@given(st.data())
def test_match_graphs(data):
    """Renamed copies cost nothing; no permutation of a few nodes is far better than the answer."""
    edge_index, _, _, n, g = data.draw(edge_lists(most_nodes=6, repeats=False))
    first = adjacency(edge_index, n)
    names = torch.randperm(n, generator=g)
    plan = match_graphs(nodes_of(edge_index, n), nodes_of(names[edge_index], n))
    assert plan.cost == 0
    table = check_plan(plan, (n, n))
    second = torch.zeros_like(first)
    second[names[:, None], names] = first
    assert gw_cost(first, second, table) == pytest.approx(0, abs=1e-12)

    other, _, _, m, _ = data.draw(edge_lists(most_nodes=6, repeats=False))
    plan, target = match_graphs(nodes_of(edge_index, n), nodes_of(other, m)), adjacency(other, m)
    table = check_plan(plan, (n, m))
    assert plan.cost == pytest.approx(gw_cost(first, target, table), rel=1e-6, abs=1e-12)
    for sums in (table.sum(1), table.sum(0)):
        expected = torch.full_like(sums[sums > 0], 1 / min(n, m))
        torch.testing.assert_close(sums[sums > 0], expected)
    if n == m:
        best = min(
            float((first - target[list(order)][:, list(order)]).square().sum()) / n**2
            for order in itertools.permutations(range(n))
        )
        assert plan.cost <= best + 1e-9


WAYS_OF_LARGE_GRAPHS = {
    "profiled.MOST_PROFILED": [0, 60],
    "search.MOST_BRANCHED": [0, 60],
    "search.MOST_PAIRS": [0, 60],
    "likeness.NEAREST": [1, 3],
    "likeness.LEAST_NEAREST": [1, 40],
    "confidence.BLOCK": [1, 40],
    "moves.BLOCK": [1, 40],
    "branches.FIRST_PAIRS": [16, 200],
    "branches.LATER_PAIRS": [1, 5],
    "isomorphism.MOST_REFINING": [-1],
}


@draws(8)
@given(st.data())
def test_small_graphs_matched_by_the_ways_of_large_ones(data):
    """Costs and masses of a plan are those of its table, whichever way it was found."""
    graphs, given = [], []
    for _ in range(2):
        edge_index, once, order, n, g = data.draw(edge_lists(most_nodes=14, repeats=False))
        weight = (0.1 + torch.rand(once, generator=g, dtype=torch.float64)).repeat(2)[order]
        table = torch.zeros(n, n, dtype=torch.float64).index_put(tuple(edge_index), weight)
        graphs.append(table)
        given.append(Data(edge_index=edge_index, edge_weight=weight, num_nodes=n))
    sizes = tuple(len(each) for each in graphs)
    changes = {
        name: data.draw(st.sampled_from(values))
        for name, values in WAYS_OF_LARGE_GRAPHS.items()
        if data.draw(st.booleans())
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in changes.items():
            patch.setattr(f"jsem_pyg.transport.match.{name}", value)
        plan = match_graphs(*given, max_iter=data.draw(st.integers(1, 5)))
        confidence = plan.confidence
    table = check_plan(plan, sizes)
    assert plan.cost == pytest.approx(gw_cost(*graphs, table), rel=1e-5, abs=1e-7)
    assert float(table.sum()) == pytest.approx(1, abs=1e-5)
    assert plan.argmax().ge(0).sum() == min(sizes)
    assert bool(((confidence >= 0) & (confidence <= 1)).all())
    assert not bool(confidence[plan.argmax() < 0].any())
