import pytest
import torch
from transport.problems import masses, points

from jsem_pyg.transport import Factor, gromov_wasserstein
from jsem_pyg.transport.problem.prepare import prepare_factor
from jsem_pyg.transport.problem.problem import LOG2E, make_problem, resolved


def problem(dtype=torch.float32, kind="kernel"):
    p, q = masses(20, 1, dtype), masses(15, 2, dtype)
    first, second = Factor(points(20, 4, 0, dtype), kind), Factor(points(15, 3, 1, dtype), kind)
    return make_problem(prepare_factor(first, p), prepare_factor(second, q), p, q)


def test_what_float64_cannot_tell_apart_is_refused_with_what_it_can():
    given = problem()
    smallest = given.largest_score * LOG2E / 2.0**38
    resolved(given, 1.01 * smallest, 3.0)
    with pytest.raises(ValueError, match="'epsilon' to be at least") as caught:
        resolved(given, 0.5 * smallest, 3.0)
    words = str(caught.value)
    assert f"at least {3 * smallest:.3g} " in words
    assert f"(got {1.5 * smallest:.3g})" in words


def test_methods_of_a_plan_return_the_type_that_was_given():
    x = points(20, 3, 0, torch.float32)
    plan = gromov_wasserstein(x, x.flip(0), epsilon=1e-3, progress=False)
    assert plan.scores.like.dtype == torch.float64  # float32 would not resolve them
    moved = [plan.apply(x), plan.dense(), plan.topk(2), plan.perplexity(), *plan.joint_embedding()]
    assert {each.dtype for each in (*moved, plan.transposed().dense())} == {torch.float32}
    assert plan.apply(x.double()).dtype == torch.float64
