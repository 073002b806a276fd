import pytest
import torch
from torch.autograd import forward_ad
from torch_geometric.data import Batch, Data

from jsem_pyg.transport import Factor, HeatCost, batch_gromov_wasserstein, batch_gw_distance
from jsem_pyg.transport.small import batched
from jsem_pyg.transport.small.proximal import Pairs, anneal
from jsem_pyg.transport.small.starts import random_start, start


def clouds(sizes, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, 3, generator=generator, dtype=dtype) for n in sizes]


def moved(x, seed=0):
    """A rotated, shifted and permuted copy, and where each point of x went."""
    generator = torch.Generator().manual_seed(seed)
    turn, _ = torch.linalg.qr(torch.randn(3, 3, generator=generator, dtype=x.dtype))
    order = torch.randperm(x.size(0), generator=generator)
    return (x @ turn + 3)[order], order.argsort()


def costs(plans):
    return torch.tensor([plan.cost for plan in plans], dtype=torch.float64)


def assert_same_plans(first, second, **tolerance):
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(one.dense(), other.dense(), **tolerance)


def assert_exact_marginals(plan):
    for got in plan.marginals():
        torch.testing.assert_close(got, torch.full_like(got, 1 / got.numel()), rtol=0, atol=1e-6)


def quadruple_sum(c, d, plan):
    gap = (c[:, :, None, None] - d[None, None]).square()
    return torch.einsum("ikjl,ij,kl->", gap, plan, plan)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_isometric_copies_are_found(dtype):
    x = clouds([5, 9, 17, 25, 1], dtype=dtype)
    copies, where = zip(*(moved(each) for each in x), strict=True)
    for plan, partner in zip(batch_gromov_wasserstein(x, list(copies)), where, strict=True):
        assert torch.equal(plan.argmax(), partner)
        assert plan.dense().dtype == dtype
        assert plan.cost < 1e-8
        assert_exact_marginals(plan)
        assert plan.converged


def test_the_cost_is_that_of_the_plan_whose_marginals_are_exact():
    x, y = clouds([4, 11, 3]), clouds([9, 8, 1], 1)
    for one, other, plan in zip(x, y, batch_gromov_wasserstein(x, y), strict=True):
        assert plan.shape == (one.size(0), other.size(0))
        c, d = (torch.cdist(each, each).square() for each in (one, other))
        assert plan.cost == pytest.approx(float(quadruple_sum(c, d, plan.dense())))
        assert_exact_marginals(plan)


STARTS = ["costs", "zero", "random", "random", "random"]


@pytest.mark.parametrize("starts", [STARTS[:1], STARTS[:4]])
def test_company_changes_nothing(starts):
    x, y = clouds([4, 11, 7, 25]), clouds([9, 8, 3, 12], 1)
    together = batch_gromov_wasserstein(x, y, starts=starts)
    for pair in range(4):
        alone = batch_gromov_wasserstein([x[pair]], [y[pair]], starts=starts)
        assert alone[0].cost == pytest.approx(together[pair].cost)
        assert_same_plans(alone, together[pair : pair + 1])


def test_renumbering_renumbers_the_plan():
    x, y = clouds([7, 12]), clouds([10, 5], 1)
    order = [torch.randperm(n, generator=torch.Generator().manual_seed(n)) for n in (7, 12)]
    plans = batch_gromov_wasserstein(x, y)
    others = batch_gromov_wasserstein([each[at] for each, at in zip(x, order, strict=True)], y)
    for plan, other, at in zip(plans, others, order, strict=True):
        torch.testing.assert_close(other.dense(), plan.dense()[at])


def test_more_starts_are_never_worse():
    x, y = clouds([9] * 10), clouds([13] * 10, 1)
    one, two, four = (costs(batch_gromov_wasserstein(x, y, starts=STARTS[:k])) for k in (1, 2, 4))
    assert bool((two <= one + 1e-12).all())
    assert bool((four <= two + 1e-12).all())
    assert float(four.mean()) < float(one.mean())


