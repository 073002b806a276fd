import pytest
import torch

from jsem_pyg.nn import AnisotropicDiffusion


def times(t):
    """What a layer learns of its times."""
    return AnisotropicDiffusion(0, t=t).time


@pytest.mark.parametrize("t", [1e-4, 0.5, 5.0, 300.0])
def test_starts_where_told_and_stays_positive(t):
    time = times(t)
    assert time().item() == pytest.approx(t, rel=1e-5)
    with torch.no_grad():
        time.raw.fill_(-20.0)
    assert time().item() > 0
    time.reset_parameters()
    assert time().item() == pytest.approx(t, rel=1e-5)


@pytest.mark.parametrize("t", [0.0, -1.0, float("nan"), [1.0, float("inf")]])
def test_what_is_not_positive_is_refused(t):
    with pytest.raises(ValueError, match="'t' to be positive and finite"):
        times(t)


def test_shapes_that_mean_nothing_are_refused():
    for t in (torch.ones(2, 3, 4), []):
        with pytest.raises(ValueError, match="'t' to be a number, a list or tensor of S scales"):
            times(t)


def test_what_is_loaded_is_what_it_was_wherever_it_began():
    time, other = times([2.0, 3.5]), times([0.1, 7.0])
    other.set(torch.tensor([1.0, 1.0]))
    time.load_state_dict(other.state_dict())
    assert time().tolist() == pytest.approx([1.0, 1.0])
    time.reset_parameters()
    assert time().tolist() == pytest.approx([2.0, 3.5])
    with torch.device("meta"):
        hollow = times(2.0)
    hollow.load_state_dict(times(3.0).state_dict(), assign=True)
    assert hollow().item() == pytest.approx(3.0)
