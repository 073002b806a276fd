"""Two processes learn what one learns of the data of both; no parameter goes without a gradient."""

import pytest
import torch
from parallel_cases import CASES, WORLD, run, train
from processes import needs_gloo, run_together

pytestmark = [pytest.mark.ci, needs_gloo]


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """What each process learned in each case."""
    folder = tmp_path_factory.mktemp("data_parallel")
    run_together(run, (str(folder),), WORLD)
    return [torch.load(folder / f"{rank}.pt") for rank in range(WORLD)]


@pytest.mark.parametrize("name", CASES)
def test_as_in_one_process(name, learned):
    make, make_arguments, with_attr = CASES[name]
    torch.manual_seed(0)
    layer = make()
    expected = train(layer, layer, range(WORLD), make_arguments, with_attr)
    for each in learned:
        torch.testing.assert_close(each[name], expected, rtol=1e-4, atol=1e-5)