def test_costs_of_other_units():
    x, y = clouds([6]), clouds([8], 1)
    expected = batch_gromov_wasserstein(x, y)
    large = batch_gromov_wasserstein([x[0] * 1e60], [y[0] * 1e60])
    assert large[0].cost == pytest.approx(expected[0].cost * 1e240)
    assert_same_plans(large, expected)


def test_not_worse_than_conditional_gradient_from_the_independent_plan():
    ot = pytest.importorskip("ot")
    sizes = torch.randint(5, 15, (2, 20), generator=torch.Generator().manual_seed(0)).tolist()
    x, y = clouds(sizes[0]), clouds(sizes[1], 1)
    ours = batch_gromov_wasserstein(x, y)
    theirs = []
    for one, other in zip(x, y, strict=True):
        c, d = (torch.cdist(each, each).square().numpy() for each in (one, other))
        theirs.append(float(ot.gromov.gromov_wasserstein2(c, d)))
    theirs = torch.tensor(theirs, dtype=torch.float64)
    assert float(costs(ours).mean()) < 0.97 * float(theirs.mean())


def test_points_without_mass_get_nothing():
    x, y = clouds([6, 7]), clouds([5, 9], 1)
    p = torch.ones(13, dtype=torch.float64)
    p[2] = p[11] = 0
    plans = batch_gromov_wasserstein(x, y, p=p)
    assert [(plan.argmax() == -1).nonzero()[:, 0].tolist() for plan in plans] == [[2], [5]]
    keep = [torch.arange(6) != 2, torch.arange(7) != 5]
    without = batch_gromov_wasserstein([a[b] for a, b in zip(x, keep, strict=True)], y)
    torch.testing.assert_close(costs(plans), costs(without))
    lists = batch_gromov_wasserstein(x, y, p=list(p.split([6, 7])))
    assert_same_plans(lists, plans, rtol=0, atol=0)


def test_what_is_the_same_everywhere_is_no_trouble():
    same = torch.ones(6, 2)
    sides = [same, same[:1]], [same[:4], same[:1]]
    for plan in batch_gromov_wasserstein(*sides, starts=STARTS[:3]):
        assert plan.cost == 0
        assert_exact_marginals(plan)


def test_strided_and_transposed_input():
    x, y = clouds([6, 7]), clouds([5, 9], 1)
    expected = batch_gromov_wasserstein(x, y)
    spread = [torch.stack([each, each], 2)[..., 0] for each in x]
    turned = [each.T.contiguous().T for each in y]
    assert_same_plans(batch_gromov_wasserstein(spread, turned), expected, rtol=0, atol=0)


def test_batches_lists_factors_and_matrices_are_one():
    x, y = clouds([6, 7, 3]), clouds([5, 9, 4], 1)
    batches = [Batch.from_data_list([Data(x=each) for each in side]) for side in (x, y)]
    expected = batch_gromov_wasserstein(*batches)
    factors = [[Factor(each) for each in side] for side in (x, y)]
    matrices = [[each.dense() for each in side] for side in factors]
    for pair, cost in (((x, y), None), (factors, None), (matrices, "matrix")):
        got = batch_gromov_wasserstein(*pair, cost=cost)
        assert_same_plans(got, expected)


def test_the_start_at_zero_is_nearly_the_independent_plan():
    pairs = Pairs(*torch.zeros(2, 1, 8, 8), *torch.full((2, 1, 8), 1 / 8))
    little, whole = (start(pairs, name, 0) for name in ("zero", "random"))
    assert 0 < float(little.abs().max()) < 0.2 < float(whole.std())  # bits


def test_settled_pairs_leave_with_what_they_had():
    """Pairs that settle at different steps, side by side: each as if alone."""
    x = clouds([8, 8, 8])
    c = torch.stack([torch.cdist(each, each) for each in x])
    p = torch.full((3, 8), 1 / 8, dtype=torch.float64)
    pairs = Pairs(c, torch.stack([c[0], c[2], c[1]]), p, p)
    begun = random_start(pairs, 0)
    begun[0] = 60 * torch.eye(8)  # this one is where it ends
    plans = anneal(pairs, begun, 40, 0.2)
    for index in range(3):
        alone = anneal(pairs.take(torch.tensor([index])), begun[index, None], 40, 0.2)
        torch.testing.assert_close(plans[index], alone[0])
    torch.testing.assert_close(plans.sum(1), p)


