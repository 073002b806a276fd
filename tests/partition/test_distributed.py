"""Several processes compute what one does: values and all gradients."""

import pytest
import torch
from distributed_cases import CASES, GRAPHS, SIZES, expect, run

pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    reason="this build of torch has no gloo",
)

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What each of four processes found: among all of them, and in pairs."""
    folder = tmp_path_factory.mktemp("distributed")
    torch.multiprocessing.spawn(run, (4, str(folder)), nprocs=4)
    return [torch.load(folder / f"{rank}.pt") for rank in range(4)]


def assert_close(got, expected):
    scale = max(float(expected.abs().max()), 1.0) if expected.numel() else 1.0
    tolerance = TOLERANCE[expected.dtype] * scale
    torch.testing.assert_close(got, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("graph_name", GRAPHS)
def test_equal_to_one_process(graph_name, size, found):
    data, _ = GRAPHS[graph_name](SIZES[size], size)
    for name, use in CASES.items():
        out, (of_x,), (of_weight,), of_all = expect(use, data, SIZES[size])
        together = [torch.full_like(each, torch.nan) for each in (out, of_x, of_weight)]
        for each in found[:size]:
            nodes, edges, *part = each[size][graph_name, name]
            together[0][..., nodes, :] = part[0]
            together[1][nodes], together[2][edges] = part[1][0], part[2][0]
            for got, expected in zip(part[3], of_all, strict=True):
                assert_close(got, expected)
        for got, expected in zip(together, (out, of_x, of_weight), strict=True):
            assert_close(got, expected)
