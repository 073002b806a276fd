"""Several processes compute what one does: values and all gradients."""

from itertools import chain

import pytest
import torch
from distributed_cases import (
    CASES,
    FIT,
    GRAPHS,
    SIZES,
    cases_of,
    data_in_order,
    empty_part,
    expect,
    loss_of,
    model_of,
    random,
    run,
    train_classifier,
)
from processes import needs_gloo, run_together

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.nn import AnisotropicDiffusion
from jsem_pyg.training import fit

pytestmark = [pytest.mark.ci, needs_gloo]

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-11}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The results of each of four processes: among all of them, and in pairs."""
    folder = tmp_path_factory.mktemp("distributed")
    run_together(run, (4, str(folder)), 4)
    return [torch.load(folder / f"{rank}.pt") for rank in range(4)]


def assert_close(got, expected):
    scale = max(float(expected.abs().max()), 1.0) if expected.numel() else 1.0
    tolerance = TOLERANCE[expected.dtype] * scale
    torch.testing.assert_close(got, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("graph_name", GRAPHS)
def test_equal_to_one_process(graph_name, size, found):
    data, _ = GRAPHS[graph_name](SIZES[size], size)
    for name in cases_of(size, graph_name):
        out, (of_x,), (of_weight,), of_all = expect(CASES[name], data, SIZES[size])
        together = [torch.full_like(each, torch.nan) for each in (out, of_x, of_weight)]
        for each in found:
            if (graph_name, name) not in each[size]:
                continue  # of the other pair
            nodes, edges, *part = each[size][graph_name, name]
            together[0][..., nodes, :] = part[0]
            together[1][nodes], together[2][edges] = part[1][0], part[2][0]
            for got, expected in zip(part[3], of_all, strict=True):
                assert_close(got, expected)
        for got, expected in zip(together, (out, of_x, of_weight), strict=True):
            assert_close(got, expected)


def test_a_classifier_takes_the_means_of_all_nodes(found):
    data, partition = empty_part(torch.float64, 4)
    expected, *others = train_classifier(data)
    for rank, each in enumerate(found):
        p, *of_all = each["classifier"]
        assert_close(p, expected[partition.parts()[rank]])
        for got, wanted in zip(chain(*of_all), chain(*others), strict=True):
            assert_close(got.double(), wanted.double())


def test_data_parallel_training(found):
    data, _ = random(torch.float64, 4)
    layer = AnisotropicDiffusion(t=2.0).double()
    out = layer(data.x, data.edge_index, data.edge_weight, data.edge_attr)
    loss_of(out, torch.arange(40), 40).backward()
    for each in found:
        for got, parameter in zip(each["data parallel"], layer.parameters(), strict=True):
            assert_close(got, parameter.grad)


def test_rows_are_read_by_each_process(found):
    data, partition = random(torch.float64, 4)
    expected = heat_diffusion(data.x, data.edge_index, data.edge_weight)
    for rank, each in enumerate(found):
        nodes, x, y = each["read"]
        torch.testing.assert_close(nodes, partition.parts()[rank])
        torch.testing.assert_close(x, data.x[nodes])
        assert_close(y, expected[nodes])


def test_a_process_that_hangs_is_an_error_in_time(found):
    for each in found[:3]:
        said, seconds = each["error"]
        assert "Expected all 4 processes to take part" in said
        assert seconds < 6


def test_columns_are_shared(found):
    data, _ = random(torch.float64, 4)
    weight, t = data.edge_weight.clone().requires_grad_(), torch.tensor(1.5).requires_grad_()
    out = heat_diffusion(data.x, data.edge_index, weight, t)
    out.sin().sum().backward()
    for each in found:
        rank, own, *gradients = each["columns"]
        assert_close(own, out.detach()[:, rank::4])
        for got, wanted in zip(gradients, (weight.grad, t.grad), strict=True):
            assert_close(got, wanted)


def test_fit_makes_the_steps_of_one_process(found):
    torch.manual_seed(0)
    model = AnisotropicDiffusion(t=2.0, conductance="mlp").double()
    result = fit(model, data_in_order()[0], epochs=6, **FIT)
    losses = torch.tensor([row.loss for row in result.history]).double()
    for each in found:
        for weights in each["fit"]:  # in one go, and continued from a checkpoint
            for got, wanted in zip(weights, [*model.parameters(), losses], strict=True):
                torch.testing.assert_close(got, wanted.detach(), rtol=1e-9, atol=1e-9)


def test_pairs_of_processes_train_beside_each_other(found):
    for rank, each in enumerate(found):
        seed = rank // 2
        model = model_of(seed)
        fit(model, data_in_order()[0], epochs=3, **FIT | {"seed": seed})
        for got, wanted in zip(each["fit of pairs"], model.parameters(), strict=True):
            torch.testing.assert_close(got, wanted.detach(), rtol=1e-9, atol=1e-9)


def test_all_processes_have_the_same_weights_bit_for_bit(found):
    for each in found[1:]:
        for got, wanted in zip(chain(*each["fit"]), chain(*found[0]["fit"]), strict=True):
            assert torch.equal(got, wanted)
