import pytest
import torch
from torch_geometric.data import Data
from transport.problems import points

from jsem_pyg.transport import FeatureCost


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_are_squared_distances_and_inner_products(dtype):
    x = points(7, 3, dtype=dtype)
    torch.testing.assert_close(FeatureCost()(x).dense(), torch.cdist(x, x).square())
    torch.testing.assert_close(FeatureCost("kernel")(x).dense(), x @ x.T)
    assert FeatureCost()(x).error == 0


def test_normalized_are_cosines():
    x = points(7, 3) * torch.logspace(-6, 6, 7, dtype=torch.float64)[:, None]
    cosine = FeatureCost("kernel", normalize=True)(x).dense()
    torch.testing.assert_close(cosine.diagonal(), torch.ones(7, dtype=torch.float64))
    unit = points(7, 3) / points(7, 3).norm(dim=1, keepdim=True)
    torch.testing.assert_close(cosine, unit @ unit.T)


@pytest.mark.parametrize("kind", ["sqdist", "kernel"])
@pytest.mark.parametrize("normalize", [False, True])
def test_gradients_in_x(kind, normalize):
    cost = FeatureCost(kind, normalize)
    x = points(5, 3).requires_grad_()
    # Off the diagonal, where the root in a distance has a derivative.
    apart = ~torch.eye(5, dtype=torch.bool)
    assert torch.autograd.gradcheck(lambda x: cost(x).dense()[apart], x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_centred_copies_of_one_point_are_zero_wherever_it_stands(dtype):
    """Their rounding was their extent, too small for every temperature."""
    for seed in range(9):
        copies = 100 * points(1, 3, seed=seed, dtype=dtype).repeat(20, 1)
        assert not FeatureCost("kernel", center=True)(copies).x.any()


def test_refuses():
    with pytest.raises(ValueError, match="rows of 'source' that have a direction.*1 that are zero"):
        FeatureCost(normalize=True)(torch.tensor([[0.0, 0.0], [1.0, 0.0]]))
    with pytest.raises(ValueError, match="points in 'x' or 'pos'"):
        FeatureCost()(Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2))
