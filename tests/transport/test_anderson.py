import pytest
import torch
from transport.problems import points

from jsem_pyg.transport.sinkhorn.anderson import MEMORY, Mixer


def linear(seed, size=5, radius=0.95):
    """A contraction x -> A x + b, and its fixed point."""
    a = points(size, size, seed)
    a = radius * (a + a.T) / torch.linalg.matrix_norm(a + a.T, 2)
    b = points(size, 1, seed + 50)[:, 0]
    return a, b, torch.linalg.solve(torch.eye(size).double() - a, b)


def iterate(a, b, steps, mixer):
    x = torch.zeros_like(b)
    for _ in range(steps):
        residual = (x[..., None, :] @ a.mT)[..., 0, :] + b - x
        x = mixer.next(x, residual)
    return x


@pytest.mark.parametrize("seed", range(2))
def test_a_linear_problem_ends_after_as_many_steps_as_unknowns(seed):
    a, b, fixed = linear(seed)
    x = iterate(a, b, 8, Mixer(torch.ones(5).double()))
    plain = torch.zeros_like(b)
    for _ in range(8):
        plain = a @ plain + b
    assert float((x - fixed).norm()) < 1e-4 * float((plain - fixed).norm())


def test_problems_of_a_batch_do_not_mix():
    problems = [linear(seed) for seed in range(3)]
    a, b = (torch.stack([each[i] for each in problems]) for i in range(2))
    together = iterate(a, b, 6, Mixer(torch.ones(5).double()))
    alone = [iterate(*each[:2], 6, Mixer(torch.ones(5).double())) for each in problems]
    torch.testing.assert_close(together, torch.stack(alone))


def test_memory_is_short_and_a_jump_clears_it():
    mixer = Mixer(torch.ones(5).double())
    a, b, _ = linear(2, radius=0.999)
    iterate(a, b, MEMORY + 4, mixer)
    assert len(mixer.steps) == len(mixer.changes) == MEMORY
    x = torch.zeros(5).double()
    torch.testing.assert_close(mixer.next(x, 1e3 * b), 1e3 * b)
    assert not mixer.steps
