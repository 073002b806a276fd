"""Filters, masses of nodes and layers with both, against dense algebra.

A few cases in every run, as many as `JSEM_CASES` on demand, see `settings.py`. The formulas of the
filters are written a second time here.
"""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from trust.draws import NORMALIZATIONS, SEEDS, SPARSE, generator, graphs, lay_out, signals
from trust.oracle import distance
from trust.settings import draws

from jsem_pyg.diffusion import diffuse, filters
from jsem_pyg.graph import GraphStructure
from jsem_pyg.operators import laplacian_operator

MILD = ((0, 0), (-1, 1))  # exponents of weights: an unnormalised spectrum is as wide
NUMBERS = st.sampled_from([0.05, 0.3, 1.0])


@st.composite
def drawn_filters(draw):
    """A filter, and its response to eigenvalues [N] as a function: [N] -> [S, N]."""
    number = draw(NUMBERS)
    kind = draw(
        st.sampled_from(["heat", "pagerank", "resolvent", "low", "function", "hat", "bank"])
    )
    if kind == "heat":
        return filters.Heat(20 * number), lambda e: torch.exp(-20 * number * e)[None]
    if kind == "pagerank":
        return filters.PersonalizedPageRank(number), lambda e: (
            number / (1 - (1 - number) * (1 - e))
        )[None]
    if kind == "resolvent":
        return filters.Resolvent(9 * number), lambda e: (1 / (1 + 9 * number * e))[None]
    if kind == "low":
        return filters.LowPass(1 + number, 2), lambda e: (1 / (1 + (e / (1 + number)) ** 4))[None]
    if kind == "function":
        return filters.FromFunction(torch.cos), lambda e: torch.cos(e)[None]
    scales = [4 * number, 1.5]
    if kind == "hat":
        return filters.Wavelets(scales), lambda e: _hats(e, sorted(scales, reverse=True))
    bank = filters.FilterBank(filters.Heat(number), filters.Wavelets(scales[:1]))
    return bank, lambda e: torch.cat([torch.exp(-number * e)[None], _hats(e, scales[:1])])


def _hats(eigenvalue, scales):
    low = math.exp(-1) * torch.exp(-((scales[0] * eigenvalue / 0.6) ** 4))
    bands = [t * eigenvalue * torch.exp(-t * eigenvalue) for t in scales]
    raw = torch.stack([low, *bands])
    return raw / raw.square().sum(0).sqrt()


def dense(edge_index, weight, num_nodes, normalization, mass=None, self_loop=0.0):
    """A symmetric matrix [N, N] similar to the Laplacian, and what scales it: L = M^-1/2 . M^1/2"""
    zeros = weight.new_zeros(num_nodes, num_nodes)
    w = zeros.index_put(tuple(edge_index), weight, accumulate=True)
    w = (w + w.T) / 2
    one = weight.new_ones(num_nodes)
    if normalization is None:
        scale = one if mass is None else mass
        laplacian = w.sum(1).diag() - w
        return laplacian / scale.sqrt()[:, None] / scale.sqrt()[None, :], scale
    w = w + self_loop * one.diag()
    degree = w.sum(1)
    scale = torch.where(degree > 0, degree, 1.0)
    laplacian = (degree > 0).to(w).diag() - w / scale.sqrt()[:, None] / scale.sqrt()[None, :]
    return laplacian, scale if normalization == "rw" else one


def filtered(response, laplacian, scale, x):
    """[S, N, D]."""
    value, vector = torch.linalg.eigh(laplacian)
    inside = vector.T @ (scale.sqrt()[:, None] * x)
    of_bands = vector @ (response(value.clamp(min=0)).unsqueeze(-1) * inside)
    return of_bands / scale.sqrt()[:, None]


def masses(data, num_nodes, normalization):
    if normalization is not None or not data.draw(st.booleans()):
        return None
    g = generator(data.draw(SEEDS))
    mass = 0.2 + torch.rand(num_nodes, generator=g, dtype=torch.float64)
    return lay_out(mass, data.draw(st.sampled_from(["contiguous", "strided"])))


def problem(data, dtypes=("float32", "float64")):
    graph = data.draw(graphs(exponents=MILD))
    x = data.draw(signals(graph.num_nodes, dtypes=dtypes, batches=False))
    x = x / max(float(x.abs().max()), 1e-300)
    normalization = data.draw(NORMALIZATIONS)
    return graph, x, normalization, masses(data, graph.num_nodes, normalization)


def bound(x, scale):
    """Of the difference, relative to the signal: both scalings may amplify an error."""
    spread = float((scale.max() / scale.min()).sqrt())
    return (2e-5 if x.dtype == torch.float32 else 1e-5) * spread


@draws(15)
@given(st.data())
def test_filters(data):
    graph, x, normalization, mass = problem(data)
    chosen, response = data.draw(drawn_filters())
    weight = None if graph.form in SPARSE else graph.weight
    size = graph.exact_weight
    laplacian, scale = dense(graph.edge_index, size, graph.num_nodes, normalization, mass)
    expected = filtered(response, laplacian, scale, x.double())
    options = {"normalization": normalization, "node_mass": mass}
    out = chosen(x, graph.given, weight, **options)
    assert out.dtype == x.dtype
    assert out.shape == (expected.shape if chosen.num_filters else x.shape)
    assert distance(out.reshape(expected.shape), expected, 1e-12 + x.double().norm()) <= bound(
        x, scale
    )
    structure = GraphStructure(graph.edge_index, graph.num_nodes)
    exact = size.to(x.dtype)
    again = diffuse(x, laplacian_operator(structure, exact, **options), chosen)
    assert distance(again.reshape(expected.shape), expected, 1e-12 + x.double().norm()) <= bound(
        x, scale
    )
