from copy import deepcopy

import pytest
import torch
from torch_geometric.data import Data
from training.training_cases import two_clusters

from jsem_pyg.nn import AnisotropicDiffusion, DiffusionClassifier
from jsem_pyg.training import fit


def test_what_cannot_be_diffused_on_is_refused():
    for name, bad, message in (
        ("edge_index", torch.tensor([[0], [1]]), "'edge_index' to be undirected"),
        ("x", torch.full((24, 6), torch.inf), "'data.x' to be finite"),
        ("edge_attr", torch.ones(97, 2), r"'data.edge_attr' to have 98 rows.*\[97, 2\]"),
        ("edge_attr", torch.tensor(1.0), "'data.edge_attr' to have 98 rows"),
    ):
        data = two_clusters()
        if name == "edge_index":
            data = Data(x=data.x)
        data[name] = bad
        with pytest.raises(ValueError, match=message):
            fit(AnisotropicDiffusion(1), data, progress=False)


@pytest.mark.parametrize("model", [DiffusionClassifier(6, 2), AnisotropicDiffusion(1)])
def test_no_gradient_flows_back_to_the_data(model):
    """Features of an encoder, and weights of a layer before."""
    data, leaf = two_clusters(), torch.ones(1, requires_grad=True)
    if isinstance(model, DiffusionClassifier):
        del data.edge_attr
    start = deepcopy(model.state_dict())
    expected = fit(model, data, epochs=3, progress=False).model.state_dict()
    model.load_state_dict(start)
    data.x, data.edge_weight = leaf * data.x, leaf * data.edge_weight
    found = fit(model, data, epochs=3, progress=False).model.state_dict()
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert leaf.grad is None
