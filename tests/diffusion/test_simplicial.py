import pytest
import torch
from simplicial_cases import (
    CASES,
    IDS,
    RING,
    cliques,
    dense_parts,
    exact,
    once,
    signal,
    simplicial_diffusion,
    weights,
)
from torch_geometric import EdgeIndex

TIGHT = {"tol": 1e-13}
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("times", [(0.8, None), (0.3, 2.5), (4.0, 0.0)])
def test_is_the_matrix_exponential(name, times):
    edge_index, num_nodes = CASES[name]
    x, (w1, w2) = signal(edge_index, batch=(2,)), weights(edge_index)
    out = simplicial_diffusion(x, edge_index, None, w1, w2, *times, **TIGHT)
    expected = exact(x, dense_parts(edge_index, num_nodes, None, w1, w2), *times)
    torch.testing.assert_close(out, expected, **CLOSE)
    plain = simplicial_diffusion(x, edge_index, None, None, None, *times, **TIGHT)
    expected = exact(x, dense_parts(edge_index, num_nodes), *times)
    torch.testing.assert_close(plain, expected, **CLOSE)


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("backend", ["torch", "reference"])
def test_all_gradients_are_those_of_the_matrix_exponential(name, backend):
    edge_index, num_nodes = CASES[name]
    x, (w1, w2) = signal(edge_index), weights(edge_index)
    t, t_up = torch.tensor(0.7).double(), torch.tensor(1.9).double()
    leaves = [each.requires_grad_() for each in (x, w1, w2, t, t_up)]
    direction = signal(edge_index, seed=7)

    def gradients(out):
        found = torch.autograd.grad((out * direction).sum(), leaves, allow_unused=True)
        pairs = zip(found, leaves, strict=True)
        return [torch.zeros_like(leaf) if grad is None else grad for grad, leaf in pairs]

    options = {"backend": backend, **TIGHT}
    actual = gradients(simplicial_diffusion(x, edge_index, None, w1, w2, t, t_up, **options))
    parts = dense_parts(edge_index, num_nodes, None, w1, w2)
    expected = gradients(exact(x, parts, t, t_up))
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


def test_reference_is_differentiable_twice():
    edge_index, _ = CASES["one triangle"]
    x, (w1, w2) = signal(edge_index, 1), weights(edge_index)
    times = torch.tensor(0.7).double(), torch.tensor(1.9).double()
    inputs = [each.requires_grad_() for each in (x, w1, w2, *times)]

    def diffuse(x, w1, w2, t, t_up):
        options = {"backend": "reference", **TIGHT}
        return simplicial_diffusion(x, edge_index, None, w1, w2, t, t_up, **options)

    assert torch.autograd.gradgradcheck(diffuse, inputs, fast_mode=True)


@pytest.mark.parametrize("backend", ["torch", "reference"])
def test_weights_of_zero_get_their_gradient(backend):
    edge_index, num_nodes = CASES["random"]
    x, (_, w2) = signal(edge_index), weights(edge_index)
    grads = []
    for which in ("ours", "dense"):
        weight = torch.zeros_like(w2).requires_grad_()
        if which == "ours":
            options = {"backend": backend, **TIGHT}
            out = simplicial_diffusion(x, edge_index, triangle_weight=weight, **options)
        else:
            out = exact(x, dense_parts(edge_index, num_nodes, triangle_weight=weight), 1.0)
        (out * signal(edge_index, seed=7)).sum().backward()
        grads.append(weight.grad)
    torch.testing.assert_close(*grads, **CLOSE)
    assert grads[0].abs().min() > 1e-6


@pytest.mark.parametrize("shape", [(2,), (2, 1), (2, 3)])
@pytest.mark.parametrize("scalar_up", [False, True])
def test_scales_and_channels(shape, scalar_up):
    edge_index, num_nodes = CASES["random"]
    x = signal(edge_index, batch=(2,))
    t = torch.linspace(0.3, 2.0, torch.Size(shape).numel()).double().reshape(shape)
    t_up = 0.9 if scalar_up else t.flip(0)
    out = simplicial_diffusion(x, edge_index, t=t, t_up=t_up, **TIGHT)
    assert out.shape == (2, 2, *x.shape[1:])
    parts = dense_parts(edge_index, num_nodes)
    down = t.reshape(2, -1).expand(2, 3)
    up = torch.full_like(down, 0.9) if scalar_up else down.flip(0)
    for s in range(2):
        for c in range(3):
            expected = exact(x[..., c : c + 1], parts, down[s, c], up[s, c])
            torch.testing.assert_close(out[:, s, :, c : c + 1], expected, **CLOSE)


@pytest.mark.parametrize("name", IDS)
def test_flipping_an_edge_flips_its_signal(name):
    edge_index, _ = CASES[name]
    x, (w1, w2) = signal(edge_index), weights(edge_index)
    flip = torch.arange(x.size(0)) % 3 == 1
    sign = torch.where(flip, -1.0, 1.0).double().unsqueeze(-1)
    flipped = torch.where(flip, edge_index.flip(0), edge_index)
    out = simplicial_diffusion(x, edge_index, None, w1, w2, **TIGHT)
    other = simplicial_diffusion(sign * x, flipped, None, w1, w2, **TIGHT)
    torch.testing.assert_close(other, sign * out, **CLOSE)


