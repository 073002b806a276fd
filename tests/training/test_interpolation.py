"""Interpolation by a Gaussian process: scikit-learn's numbers, dense formulas, laws, bad input."""

import itertools
import math

import numpy as np
import pytest
import torch
from dense import dense_laplacian
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import DotProduct
from torch.testing import assert_close
from torch_geometric.data import Data

from jsem_pyg.nn import SigmoidConductance
from jsem_pyg.training import interpolate

KERNELS = {
    "heat": lambda t: lambda value: np.exp(-t * value),
    "matern": lambda t: lambda value: (1 + t * value) ** -1.5,
}
HEAT = {"kernel": "heat", "normalization": "sym"}


def grid(side, seed=0):
    """A grid with random weights, and for each edge its kind and a random number."""
    g = torch.Generator().manual_seed(seed)
    node = torch.arange(side * side).reshape(side, side)
    once = torch.cat(
        [
            torch.stack([node[:-1].flatten(), node[1:].flatten()]),
            torch.stack([node[:, :-1].flatten(), node[:, 1:].flatten()]),
        ],
        1,
    )
    weight = 0.5 + torch.rand(once.size(1), generator=g)
    kind = (torch.rand(once.size(1), generator=g) < 0.3).float() * 2 - 1
    attr = torch.stack([kind, torch.randn(once.size(1), generator=g)], 1)
    return Data(
        edge_index=torch.cat([once, once.flip(0)], 1),
        edge_weight=weight.repeat(2),
        edge_attr=attr.repeat(2, 1),
        num_nodes=side * side,
    )


def dense_kernel(data, function, normalization, weight=None):
    weight = data.edge_weight if weight is None else weight
    laplacian = dense_laplacian(
        data.edge_index, weight.double(), num_nodes=data.num_nodes, normalization=normalization
    )
    value, mode = np.linalg.eigh(laplacian.numpy())
    return (mode * function(value)) @ mode.T


def draw(data, function, num_signals, noise, seed=0, weight=None):
    """Signals [N, S] of the process, with and without noise."""
    kernel = dense_kernel(data, function, "sym", weight)
    kernel = kernel / kernel.diagonal().mean()
    rng = np.random.default_rng(seed)
    value, mode = np.linalg.eigh(kernel)
    root = mode * np.sqrt(value.clip(0))
    signal = root @ rng.normal(size=(len(kernel), num_signals)) + 3.0
    return torch.from_numpy(signal), torch.from_numpy(
        signal + noise * rng.normal(size=signal.shape)
    )


