"""Filters against the dense answer, and each by its law."""

import copy
import math
import pickle

import pytest
import torch
from dense import dense_laplacian, exact_heat_diffusion
from torch.autograd import gradcheck

from jsem_pyg.diffusion import diffuse, filters
from jsem_pyg.graph import GraphStructure
from jsem_pyg.operators import HeatOperator, laplacian_operator

N = 9


def _graph() -> tuple[torch.Tensor, torch.Tensor]:
    """A ring with chords, a separate pair with a doubled edge, and an isolated node."""
    pairs = [(i, (i + 1) % 6) for i in range(6)] + [(0, 2), (1, 4), (6, 7), (6, 7)]
    edges = torch.tensor(pairs).T
    weight = torch.linspace(0.3, 2.0, len(pairs), dtype=torch.float64)
    return torch.cat([edges, edges.flip(0)], 1), weight.repeat(2)


EDGES, WEIGHT = _graph()
X = torch.randn(N, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
FILTERS: dict[str, filters.Filter] = {
    "heat": filters.Heat(2.0),
    "pagerank": filters.PersonalizedPageRank(0.1),
    "resolvent": filters.Resolvent(3.0),
    "low pass": filters.LowPass(0.5, order=2),
    "mexican hat": filters.Wavelets([8.0, 3.0, 1.0]),
    "function": filters.FromFunction(lambda eigenvalue: torch.cos(3 * eigenvalue)),
    "bank": filters.FilterBank(
        filters.Heat(1.0), filters.Wavelets([2.0]), filters.PersonalizedPageRank(0.3)
    ),
}


def _dense(a_filter: filters.Filter, laplacian: torch.Tensor) -> torch.Tensor:
    """f(L) by eigenvectors."""
    value, vector = torch.linalg.eigh(laplacian)
    return (vector * a_filter.response(value).unsqueeze(-2)) @ vector.T


def _operator(
    normalization: str | None = "sym", dtype: torch.dtype = torch.float64
) -> HeatOperator:
    structure = GraphStructure(EDGES, N)
    return laplacian_operator(structure, WEIGHT, normalization, dtype=dtype)


STEEP = [
    filters.Heat(1e4),
    filters.Resolvent(1e4),
    filters.PersonalizedPageRank(1e-3),
    filters.LowPass(1e-3),
    filters.Wavelets([1e3]),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("normalization", ["sym", None])
@pytest.mark.parametrize("a_filter", STEEP, ids=repr)
def test_steep_filters_keep_the_tolerance(a_filter, normalization, dtype):
    weight = WEIGHT * 20 if normalization is None else WEIGHT
    laplacian = dense_laplacian(EDGES, weight, N, normalization)
    value, vector = torch.linalg.eigh(laplacian)
    value = value.where(value > 1e-10, 0)
    exact = (vector * a_filter.response(value).unsqueeze(-2)) @ vector.T @ X
    out = a_filter(X.to(dtype), EDGES, weight.to(dtype), normalization=normalization)
    assert (out.double() - exact).abs().max() < 2e-6 * X.abs().max()


def test_a_filter_that_is_narrower_than_all_samples_is_refused():
    for degree in (None, 5):
        with pytest.raises(ValueError, match=r"got .*heat, t=1000000000000.0. with an error"):
            filters.Heat(1e12)(X, EDGES, WEIGHT, degree=degree)


def test_random_walk_is_similar_to_the_symmetric_one():
    laplacian = dense_laplacian(EDGES, WEIGHT, N, "rw")
    alpha = 0.15
    identity = torch.eye(N, dtype=torch.float64)
    exact = alpha * torch.linalg.inv(alpha * identity + (1 - alpha) * laplacian)
    out = filters.PersonalizedPageRank(alpha)(
        identity, EDGES, WEIGHT, normalization="rw", tol=1e-12
    )
    assert torch.allclose(out, exact, atol=1e-10)
    assert torch.allclose(out.sum(1), torch.ones(N, dtype=torch.float64))
    assert (out > -1e-12).all()


def test_low_pass_keeps_constants_and_halves_at_the_cutoff():
    eigenvalue = torch.tensor([0.0, 0.5, 1.0, 2.0], dtype=torch.float64)
    values = filters.LowPass(0.5, order=3).response(eigenvalue)
    assert values[0] == 1
    assert torch.isclose(values[1], values.new_tensor(0.5))
    assert (values.diff() < 0).all()
    ones = torch.ones(N, 1, dtype=torch.float64)
    out = filters.LowPass(0.5)(ones, EDGES, WEIGHT, normalization=None)
    assert torch.allclose(out, ones, atol=1e-6)


def test_wavelets_are_a_tight_frame():
    tol = 1e-9
    wavelets, operator = filters.Wavelets([8.0, 4.0, 2.0, 1.0]), _operator()
    y = diffuse(X, operator, wavelets, tol=tol)
    assert y.shape == (5, N, 3)
    assert torch.allclose(y.square().sum((0, 1)), X.square().sum(0), rtol=tol)
    pairs = zip(y, wavelets.parts, strict=True)
    back = sum(diffuse(part, operator, wavelet, tol=tol) for part, wavelet in pairs)
    assert torch.allclose(back, X, atol=5 * tol)
    dense = _dense(wavelets, dense_laplacian(EDGES, WEIGHT, N))
    assert torch.allclose(y, dense @ X, atol=tol)


def test_a_filter_is_as_precise_beside_a_larger_one():
    node = torch.arange(400)
    ring = torch.stack([node, (node + 1) % 400])
    ring, x = torch.cat([ring, ring.flip(0)], 1), torch.randn(400, 2)
    bank = filters.FilterBank(
        filters.Heat(3000.0), filters.FromFunction(lambda each: 1e4 + 0 * each)
    )
    torch.testing.assert_close(
        bank(x, ring)[0], filters.Heat(3000.0)(x, ring), rtol=1e-5, atol=1e-6
    )


def test_learned_is_the_polynomial_through_its_values():
    learned = filters.Learned(7, start=filters.Heat(1.0))
    dense = _dense(learned, dense_laplacian(EDGES, WEIGHT, N))
    out = learned(X, EDGES, WEIGHT)
    assert torch.allclose(out, dense @ X, atol=1e-6)
    assert torch.allclose(out, exact_heat_diffusion(X, EDGES, WEIGHT, 1.0), atol=1e-5)
    out.square().sum().backward()
    assert learned.value.grad.abs().min() > 0
    assert torch.allclose(filters.Learned(3)(X, EDGES, WEIGHT), X, atol=1e-6)


def test_polynomials_are_exact_at_their_degree():
    def two_steps_of_appnp(eigenvalue):
        s = 1 - eigenvalue
        return 0.1 + 0.9 * s * (0.1 + 0.9 * s)

    s = torch.eye(N, dtype=torch.float64) - dense_laplacian(EDGES, WEIGHT, N)
    exact = 0.1 * X + 0.9 * s @ (0.1 * X + 0.9 * s @ X)
    out = filters.FromFunction(two_steps_of_appnp)(X, EDGES, WEIGHT, degree=2)
    assert torch.allclose(out, exact, atol=1e-12)


@pytest.mark.parametrize("normalization", ["sym", "rw", None])
def test_gradients_in_x_weights_and_parameters(normalization):
    weight = WEIGHT[: len(WEIGHT) // 2].clone().requires_grad_()
    alpha = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    t = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    x = X.clone().requires_grad_()

    def call(x, weight, alpha, t):
        bank = filters.FilterBank(filters.PersonalizedPageRank(alpha), filters.Resolvent(t))
        given = {"normalization": normalization, "tol": 1e-10}
        return bank(x, EDGES, weight.repeat(2), **given)

    assert gradcheck(call, (x, weight, alpha, t), atol=1e-6, fast_mode=True)


@pytest.mark.parametrize(("edges", "nodes"), [(torch.zeros(2, 0, dtype=torch.long), 1), (EDGES, N)])
def test_no_edges_and_isolated_nodes_keep_the_value_at_zero(edges, nodes):
    for name, a_filter in FILTERS.items():
        out = a_filter(torch.ones(nodes, 2), edges)
        at_zero = a_filter.response(torch.zeros(1, dtype=torch.float64)).float().flatten()
        last = out[..., -1, 0].flatten()
        assert torch.allclose(last, at_zero, atol=1e-6), name


def test_errors_name_the_argument():
    with pytest.raises(ValueError, match="'alpha'"):
        filters.PersonalizedPageRank(1.5)
    with pytest.raises(ValueError, match="'t'"):
        filters.Heat(-1.0)
    with pytest.raises(ValueError, match="finite"):
        filters.FromFunction(lambda e: e / 0)(X, EDGES)
    with pytest.raises(ValueError, match="smoother filter"):
        filters.FromFunction(lambda e: (e < 0.7).double())(X, EDGES)
    for function in (lambda e: torch.exp(1j * e), lambda e: e.sum(), lambda e: torch.stack([e, e])):
        with pytest.raises(
            ValueError, match="'function.eigenvalue.' to be of shape.*a real number"
        ):
            filters.FromFunction(function)(X, EDGES)
    with pytest.raises(TypeError, match="'function.eigenvalue.' to be a torch.Tensor .got float"):
        filters.FromFunction(lambda e: 1.0)(X, EDGES)
    assert math.isfinite(float(filters.FromFunction(torch.abs)(X, EDGES, degree=3).sum()))


@pytest.mark.parametrize("name", ["low pass", "hump"])
def test_steep_functions_of_large_eigenvalues_are_as_precise(name):
    """Eigenvalues of 1e5, which float32 keeps to 1e-2 only."""
    form = {
        "low pass": filters.LowPass(100.0, order=4),
        "hump": filters.FromFunction(lambda at: torch.exp(-(((at - 3000) / 100) ** 2))),
    }[name]
    weight = 1e5 * WEIGHT
    value, vector = torch.linalg.eigh(dense_laplacian(EDGES, weight, N, None))
    wanted = vector @ (form.response(value).unsqueeze(1) * (vector.T @ X))
    found = form(X.float(), EDGES, weight.float(), normalization=None)
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=1e-5)


def test_the_slope_of_the_heat_is_its_time_in_units_of_the_rate():
    for rate in (1e-3, 1.0, 1e4):
        assert filters.Heat(2.0).slope(rate) == pytest.approx(2 * rate, rel=1e-2, abs=1e-3)
        assert filters.Learned(6, filters.Heat(2.0)).slope(rate) == pytest.approx(2.0, rel=0.1)


def test_flat_filter_has_its_derivative():
    class Wave(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.height = torch.nn.Parameter(torch.zeros((), dtype=torch.float64))

        def forward(self, eigenvalue: torch.Tensor) -> torch.Tensor:
            return 1 + self.height * torch.cos(3 * eigenvalue)

    alpha = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    for flat in (filters.PersonalizedPageRank(alpha), filters.FromFunction(Wave())):
        (number,) = flat._learned
        seen = flat(X, EDGES, WEIGHT, tol=1e-10)
        true = _dense(flat, dense_laplacian(EDGES, WEIGHT, N)) @ X
        torch.testing.assert_close(
            *(torch.autograd.grad((each * X).sum(), number)[0] for each in (seen, true))
        )


def _start(value: float) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor(value))


# Each formula, a number of it, the end of its domain, and how it is made.
TOWARDS_BORDERS = {
    "heat": (lambda: filters.Heat(_start(0.5)), "t", math.inf),
    "pagerank": (lambda: filters.PersonalizedPageRank(_start(0.1)), "alpha", 1.0),
    "resolvent": (lambda: filters.Resolvent(_start(0.5)), "t", math.inf),
    "low pass": (lambda: filters.LowPass(_start(0.5)), "cutoff", math.inf),
    "wavelets": (lambda: filters.Wavelets([_start(0.5), _start(2.0)]), "t1", math.inf),
}


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", TOWARDS_BORDERS)
def test_a_learned_number_stays_in_its_domain(name, sign):
    make, of, high = TOWARDS_BORDERS[name]
    learned = copy.deepcopy(make())
    pickle.dumps(filters.Learned(4, start=learned if name != "wavelets" else None))
    part = getattr(learned, "parts", [learned])[0]
    first = float(getattr(part, of).detach())
    optimizer = torch.optim.Adam(learned.parameters(), lr=0.5)
    for _ in range(8):
        optimizer.zero_grad()
        assert learned(X, EDGES, WEIGHT).isfinite().all()
        (sign * getattr(part, of)).backward()  # whatever a loss may ask for
        optimizer.step()
    last = float(getattr(part, of).detach())
    assert 0 < last <= high
    assert sign * (first - last) > 0.1 * first
    learned.reset_parameters()
    assert float(getattr(part, of).detach()) == first


def test_training_shrinks_a_time_that_is_too_long_and_never_below_zero():
    learned = filters.FilterBank(
        filters.Heat(_start(0.3)), filters.PersonalizedPageRank(_start(0.9))
    )
    optimizer = torch.optim.Adam(learned.parameters(), lr=0.5)
    for _ in range(20):  # the identity is best: t = 0, alpha = 1
        optimizer.zero_grad()
        (learned(X, EDGES, WEIGHT) - X).square().mean().backward()
        optimizer.step()
    heat, ranks = learned.parts
    assert 0 < float(heat.t.detach()) < 0.01
    assert 0.99 < float(ranks.alpha.detach()) <= 1


def test_a_number_that_leaves_its_domain_is_named():
    t = torch.tensor(1.0, requires_grad=True)
    heat = filters.Heat(t)
    with torch.no_grad():
        t -= 1.4
    with pytest.raises(ValueError, match="'t' to be positive and finite .got -0.3"):
        heat(X, EDGES, WEIGHT)
    with pytest.raises(ValueError, match="'alpha' to be below 1 where it is learned"):
        filters.PersonalizedPageRank(_start(1.0))
    with pytest.raises(ValueError, match="'cutoff' to be a single number"):
        filters.LowPass(torch.ones(2))
