import pytest
import torch

from jsem_pyg.command.threads import few_threads


@pytest.fixture
def _three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_three_threads")
@pytest.mark.parametrize(("num_points", "within"), [(5_000, 1), (5_001, 3)])
def test_small_jobs_take_one_thread_and_give_the_others_back(num_points, within):
    with few_threads(num_points):
        assert torch.get_num_threads() == within
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("_three_threads")
def test_a_job_that_fails_gives_threads_back():
    def fail():
        with few_threads(1):
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert torch.get_num_threads() == 3
