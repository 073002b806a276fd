import pytest
import torch

from jsem_pyg.nn.running_mean import RunningMean


def test_training_gives_the_mean_of_the_call_and_evaluation_that_of_training():
    mean = RunningMean(2)
    rows = torch.tensor([[1.0, 2.0], [3.0, 6.0]])
    assert mean(rows).tolist() == [2.0, 4.0]
    assert mean(3 * rows).tolist() == [6.0, 12.0]
    mean.eval()
    for other in (rows, 100 * rows, rows[:0]):
        assert mean(other).tolist() == [4.0, 8.0]


def test_without_training_it_is_the_mean_of_the_call():
    mean = RunningMean(1).eval()
    for value in (1.0, 5.0):
        assert mean(torch.tensor([[value]])).item() == value
    mean.train()
    mean(torch.tensor([[3.0]]))
    assert mean.eval()(torch.tensor([[9.0]])).item() == 3
    mean.reset()
    assert mean(torch.tensor([[9.0]])).item() == 9


def test_all_calls_count_alike_at_first_and_the_last_ten_or_so_in_the_end():
    mean, values = RunningMean(1).double(), torch.arange(30, dtype=torch.float64)
    expected = 0.0
    for number, value in enumerate(values, start=1):
        mean(value.view(1, 1))
        expected += max(0.1, 1 / number) * (value.item() - expected)
        assert mean.mean.item() == pytest.approx(expected)
        if number <= 10:
            assert expected == pytest.approx(values[:number].mean().item())
    assert expected > 20


def test_no_rows_teach_nothing():
    mean = RunningMean(2)
    mean(torch.empty(0, 2))
    mean(torch.ones(4, 2))
    mean(torch.empty(0, 2))
    assert mean.eval()(torch.zeros(1, 2)).tolist() == [1.0, 1.0]


def test_gradients_flow_through_the_mean_of_the_call_alone():
    mean, rows = RunningMean(1), torch.ones(4, 1, requires_grad=True)
    (gradient,) = torch.autograd.grad(mean(rows).sum(), rows)
    torch.testing.assert_close(gradient, torch.full((4, 1), 0.25))
    assert not mean.mean.requires_grad
    (gradient,) = torch.autograd.grad(mean.eval()(rows).sum(), rows)
    assert not gradient.any()