def test_gradients_of_features_matrices_and_masses():
    x, y = clouds([4, 5]), clouds([6, 3], 1)
    p = [torch.rand(n, dtype=torch.float64) + 0.5 for n in (4, 5)]
    q = [torch.rand(n, dtype=torch.float64) + 0.5 for n in (6, 3)]
    inputs = [torch.cat(each).requires_grad_() for each in (x, y, p, q)]

    def distance(x, y, p, q):
        return batch_gw_distance(x.split([4, 5]), y.split([6, 3]), p=p, q=q, max_iter=60)

    assert torch.autograd.gradcheck(
        distance, inputs, eps=1e-5, atol=1e-5, rtol=1e-4, fast_mode=True
    )


def test_gradients_in_weights_of_edges_and_what_a_function_makes():
    path = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    edges = torch.cat([path, path.flip(0)], 1)
    target = Data(edge_index=edges[:, [0, 1, 2, 4, 5, 6]], num_nodes=4)
    weight = torch.tensor([1.0, 1.7, 0.6, 2.2], dtype=torch.float64, requires_grad=True)

    def distance(weight, cost):
        source = Data(edge_index=edges, edge_weight=weight.repeat(2), num_nodes=5)
        return batch_gw_distance([source], [target], cost=cost)

    def lengths(data):
        weight = torch.ones(3).double() if data.edge_weight is None else data.edge_weight
        place = torch.cat([weight.new_zeros(1), weight[: data.num_nodes - 1].cumsum(0)])
        return (place[:, None] - place).abs()

    for cost in (HeatCost(1.0), lengths):
        assert torch.autograd.gradcheck(
            lambda weight, cost=cost: distance(weight, cost),
            [weight],
            eps=1e-5,
            atol=1e-5,
            rtol=1e-4,
        )


def test_the_loss_pulls_points_into_shape():
    y, _ = moved(clouds([7], dtype=torch.float32)[0])
    x = torch.randn(7, 3, generator=torch.Generator().manual_seed(5), requires_grad=True)
    optimizer = torch.optim.Adam([x], 0.1)
    losses = []
    for _ in range(150):
        optimizer.zero_grad()
        loss = batch_gw_distance([x], [y]).sum()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 1e-3 * losses[0]


def test_without_gradients_it_is_the_cost():
    x, y = clouds([4, 5], dtype=torch.float32), clouds([6, 3], 1, dtype=torch.float32)
    distance = batch_gw_distance(x, y)
    assert distance.dtype == torch.float32
    torch.testing.assert_close(distance, costs(batch_gromov_wasserstein(x, y)).float())
    assert not distance.requires_grad


def test_the_global_generator_is_left_alone():
    before = torch.get_rng_state()
    x, y = clouds([4]), clouds([6], 1)
    first = batch_gromov_wasserstein(x, y, starts=STARTS, seed=3)
    assert torch.equal(before, torch.get_rng_state())
    again = batch_gromov_wasserstein(x, y, starts=STARTS, seed=3)
    assert_same_plans(first, again, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": clouds([3])}, "as many graphs each"),
        ({"p": torch.ones(3)}, "for each point"),
        ({"p": -torch.ones(9)}, "non-negative"),
        ({"p": torch.tensor([0.0] * 4 + [1.0] * 5)}, "got none in graph 0"),
        ({"q": torch.full((9,), torch.nan)}, "'q' to be finite"),
        ({"max_iter": 0}, "'max_iter' to be a positive"),
        ({"starts": ["heat"]}, "'starts' to be some of 'costs'"),
        ({"backend": "fast"}, "'backend' to be one of"),
        ({"cost": "length"}, "'cost' to be None"),
        ({"source": []}, "at least one graph"),
        ({"cost": "matrix"}, "to be square"),
        ({"source": [torch.zeros(0, 3), torch.zeros(2, 3)]}, "at least one row"),
        ({"source": [torch.full((4, 3), torch.nan), torch.zeros(2, 3)]}, "to be finite"),
    ],
)
def test_what_is_refused(change, message):
    options = {"source": clouds([4, 5]), "target": clouds([6, 3], 1)} | change
    with pytest.raises(ValueError, match=message):
        batch_gromov_wasserstein(options.pop("source"), options.pop("target"), **options)


