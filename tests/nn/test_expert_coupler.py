import pytest
import torch
from hypergraph_cases import every

from jsem_pyg.nn import ExpertCoupler


def bend(coupler):
    torch.nn.init.constant_(coupler.gain, 0.5)
    return coupler


def test_a_new_coupler_changes_nothing():
    x = torch.randn(2, 3, 6, 4)
    assert torch.equal(ExpertCoupler(6, 4)(x), x)


@pytest.mark.parametrize("hyperedges", [2, 3, 6, torch.tensor([[0, 1, 2, 5], [0, 0, 1, 1]])])
def test_all_tokens_at_once_are_the_tokens_one_by_one(hyperedges):
    x, coupler = torch.randn(2, 3, 6, 4), bend(ExpertCoupler(6, 4, hyperedges, t=[0.5, 2.0]))
    tokens = torch.stack([coupler(token) for token in x.flatten(0, 1)]).unflatten(0, (2, 3))
    torch.testing.assert_close(coupler(x), tokens)
    assert not torch.allclose(tokens, x, atol=0.1)


def test_every_set_is_a_hyperedge_with_a_weight_in_every_layer():
    coupler = ExpertCoupler(5, 4, hyperedges=3, num_layers=3)
    assert torch.equal(coupler.hyperedge_index, every(5, 3))
    assert coupler.hyperedge_weight.shape == (3, 10)
    assert str(coupler) == "ExpertCoupler(5, 4, num_hyperedges=10, num_layers=3)"


def test_everything_learns_once_the_gain_has_left_zero():
    coupler, x = ExpertCoupler(5, 4), torch.randn(7, 5, 4)
    coupler(x).square().sum().backward()
    assert coupler.gain.grad.abs().min() > 0
    bend(coupler)(x).square().sum().backward()
    for name, parameter in coupler.named_parameters():
        assert parameter.grad.abs().max() > 0, name


def test_reset_and_state():
    coupler, x = bend(ExpertCoupler(5, 4)), torch.randn(7, 5, 4)
    expected = coupler(x)
    other = ExpertCoupler(5, 4)
    other.load_state_dict(coupler.state_dict())
    torch.testing.assert_close(other(x), expected)
    coupler.reset_parameters()
    assert torch.equal(coupler(x), x)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="'hyperedges' to be at most the number of experts, 4"):
        ExpertCoupler(4, 8, hyperedges=5)
    with pytest.raises(TypeError, match="'hyperedges' to be a positive integer"):
        ExpertCoupler(4, 8, hyperedges="pairs")
    with pytest.raises(ValueError, match="'num_layers' to be a positive"):
        ExpertCoupler(4, 8, num_layers=0)
    with pytest.raises(ValueError, match="node numbers"):
        ExpertCoupler(4, 8, hyperedges=torch.tensor([[4], [0]]))
    with pytest.raises(ValueError, match=r"'x' to have shape \[..., 4, 8\]"):
        ExpertCoupler(4, 8)(torch.randn(2, 8, 4))
