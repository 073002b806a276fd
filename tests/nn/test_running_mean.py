import pytest
import torch

from jsem_pyg.nn import DiffusionClassifier


def test_all_calls_count_alike_at_first_and_the_last_ten_or_so_in_the_end():
    mean, values = DiffusionClassifier(1, 2).double().center, torch.arange(30, dtype=torch.float64)
    expected = 0.0
    for number, value in enumerate(values, start=1):
        mean(value.view(1, 1))
        expected += max(0.1, 1 / number) * (value.item() - expected)
        assert mean.mean.item() == pytest.approx(expected)
        if number <= 10:
            assert expected == pytest.approx(values[:number].mean().item())
    assert expected > 20


def test_no_rows_teach_nothing():
    mean = DiffusionClassifier(2, 2).center
    for count in (0, 4, 0):
        mean(torch.ones(count, 2))
    assert mean.eval()(torch.zeros(1, 2)).tolist() == [1.0, 1.0]
