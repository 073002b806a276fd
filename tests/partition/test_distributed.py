"""Several processes compute what one does: values and all gradients."""

import pytest
import torch
from distributed_cases import CASES, GRAPHS, TYPES, measure, run

pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    reason="this build of torch has no gloo",
)

TOLERANCE = {"float32": 1e-5, "float64": 1e-12}


@pytest.fixture(scope="module", params=[2, 4])
def found(request, tmp_path_factory):
    """What each process found in each case."""
    folder = tmp_path_factory.mktemp(f"distributed_{request.param}")
    torch.multiprocessing.spawn(run, (request.param, str(folder)), nprocs=request.param)
    return [torch.load(folder / f"{rank}.pt") for rank in range(request.param)]


def assert_close(got, expected, tolerance):
    scale = float(expected.abs().max()) if expected.numel() else 1.0
    torch.testing.assert_close(got, expected, rtol=0, atol=tolerance * max(scale, 1.0))


@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("graph_name", GRAPHS)
def test_equal_to_one_process(graph_name, type_name, found):
    dtype, size = TYPES[type_name], len(found)
    data, _ = GRAPHS[graph_name](dtype, size)
    everywhere = torch.arange(data.num_nodes)
    for name, use in CASES.items():
        expected = measure(use, data, data.edge_index, everywhere, data.num_nodes, dtype)
        out, of_x, of_weight = (torch.zeros_like(each) for each in (expected[0], *(e[0] for e in expected[1:3])))
        for each in found:
            nodes, edges, (part_out, (part_x,), (part_weight,), of_all) = each[graph_name, type_name, name]
            out[..., nodes, :] = part_out
            of_x[nodes], of_weight[edges] = part_x, part_weight
            for got, wanted in zip(of_all, expected[3], strict=True):
                assert_close(got, wanted, TOLERANCE[type_name])
        for got, wanted in ((out, expected[0]), (of_x, expected[1][0]), (of_weight, expected[2][0])):
            assert_close(got, wanted, TOLERANCE[type_name])
