import warnings

import pytest
import torch
from torch_geometric.data import Data
from transport.problems import align, points

from jsem_pyg.transport import HeatCost, Plan, gromov_wasserstein, gw_distance
from jsem_pyg.transport.plan import scores as scores_module
from jsem_pyg.transport.plan.scores import DenseScores, FactoredScores, SparseScores, average

N, K = 9, 7
EMPTY_ROWS, EMPTY_COLUMNS = [2, 8], [0]


def factored(dtype=torch.float64):
    """Scores of a plan, with two rows and a column that have no mass."""
    f, g = points(N, 1, 3)[:, 0] - 4, points(K, 1, 4)[:, 0]
    f[EMPTY_ROWS] = g[EMPTY_COLUMNS] = -torch.inf
    return FactoredScores(*(each.to(dtype) for each in (points(N, 3, 1), points(K, 3, 2), f, g)))


def table_of(scores):
    return scores.u @ scores.v.T + scores.f[:, None] + scores.g


@pytest.fixture(params=["factored", "dense", "in blocks"])
def plan(request, monkeypatch):
    scores = factored()
    if request.param == "in blocks":
        monkeypatch.setattr(scores_module, "BLOCK", 2 * K)
    return Plan(scores if request.param != "dense" else DenseScores(table_of(scores)), 1.0)


TABLE = table_of(factored()).exp2()


def test_the_plan_and_its_marginals(plan):
    torch.testing.assert_close(plan.dense(), TABLE)
    torch.testing.assert_close(plan.marginals(), (TABLE.sum(1), TABLE.sum(0)))
    assert plan.shape == (N, K)


def test_argmax_is_minus_one_without_mass(plan):
    expected = TABLE.argmax(1)
    expected[EMPTY_ROWS] = -1
    assert torch.equal(plan.argmax(), expected)


@pytest.mark.parametrize("k", [1, 3, K - 1, K, K + 5])
def test_topk_has_the_largest_entries(plan, k):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        top = plan.topk(k)
    assert top.is_coalesced()
    kept = torch.zeros_like(TABLE).scatter(1, *reversed(TABLE.topk(min(k, K), 1)))
    torch.testing.assert_close(top.to_dense(), kept)
    assert top.values().numel() == (N - 2) * min(k, K - 1)  # what has no mass is not stored


def test_apply_is_the_mean_of_where_points_go(plan):
    y = points(K, 2, 5).requires_grad_()
    share = TABLE / TABLE.sum(1, keepdim=True).clamp(min=1e-300)
    torch.testing.assert_close(plan.apply(y), share @ y)
    torch.testing.assert_close(plan.apply(y[:, 0]), share @ y[:, 0])
    assert torch.equal(plan.apply(y)[EMPTY_ROWS], torch.zeros(2, 2, dtype=y.dtype))
    assert torch.autograd.gradcheck(plan.apply, y)
    assert torch.autograd.gradgradcheck(lambda y: plan.apply(y).square(), y)


def test_perplexity_counts_targets(plan):
    share = TABLE / TABLE.sum(1, keepdim=True).clamp(min=1e-300)
    expected = torch.special.entr(share).sum(1).exp()
    expected[EMPTY_ROWS] = 0
    torch.testing.assert_close(plan.perplexity(), expected)


def test_transposed(plan):
    back = plan.transposed()
    torch.testing.assert_close(back.dense(), TABLE.T)
    torch.testing.assert_close(back.transposed().dense(), TABLE)


def test_average_is_differentiable_in_the_signal():
    y = points(K, 2, 6).requires_grad_()
    torch.testing.assert_close(average(factored(), y), TABLE @ y)
    assert torch.autograd.gradcheck(lambda each: average(factored(), each), y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (torch.ones(K + 1, 2), r"'y' to have shape \[7, F\]"),
        (torch.full((K, 1), torch.inf), "'y' to be finite"),
    ],
)
def test_apply_looks_at_the_signal(plan, y, message):
    with pytest.raises(ValueError, match=message):
        plan.apply(y)


