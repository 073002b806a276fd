import pytest
import torch
from simplicial_cases import CASES, cliques, dense_parts, exact, once, signal, weights

from jsem_pyg.nn import SimplicialDiffusion

TIGHT = {"tol": 1e-13}


def test_is_the_heat_of_the_hodge_laplacian():
    edge_index, num_nodes = CASES["random"]
    x, parts = signal(edge_index, batch=(2,)), dense_parts(edge_index, num_nodes)
    for t_up in (None, 2.0):
        layer = SimplicialDiffusion(t=0.7, t_up=t_up, **TIGHT).double()
        torch.testing.assert_close(layer(x, edge_index), exact(x, parts, layer.t, layer.t_up))


def test_weights_and_given_triangles():
    edge_index, num_nodes = CASES["complete"]
    triangles = cliques(edge_index)[:, [3, 1, 7]]
    x, (w1, w2) = signal(edge_index), weights(edge_index)
    layer = SimplicialDiffusion(0.7, 1.5, **TIGHT).double()
    out = layer(x, edge_index, triangles, w1, w2[:3])
    parts = dense_parts(edge_index, num_nodes, triangles, w1, w2[:3])
    torch.testing.assert_close(out, exact(x, parts, layer.t, layer.t_up))


@pytest.mark.parametrize("name", ["random", "ring, no triangle", "no edges"])
def test_every_parameter_receives_a_gradient(name):
    edge_index, _ = CASES[name]
    layer = SimplicialDiffusion(t=0.7)
    layer(signal(edge_index, dtype=torch.float32), edge_index).square().sum().backward()
    for parameter in layer.parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()
    assert name != "random" or all(parameter.grad != 0 for parameter in layer.parameters())
    fixed = SimplicialDiffusion(t=0.7, learn_t=False)
    assert not any(parameter.requires_grad for parameter in fixed.parameters())


def test_the_complex_is_prepared_once(monkeypatch):
    edge_index, _ = CASES["random"]
    triangles = cliques(edge_index)
    layer, x = SimplicialDiffusion(), signal(edge_index, dtype=torch.float32)
    made, sort = [], torch.Tensor.sort  # the nodes of each triangle
    monkeypatch.setattr(torch.Tensor, "sort", lambda *given: made.append(1) or sort(*given))
    for _ in range(3):
        layer(x, edge_index, triangles)
    assert len(made) == 1
    triangles[:, 0] = triangles[:, 0].flip(0)  # in place: read again
    layer(x, edge_index, triangles)
    assert len(made) == 2


def test_a_complex_that_inference_saw_first_can_be_trained_on():
    edge_index, _ = CASES["random"]
    layer, x = SimplicialDiffusion(), signal(edge_index, dtype=torch.float32)
    with torch.inference_mode():
        seen = layer(x, edge_index)
    out = layer(x, edge_index)
    out.sum().backward()
    torch.testing.assert_close(out, seen)
    assert layer.time.raw.grad.isfinite()


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: SimplicialDiffusion(t=0.0), "'t' to be positive"),
        (lambda: SimplicialDiffusion(t=1.0, t_up=[1.0, 2.0]), r"'t_up' to have the shape of 't'"),
        (
            lambda: SimplicialDiffusion()(torch.zeros(3, 1), once([(0, 1), (1, 2)])),
            r"'x' to have shape \[..., 2, D\]",
        ),
    ],
)
def test_bad_calls_are_refused(call, match):
    with pytest.raises(ValueError, match=match):
        call()