def test_what_flows_around_a_hole_stays():
    around = torch.ones(RING.size(1), 1).double()
    for t in (0.1, 10.0, 1e3):
        out = simplicial_diffusion(around, RING, t=t, **TIGHT)
        torch.testing.assert_close(out, around, **CLOSE)
    # A filled ring of three has no hole.
    triangle = once([(0, 1), (1, 2), (2, 0)])
    out = simplicial_diffusion(around[:3], triangle, t=0.5, **TIGHT)
    torch.testing.assert_close(out, torch.e ** (-1.5) * around[:3], **CLOSE)
    none = torch.empty(3, 0, dtype=torch.int64)
    out = simplicial_diffusion(around[:3], triangle, none, t=0.5, **TIGHT)
    torch.testing.assert_close(out, around[:3], **CLOSE)


@pytest.mark.parametrize("name", ["random", "sparse", "parts", "ring, no triangle", "complete"])
def test_every_part_decays_at_its_own_rate(name):
    edge_index, num_nodes = CASES[name]
    down, up = dense_parts(edge_index, num_nodes)
    holes = 0
    for vector in torch.linalg.eigh(down + 1.7 * up).eigenvectors.t():
        of_down, of_up = vector @ down @ vector, vector @ up @ vector
        if not torch.allclose(down @ vector, of_down * vector, atol=1e-9):
            continue  # a mix of two parts that decay alike
        holes += int(of_down < 1e-9 and of_up < 1e-9)
        out = simplicial_diffusion(vector[:, None].clone(), edge_index, t=0.6, t_up=0.2, **TIGHT)
        decay = torch.exp(-0.6 * of_down - 0.2 * of_up)
        torch.testing.assert_close(out[:, 0], decay * vector, **CLOSE)
    # Euler: holes = edges - rank of B1 - rank of B2.
    ranks = torch.linalg.matrix_rank(down) + torch.linalg.matrix_rank(up)
    assert holes == edge_index.size(1) - ranks


def test_a_batch_of_graphs_is_the_graphs_apart():
    parts = [CASES[name] for name in ("random", "ring, no triangle", "one edge", "complete")]
    starts = torch.tensor([0] + [n for _, n in parts]).cumsum(0).tolist()
    together = torch.cat([e + s for (e, _), s in zip(parts, starts, strict=False)], dim=1)
    xs = [signal(edge_index, seed=s) for s, (edge_index, _) in enumerate(parts)]
    options = {"t": 1.3, "t_up": 0.4, **TIGHT}
    out = simplicial_diffusion(torch.cat(xs), together, **options)
    apart = [
        simplicial_diffusion(x, edge_index, **options)
        for x, (edge_index, _) in zip(xs, parts, strict=True)
    ]
    torch.testing.assert_close(out, torch.cat(apart), **CLOSE)


@pytest.mark.parametrize("shape", [(0, 20, 3), (20, 0), (2, 20, 0)])
def test_empty_signals(shape):
    edge_index, _ = CASES["random"]
    weight = torch.ones(20, requires_grad=True)
    out = simplicial_diffusion(torch.zeros(shape), edge_index, None, weight)
    assert out.shape == shape
    out.sum().backward()
    assert not weight.grad.any()


def test_a_backward_pass_under_autocast_is_in_full_precision():
    edge_index, _ = CASES["random"]
    x, (w1, w2) = signal(edge_index, dtype=torch.float32), weights(edge_index, dtype=torch.float32)
    t, grads = torch.tensor(0.8), []
    for enabled in (False, True):
        leaves = [each.clone().requires_grad_() for each in (x, w1, w2, t)]
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            out = simplicial_diffusion(leaves[0], edge_index, None, *leaves[1:])  # and backward
            grads.append(torch.autograd.grad(out.square().sum(), leaves))
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other)


def test_forms_of_edges_and_triangles():
    edge_index, _ = CASES["random"]
    x, triangles = signal(edge_index), cliques(edge_index)
    expected = simplicial_diffusion(x, edge_index)
    strided = torch.stack([edge_index[0], edge_index[1]], dim=1).t()
    for form in (edge_index.int(), strided, EdgeIndex(edge_index, sparse_size=(9, 9))):
        assert torch.equal(simplicial_diffusion(x, form), expected)
    shuffled = triangles.int().flip(0, 1)
    torch.testing.assert_close(simplicial_diffusion(x, edge_index, shuffled), expected, **CLOSE)


X, EDGES = torch.zeros(3, 2), once([(0, 1), (1, 2), (2, 0)])
PATH = {"edge_index": once([(0, 1), (1, 2), (2, 3)]), "triangles": torch.tensor([[0], [1], [3]])}


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"x": X[:2]}, ValueError, r"'x' to have shape \[..., 3, D\], a row for each column"),
        ({"edge_weight": torch.zeros(3)}, ValueError, "'edge_weight' to be positive"),
        ({"edge_index": once([(0, 1), (2, 2)])}, ValueError, "without self-loops"),
        ({"edge_index": once([(0, 1), (1, 2), (0, 1)])}, ValueError, "1 repeated columns"),
        ({"edge_index": once([(0, 1), (1, 2), (1, 0)])}, ValueError, "both directions of an edge"),
        (PATH, ValueError, r"1 without, such as \[0, 1, 3\]"),
        ({"triangles": torch.tensor([[0, 2], [1, 1], [2, 0]])}, ValueError, r"\(got 1 repeated\)"),
        ({"backend": "numba"}, ValueError, "'backend' to be one of 'auto', 'torch', 'reference'"),
    ],
)
def test_refuses(arguments, error, match):
    with pytest.raises(error, match=match):
        simplicial_diffusion(**{"x": X, "edge_index": EDGES, **arguments})