@pytest.mark.parametrize("unit", [1e20, 1e-30])
def test_squares_out_of_range_are_refused(unit):
    """Plans were NaN, or costs zero with `converged=True`."""
    x, y = torch.rand(4, 2), torch.rand(5, 2)
    for call in (batch_gromov_wasserstein, batch_gw_distance):
        with pytest.raises(ValueError, match="points in 'source' .* torch.float32 can hold"):
            call([unit * x], [unit * y])
        tiny = unit**8
        with pytest.raises(ValueError, match="costs of a size whose squares torch.float64"):
            call([tiny * (x @ x.T).double()], [tiny * (y @ y.T).double()], cost="matrix")


@pytest.mark.parametrize("unit", [1e15, 1e-12])
def test_a_distance_that_its_type_cannot_hold_is_refused(unit):
    x, y = unit * torch.rand(4, 2), unit * torch.rand(5, 2)
    assert 0 < batch_gromov_wasserstein([x], [y])[0].cost < float("inf")
    with pytest.raises(ValueError, match=r"whose squares torch.float32 can hold \(got a discrep"):
        batch_gw_distance([x], [y])


def test_a_second_derivative_is_refused():
    c = torch.rand(4, 4, dtype=torch.float64)

    def loss(c):
        return batch_gw_distance([c + c.T], [torch.eye(3).double()], cost="matrix").sum()

    with pytest.raises(NotImplementedError, match="differentiated once .got a second derivative"):
        torch.autograd.functional.hessian(loss, c)


@pytest.mark.parametrize("name", ["source", "p"])
def test_other_modes_of_differentiation_are_refused(name):
    """In forward mode the value had no derivative, without a word."""
    (x, y), mass = clouds([5, 6]), torch.rand(5).double() + 0.1
    given = {"source": x @ x.T, "p": mass}

    def distance(changed):
        now = {**given, name: changed}
        return batch_gw_distance([now["source"]], [y @ y.T], cost="matrix", p=[now["p"]]).sum()

    ones = torch.ones_like(given[name])
    with pytest.raises(NotImplementedError, match="to be differentiated by backward"):
        torch.func.jvp(distance, (given[name],), (ones,))
    with pytest.raises(NotImplementedError, match="to be differentiated by backward"):
        torch.func.grad(distance)(given[name])
    with (
        forward_ad.dual_level(),
        pytest.raises(NotImplementedError, match="to be differentiated by backward"),
    ):
        distance(forward_ad.make_dual(given[name], ones))


@pytest.mark.parametrize("unit", [1e-300, 1e-42, 1e40, 1e300])
def test_masses_of_any_unit_count_by_their_shares(unit):
    x, y = [each.float() for each in clouds([3])], [each.float() for each in clouds([4], 1)]
    p = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    expected = batch_gw_distance(x, y, p=[p])
    torch.testing.assert_close(batch_gw_distance(x, y, p=[unit * p]), expected)


@pytest.mark.parametrize("share", [1e-20, 1e-15])
def test_gradients_in_masses_that_are_rounding_are_those_of_none(share):
    """Linear transport left such points alone, and their potentials where they were."""
    (x, y), gradients = clouds([7, 6]), []
    for mass in (0.0, share):
        p = torch.tensor([0.4, mass, 0.9, 0.7, 0.2, 0.6, 0.3], dtype=torch.float64)
        batch_gw_distance([x], [y], p=[p.requires_grad_()]).sum().backward()
        gradients.append(p.grad)
    torch.testing.assert_close(*gradients, rtol=1e-6, atol=1e-6)


def test_plans_that_could_be_better_have_not_converged(monkeypatch):
    monkeypatch.setattr(batched, "_DESCENT", 1)
    pairs = clouds([9, 17]), clouds([8, 12], seed=5)
    plans = batch_gromov_wasserstein(*pairs, starts=("zero",))
    assert not any(plan.converged for plan in plans)