@pytest.mark.parametrize("normalization", [None, "sym"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_numbers_are_those_of_scikit_learn(kernel, normalization, monkeypatch):
    # The most likely kernel alone.
    monkeypatch.setattr("jsem_pyg.training.signals.interpolation.POINTS", 1)
    data = grid(6)
    _, y = draw(data, KERNELS[kernel](4.0), 1, 0.2)
    observed = torch.randperm(36, generator=torch.Generator().manual_seed(0))[:20]
    found = interpolate(data, y[observed, 0], observed, kernel=kernel, normalization=normalization)
    matrix = dense_kernel(data, KERNELS[kernel](found.t), normalization)
    own = observed.numpy()
    matrix = float(found.amplitude) ** 2 * matrix / matrix[own, own].mean()
    noise = float(found.noise) ** 2
    ones = np.linalg.solve(matrix[own][:, own] + noise * np.eye(20), np.ones(20))
    mean = ones @ y[observed, 0].numpy() / ones.sum()
    value, mode = np.linalg.eigh(matrix)
    root = mode * np.sqrt(value.clip(0))
    peer = GaussianProcessRegressor(DotProduct(1e-9), alpha=noise, optimizer=None)
    peer.fit(root[own], y[observed, 0].numpy() - mean)
    expected, deviation = peer.predict(root, return_std=True)
    assert_close(found.mean.numpy(), expected + mean, rtol=1e-5, atol=1e-5)
    unexplained = 1 - matrix[:, own] @ ones  # of the mean, which is not known
    deviation = np.sqrt(deviation**2 + unexplained**2 / ones.sum())
    assert_close(found.deviation.numpy(), deviation, rtol=1e-4, atol=1e-5)
    # The amplitude divides by the degrees of freedom, 19, the likelihood is largest by 20.
    expected = peer.log_marginal_likelihood_value_ + 10 * math.log(20 / 19) - 0.5
    assert found.log_likelihood == pytest.approx(expected, rel=1e-5)


def test_no_other_parameters_are_more_likely(monkeypatch):
    """Those that were found are compared with their neighbours, by the dense formula."""
    monkeypatch.setattr("jsem_pyg.training.signals.interpolation.POINTS", 1)
    data = grid(6)
    _, y = draw(data, KERNELS["heat"](3.0), 5, 0.3)
    observed = torch.arange(0, 36, 2)
    found = interpolate(data, y[observed], observed, **HEAT)

    def likelihood(t, ratio):
        matrix = dense_kernel(data, KERNELS["heat"](t), "sym")[::2, ::2]
        matrix = matrix / matrix.diagonal().mean() + ratio * np.eye(18)
        inverse = np.linalg.inv(matrix)
        values = y[observed].numpy()
        rest = values - inverse.sum(0) @ values / inverse.sum()
        variance = np.einsum("is,ij,js->s", rest, inverse, rest) / 18
        log_det = np.linalg.slogdet(matrix)[1]
        return -0.5 * (5 * log_det + 18 * (np.log(2 * math.pi * variance) + 1).sum())

    ratio = float(found.noise[0] / found.amplitude[0]) ** 2
    best = likelihood(found.t, ratio)
    assert found.log_likelihood == pytest.approx(best, rel=1e-6)
    for factor in (0.8, 1.25):
        assert likelihood(factor * found.t, ratio) < best
        assert likelihood(found.t, factor * ratio) < best


def test_trends_are_explained_as_signals():
    """A smooth signal has a second peak, in which all of it is noise.

    The numbers are the best of a grid of 600 times and noises, and of Nelder and Mead from there,
    by dense algebra.
    """
    rng = np.random.default_rng(0)
    nodes = torch.arange(30)
    path = torch.stack([nodes[:-1], nodes[1:]])
    data = Data(edge_index=torch.cat([path, path.flip(0)], 1), num_nodes=30)
    for expected in (-17.70, -6.95, -17.48, -19.16):
        observed = torch.from_numpy(np.sort(rng.permutation(30)[:12]))
        found = interpolate(data, observed.double(), observed, **HEAT)
        assert found.log_likelihood == pytest.approx(expected, abs=0.01)


def test_columns_keep_their_units():
    data, observed = grid(6), torch.arange(0, 36, 2)
    _, y = draw(data, KERNELS["heat"](4.0), 3, 0.2)
    found = interpolate(data, y[observed], observed)
    scale, shift = torch.tensor([1.0, 1e3, 1e-3]).double(), torch.tensor([0.0, 1e3, -5.0]).double()
    other = interpolate(data, y[observed] * scale + shift, observed)
    close = {"rtol": 1e-4, "atol": 0}
    assert_close(other.mean, found.mean * scale + shift, **close)
    for name in ("deviation", "amplitude", "noise"):
        assert_close(getattr(other, name), getattr(found, name) * scale, **close)
    assert found.deviation.shape == (36, 3)
    assert found.noise.shape == (3,)


def test_gaps_are_told_by_a_mask_by_numbers_of_nodes_or_by_nan():
    data = grid(6)
    _, y = draw(data, KERNELS["heat"](4.0), 2, 0.2)
    seen = torch.rand(36, generator=torch.Generator().manual_seed(0)) < 0.5
    nodes, gaps = seen.nonzero()[:, 0], y.masked_fill(~seen[:, None], math.nan)
    expected = interpolate(data, y[nodes], nodes, **HEAT)
    for given in (
        (y[seen], seen),
        (y, seen.numpy()),
        (gaps,),
        (gaps, torch.arange(36)),
        (gaps.numpy(), None),
        (y[nodes].tolist(), nodes.int().tolist()),
    ):
        found = interpolate(data, *given, **HEAT)
        assert_close(found.mean, expected.mean, rtol=0, atol=0)
        assert_close(found.deviation, expected.deviation, rtol=0, atol=0)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_where_gradients_are_off_the_answer_is_the_same(mode):
    data, values = grid(4), torch.arange(16.0).sin()
    values[::3] = math.nan
    expected = interpolate(data, values, **HEAT).mean
    with mode():
        assert_close(interpolate(data, values, **HEAT).mean, expected)


def test_equal_values_say_nothing_in_words():
    data, observed = grid(4), torch.arange(0, 16, 2)
    y = torch.stack([torch.full((8,), 0.1), torch.linspace(0, 1, 8)], 1)
    with pytest.warns(UserWarning, match="do not tell how.*1 of 2 columns") as told:
        both = interpolate(data, y, observed)
    assert len(told) == 1
    alone = interpolate(data, y[:, 1], observed)
    assert_close(both.mean, torch.stack([torch.full((16,), 0.1), alone.mean], 1))
    assert_close(both.deviation, torch.stack([torch.zeros(16), alone.deviation], 1))
    with pytest.warns(UserWarning, match="do not tell how"):
        assert_close(interpolate(data, y[:, 0], observed).mean, torch.full((16,), 0.1))


def test_planted_conductances_are_found_and_pay():
    data = grid(8)
    open_edges = torch.where(data.edge_attr[:, 0] > 0, 0.02, 1.0) * data.edge_weight
    signal, y = draw(data, KERNELS["heat"](6.0), 30, 0.1, weight=open_edges)
    observed = torch.randperm(64, generator=torch.Generator().manual_seed(1))[:40]
    hidden = torch.ones(64, dtype=torch.bool)
    hidden[observed] = False
    conductance = SigmoidConductance(2)
    learned = interpolate(data, y[observed], observed, conductance=conductance)
    given = interpolate(data, y[observed], observed)
    error = [
        float((each.mean - signal)[hidden].square().mean().sqrt()) for each in (learned, given)
    ]
    assert error[0] < 0.85 * error[1]
    assert learned.log_likelihood > given.log_likelihood + 10
    closed = data.edge_attr[:, 0] > 0
    ratio = learned.conductance[closed].mean() / learned.conductance[~closed].mean()
    assert ratio < 0.15
    assert learned.conductance.shape == (data.num_edges,)
    assert conductance.slope.dtype == torch.float32  # as it came
    assert conductance.slope.abs().max() > 0.1
    h = conductance(data.edge_attr)
    assert_close(h, learned.conductance.to(h), rtol=1e-5, atol=1e-5)


def test_no_kernel_is_likelier_on_the_edges_that_were_learned():
    data = grid(8, 5)
    planted = torch.where(data.edge_attr[:, 0] > 0, 0.02, 1.0) * data.edge_weight
    _, y = draw(data, KERNELS["heat"](6.0), 2, 0.1, 5, planted)
    observed = torch.randperm(64, generator=torch.Generator().manual_seed(5))[:40]
    found = interpolate(data, y[observed], observed, conductance=SigmoidConductance(2))
    data.edge_weight = data.edge_weight * found.conductance
    again = interpolate(data, y[observed], observed)
    assert again.log_likelihood < found.log_likelihood + 0.1


@pytest.mark.parametrize("most", [500, 30])
def test_edges_that_hardly_conduct_are_closed(most):
    data = grid(10)
    crosses = (data.edge_index // 10 < 5).sum(0) == 1
    crosses |= (data.edge_index == 99).any(0)  # a corner without a value
    data.edge_attr = crosses.double()[:, None]
    truth = (torch.arange(100) % 10 / 3).cos() * (1 - 2 * (torch.arange(100) < 50))
    observed = torch.randperm(99, generator=torch.Generator().manual_seed(0))[:60]
    found, cut = (
        interpolate(graph, truth[observed], observed, conductance=learned, max_fitted=most)
        for graph, learned in ((data, SigmoidConductance(1)), (data.edge_subgraph(~crosses), None))
    )
    assert bool(((found.conductance == 0) == crosses).all())
    assert_close(found.mean, cut.mean)
    assert_close(found.deviation, cut.deviation, rtol=1e-3, atol=1e-4)
    assert truth.min() < found.mean[99] < truth.max()
    assert truth.std() < found.deviation[99] < math.inf


def test_edges_are_closed_only_if_kernels_are_fitted_to_some():
    class Weak(torch.nn.Linear):
        def forward(self, edge_attr):
            return 1 - 0.95 * edge_attr[:, 0] + 0 * self.weight.sum()

    path = torch.arange(400).unfold(0, 2, 1).T
    data = Data(edge_index=torch.cat([path, path.flip(0)], 1), num_nodes=400)
    observed = torch.randperm(400, generator=torch.Generator().manual_seed(2))[:150]
    centre = observed[torch.randperm(150, generator=torch.Generator().manual_seed(0))[0]]
    is_far = (data.edge_index - centre).abs().min(0).values > 120
    data.edge_attr = (is_far & (data.edge_index.sum(0) % 30 == 1)).double()[:, None]
    assert int(data.edge_attr.sum()) > 5
    given = torch.sin(observed * 0.05), observed
    found = interpolate(data, *given, conductance=Weak(1, 1), kernel="heat", max_fitted=30)
    assert float(found.conductance.min()) > 0


def test_deviations_cover_what_is_hidden():
    data = grid(8)
    signal, y = draw(data, KERNELS["heat"](4.0), 40, 0.2)
    observed = torch.arange(0, 64, 2)
    found = interpolate(data, y[observed], observed, **HEAT)
    score = ((found.mean - signal) / found.deviation)[1::2]
    assert 0.92 < float((score.abs() < 1.96).double().mean()) < 0.98
    assert float(found.noise.mean()) == pytest.approx(0.2, rel=0.3)
    assert found.t == pytest.approx(4.0, rel=0.3)


def test_the_answer_is_an_average_over_kernels_times_and_noises(monkeypatch):
    """The weights are those of a dense grid, and so are means and variances."""
    data, times, ratios = grid(5), np.geomspace(0.03, 1e3, 7), torch.linspace(-13, 6, 9).double()
    for place, value in (
        ("interpolation.POINTS", 20_000),
        ("kernel.TIMES", times),
        ("likelihood.TIMES", times),
        ("likelihood.LOG_NOISES", ratios),
    ):
        monkeypatch.setattr(f"jsem_pyg.training.signals.{place}", value)
    _, y = draw(data, KERNELS["matern"](4.0), 1, 0.3)
    observed, own = torch.arange(0, 25, 2), np.arange(0, 25, 2)
    found = interpolate(data, y[observed, 0], observed)
    weights, moments, noises, kinds = [], [], [], []
    for normalization in ("sym", None):
        degree = data.edge_weight.sum().item() / 25 if normalization is None else 1.0
        for nu, t in itertools.product((1.0, 1.5, 2.5, 3.5), times / degree):
            kernel = dense_kernel(data, lambda at: (1 + t * at) ** -nu, normalization)  # noqa: B023
            kernel = kernel / kernel[own, own].mean()
            for r in ratios.exp().numpy():
                inverse = np.linalg.inv(kernel[own][:, own] + r * np.eye(13))
                mean = (inverse @ y[observed, 0].numpy()).sum() / inverse.sum()
                rest, column = y[observed, 0].numpy() - mean, kernel[:, own] @ inverse
                square, total = rest @ inverse @ rest, inverse.sum()
                log_det = np.linalg.slogdet(inverse)[1] - np.log(total)
                weights.append(0.5 * (log_det - 12 * np.log(square)))
                left = kernel.diagonal() - (column * kernel[:, own]).sum(1)
                left = left + (1 - column.sum(1)) ** 2 / total
                moments.append([mean + column @ rest, left * square / 12])
                noises.append(r * square / 12)
                kinds.append((nu, normalization))
    weight = np.exp(np.array(weights) - np.max(weights))
    weight /= weight.sum()
    mean, left = np.array(moments).transpose(1, 2, 0)
    variance = left @ weight + mean**2 @ weight - (mean @ weight) ** 2
    assert_close(found.mean.numpy(), mean @ weight, rtol=0, atol=0.02)
    assert_close(found.deviation.numpy(), variance**0.5, rtol=0.02, atol=0)
    assert float(found.noise) == pytest.approx((noises @ weight) ** 0.5, rel=0.02)
    for kind, share in found.shares.items():
        assert share == pytest.approx(weight[[each == kind for each in kinds]].sum(), abs=0.01)


def test_intervals_hold_the_signal():
    """Fields whose smoothness nobody tells: a given kernel that is too smooth promises too much."""
    rng, inside, heat = np.random.default_rng(0), [], []
    place = np.stack(np.divmod(np.arange(144), 12), 1) / 12
    far = np.linalg.norm(place[:, None] - place, axis=2) / 0.3
    for kernel in (np.exp(-far), (1 + 3**0.5 * far) * np.exp(-(3**0.5) * far)):
        root = np.linalg.cholesky(kernel + 1e-8 * np.eye(144))
        for _ in range(4):
            signal = torch.from_numpy(root @ rng.normal(size=144))
            observed = torch.from_numpy(np.sort(rng.permutation(144)[:50]))
            y = signal[observed] + 0.2 * torch.from_numpy(rng.normal(size=50))
            hidden = torch.ones(144, dtype=torch.bool).index_fill(0, observed, False)
            for options, rows in (({}, inside), (HEAT, heat)):
                found = interpolate(grid(12), y, observed, **options)
                error = (found.mean - signal)[hidden].abs()
                rows.append(float((error < 1.96 * found.deviation[hidden]).double().mean()))
    assert 0.91 < np.mean(inside) < 0.98
    assert np.mean(heat) < np.mean(inside)


@pytest.mark.parametrize("few", [0, 100])  # kernels, of which compiled code adds up the terms
def test_sampled_deviations_are_near_the_exact_ones(few, monkeypatch):
    data, observed = grid(7), torch.arange(0, 49, 3)
    _, y = draw(data, KERNELS["heat"](4.0), 3, 0.2)
    exact = interpolate(data, y[observed], observed)
    monkeypatch.setattr("jsem_pyg.training.signals.kernel.FEW", few)
    monkeypatch.setattr("jsem_pyg.training.signals.kernel.LARGEST_DENSE", 0)
    monkeypatch.setattr("jsem_pyg.training.signals.condition.SAMPLES", 2000)
    sampled = interpolate(data, y[observed], observed, seed=1)
    assert_close(sampled.mean, exact.mean)
    assert_close(sampled.deviation, exact.deviation, rtol=0.08, atol=0)


def test_more_observations_than_are_fitted():
    data, observed = grid(7), torch.arange(0, 49, 2)
    signal, y = draw(data, KERNELS["heat"](4.0), 10, 0.1)
    some = interpolate(data, y[observed], observed, max_fitted=12)
    error = float((some.mean - signal)[observed].square().mean().sqrt())
    assert error < 0.2


def test_a_part_of_a_long_graph_is_fitted():
    nodes = torch.arange(200)
    path = torch.stack([nodes[:-1], nodes[1:]])
    data = Data(edge_index=torch.cat([path, path.flip(0)], 1), num_nodes=200)
    data.edge_weight = torch.ones(data.num_edges)
    signal, y = draw(data, KERNELS["heat"](20.0), 40, 0.1)
    observed = torch.randperm(200, generator=torch.Generator().manual_seed(2))[:90]
    whole = interpolate(data, y[observed], observed, **HEAT)
    part = interpolate(data, y[observed], observed, **HEAT, max_fitted=45)
    assert part.t == pytest.approx(whole.t, rel=0.15)
    assert float(part.noise.mean()) == pytest.approx(0.1, rel=0.15)
    assert_close(part.mean, whole.mean, rtol=0, atol=0.1)
    assert float((part.mean - signal).square().mean().sqrt()) < 0.2


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"values": torch.tensor([0.0, math.inf, 1.0])}, "values"),
        ({"values": torch.tensor([[0.0, math.nan]] * 3)}, "values"),
        ({"values": torch.zeros(3), "observed": None}, "values"),
        ({"values": torch.full((9,), math.nan), "observed": None}, "observed"),
        ({"observed": torch.tensor([0, 0, 1])}, "observed"),
        ({"values": torch.zeros(0), "observed": []}, "observed"),
        ({"values": torch.zeros(9), "observed": torch.zeros(9, dtype=torch.bool)}, "observed"),
        ({"observed": torch.tensor([0, 1, 99])}, "observed"),
        ({"observed": torch.tensor([True, True, True])}, "observed"),
        ({"kernel": "cosine"}, "kernel"),
        ({"normalization": "rw"}, "normalization"),
        ({"conductance": "sigmoid"}, "conductance"),
    ],
)
def test_bad_input_is_refused_by_name(change, name):
    given = {"values": torch.arange(3.0), "observed": torch.tensor([0, 1, 2])} | change
    with pytest.raises((TypeError, ValueError), match=f"'{name}'"):
        interpolate(grid(3), **given)
