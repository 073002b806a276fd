import pytest
import torch

from jsem_pyg._groups import group_firsts, group_order, group_places, group_starts


def entries(seed, size=40, num_groups=6):
    """Few distinct values, so that many are equal, and a group without an entry."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(4, (size,), generator=generator).double()
    return values, torch.randint(num_groups - 1, (size,), generator=generator), num_groups


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_sorting_each_group_by_itself(seed, descending):
    values, group, num_groups = entries(seed)
    order = group_order(values, group, descending=descending)
    start = group_starts(group, num_groups)
    place = group_places(values, group, num_groups, descending=descending)
    first = group_firsts(group[order])
    assert start[-1] == len(values)
    for each in range(num_groups):
        members = (group == each).nonzero()[:, 0].tolist()
        # Python's sort keeps the order of equals, also in reverse.
        expected = sorted(members, key=lambda i: values[i].item(), reverse=descending)
        own = slice(start[each], start[each + 1])
        assert order[own].tolist() == expected
        assert place[expected].tolist() == list(range(len(expected)))
        assert first[own].tolist() == [i == 0 for i in range(len(expected))]


def test_no_entries_and_one_group():
    none = torch.empty(0, dtype=torch.int64)
    assert group_order(none, none).tolist() == []
    assert group_starts(none, 2).tolist() == [0, 0, 0]
    assert group_places(none, none, 2).tolist() == []
    assert group_firsts(none).tolist() == []
    values, group = torch.tensor([2.0, 1.0]), torch.zeros(2, dtype=torch.int64)
    assert group_order(values, group).tolist() == [1, 0]
    assert group_places(values, group, 1).tolist() == [1, 0]
