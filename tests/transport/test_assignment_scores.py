import torch

from jsem_pyg.transport import Plan
from jsem_pyg.transport.plan.scores import AssignmentScores, DenseScores

SCORES = AssignmentScores(
    torch.tensor([2, -1, 0]), torch.tensor([-1.0, -torch.inf, -2.0]), num_targets=4
)
DENSE = torch.tensor([[0, 0, 0.5, 0], [0, 0, 0, 0], [0.25, 0, 0, 0]])


def test_rows_are_those_of_the_dense_plan():
    plan = Plan(SCORES, cost=0.0)
    torch.testing.assert_close(plan.dense(), DENSE)
    torch.testing.assert_close(SCORES.rows(1, 3).exp2(), DENSE[1:])
    assert plan.argmax().tolist() == [2, -1, 0]


def test_the_transposed_plan_goes_back():
    plan = Plan(SCORES, cost=0.0).transposed()
    assert plan.shape == (4, 3)
    torch.testing.assert_close(plan.dense(), DENSE.T)
    torch.testing.assert_close(plan.transposed().dense(), DENSE)


def test_what_a_plan_answers_is_what_the_dense_one_does():
    plan, dense = Plan(SCORES, cost=0.0), Plan(DenseScores(DENSE.log2()), cost=0.0)
    y = torch.arange(8.0).view(4, 2)
    torch.testing.assert_close(plan.apply(y), dense.apply(y))
    torch.testing.assert_close(plan.perplexity(), dense.perplexity())
    torch.testing.assert_close(plan.marginals(), dense.marginals())
