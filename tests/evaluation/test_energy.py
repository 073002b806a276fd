import pytest
import torch
from torch_geometric.utils import get_laplacian, to_dense_adj, to_undirected

from jsem_pyg.evaluation import dirichlet_energy


def random_graph(num_nodes=12):
    """A weighted graph whose last node is isolated, and a signal, in double precision."""
    generator = torch.Generator().manual_seed(3)
    pairs = torch.randint(num_nodes - 1, (2, 30), generator=generator)
    pairs = pairs[:, pairs[0] != pairs[1]]
    weight = torch.rand(pairs.size(1), generator=generator, dtype=torch.double)
    edge_index, edge_weight = to_undirected(pairs, weight, num_nodes)
    return torch.randn(num_nodes, 5, generator=generator).double(), edge_index, edge_weight


@pytest.mark.parametrize("normalization", ["sym", None])
def test_equals_the_trace_with_the_dense_laplacian(normalization):
    x, edge_index, edge_weight = random_graph()
    index, value = get_laplacian(edge_index, edge_weight, normalization, num_nodes=len(x))
    laplacian = to_dense_adj(index, edge_attr=value, max_num_nodes=len(x))[0]
    if normalization == "sym":
        laplacian[-1, -1] = 0  # by our convention: an isolated node contributes nothing
    expected = torch.trace(x.T @ laplacian @ x)
    energy = dirichlet_energy(x, edge_index, edge_weight, normalization)
    torch.testing.assert_close(energy, expected)


def test_hand_computed_on_a_path():
    edge_index, x = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.tensor([[1.0], [2.0], [4.0]])
    assert dirichlet_energy(x, edge_index, normalization=None).item() == 1 + 4
    weight = torch.tensor([3.0, 3, 1, 1])
    assert dirichlet_energy(x, edge_index, weight, normalization=None).item() == 3 + 4
    relative = dirichlet_energy(x, edge_index, normalization=None, relative=True)
    assert relative.item() == pytest.approx(5 / 21)


def test_vanishes_on_the_kernel_and_reaches_two_on_a_bipartite_graph():
    edge_index = to_undirected(torch.tensor([[0, 0, 0], [1, 2, 3]]))  # a star
    root_degree = torch.tensor([[3.0], [1.0], [1.0], [1.0]]).sqrt()
    assert dirichlet_energy(root_degree, edge_index).item() == pytest.approx(0, abs=1e-12)
    flipped = root_degree * torch.tensor([[-1.0], [1.0], [1.0], [1.0]])
    assert dirichlet_energy(flipped, edge_index, relative=True).item() == pytest.approx(2)
    assert dirichlet_energy(torch.ones(4, 1), edge_index, normalization=None).item() == 0


def test_leading_dimensions_are_a_batch():
    x, edge_index, edge_weight = random_graph()
    batch = torch.stack([x, 2 * x, x.flip(0)])
    for relative in (False, True):
        energy = dirichlet_energy(batch, edge_index, edge_weight, relative=relative)
        alone = [dirichlet_energy(x, edge_index, edge_weight, relative=relative) for x in batch]
        torch.testing.assert_close(energy, torch.stack(alone))


def test_an_energy_beyond_its_type_is_refused():
    edge_index, weight = torch.tensor([[0, 1], [1, 0]]), torch.full((2,), 1e20)
    with pytest.raises(ValueError, match="'the energy of x' to be finite"):
        dirichlet_energy(torch.tensor([[1e12], [0.0]]), edge_index, weight, None)


@pytest.mark.parametrize("normalization", ["sym", None])
@pytest.mark.parametrize("relative", [False, True])
def test_gradients(normalization, relative):
    x, edge_index, edge_weight = random_graph()

    def energy(x, weight):
        return dirichlet_energy(x, edge_index, weight, normalization, relative=relative)

    assert torch.autograd.gradcheck(energy, (x.requires_grad_(), edge_weight.requires_grad_()))