class TestJointEmbedding:
    x = points(30, 4) * torch.tensor([4.0, 3.0, 2.0, 1.0])

    def test_copies_come_to_lie_on_each_other(self):
        turned = self.x @ torch.linalg.qr(points(4, 4, 7))[0]
        first, second = align(self.x, turned, starts=["costs"]).joint_embedding(3)
        assert first.shape == second.shape == (30, 3)
        spread = first.std(0)
        assert float(((first - second).abs().mean(0) / spread).max()) < 1e-3
        assert bool((spread.diff() < 0).all())

    def test_no_more_axes_than_both_sides_have(self):
        plan = align(self.x, points(20, 2), starts=["axes"], epsilon=0.5)
        with pytest.raises(ValueError, match="'dim' to be at most 2"):
            plan.joint_embedding(3)

    def test_matrices_have_no_coordinates(self):
        with pytest.raises(ValueError, match="between factored costs"):
            Plan(DenseScores(torch.zeros(2, 2)), 0.0).joint_embedding()


def test_within_autocast_nothing_changes():
    plan, y = Plan(factored(torch.float32), 1.0), points(K, 2, 5).float()
    x, target = points(N, 3, 1).float(), points(K, 3, 2).float()
    ring = torch.stack([torch.arange(N), (torch.arange(N) + 1) % N])
    ring = torch.cat([ring, ring.flip(0)], dim=1)

    def results():
        aligned = gromov_wasserstein(x, target)
        of_plan = [plan.dense(), plan.argmax(), plan.perplexity(), plan.apply(y)]
        of_cost = HeatCost()(Data(edge_index=ring)).dense()
        both = aligned.joint_embedding()
        return [*of_plan, aligned.dense(), *both, gw_distance(x, target), of_cost]

    expected = results()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        actual = results()
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def test_large_plans_are_not_stored():
    parts = torch.zeros(20_000, 1), torch.zeros(20_000, 1), torch.zeros(20_000), torch.zeros(20_000)
    with pytest.raises(ValueError, match=r"at most \d+ entries \(got 20000 x 20000\)"):
        Plan(FactoredScores(*parts), 1.0).dense()


def test_a_sparse_plan_answers_as_its_table_does():
    row, column = torch.tensor([[0, 0, 2], [2, 1, 0]])
    scores = SparseScores(row, column, torch.tensor([-1.0, -3.0, -2.0]), (3, 4))
    table = torch.tensor([[0, 0.125, 0.5, 0], [0, 0, 0, 0], [0.25, 0, 0, 0]])
    for plan, dense in (
        (Plan(scores, 0.0), Plan(DenseScores(table.log2()), 0.0)),
        (Plan(scores, 0.0).transposed(), Plan(DenseScores(table.T.log2()), 0.0)),
    ):
        y = torch.arange(2.0 * plan.shape[1]).view(-1, 2)
        assert torch.equal(plan.argmax(), dense.argmax())
        torch.testing.assert_close(plan.dense(), dense.dense())
        torch.testing.assert_close(plan.apply(y), dense.apply(y))
        torch.testing.assert_close(plan.perplexity(), dense.perplexity())
        torch.testing.assert_close(plan.marginals(), dense.marginals())
        torch.testing.assert_close(plan.topk(2).to_dense(), dense.topk(2).to_dense())


def test_methods_of_a_plan_return_the_type_that_was_given():
    x = points(20, 3, 0, torch.float32)
    plan = gromov_wasserstein(x, x.flip(0), epsilon=1e-3, progress=False)
    assert plan.scores.like.dtype == torch.float64  # float32 would not resolve them
    moved = [plan.apply(x), plan.dense(), plan.topk(2), plan.perplexity(), *plan.joint_embedding()]
    assert {each.dtype for each in (*moved, plan.transposed().dense())} == {torch.float32}
    assert plan.apply(x.double()).dtype == torch.float64
