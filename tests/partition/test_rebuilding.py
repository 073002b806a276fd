import pytest

from jsem_pyg.partition import rebuild_pays

ONE = {"channels": 10, "terms": 10, "epochs_left": 10}


def test_by_hand():
    # An edge less saves 3 * 10 * 10 * 10 = 3000 visits, an edge that stays costs 500.
    assert not rebuild_pays(700, 600, **ONE)  # 300,000 of either: no gain
    assert rebuild_pays(701, 600, **ONE)
    assert not rebuild_pays(701, 600, **(ONE | {"epochs_left": 9}))


@pytest.mark.parametrize("name", ["channels", "terms", "epochs_left"])
def test_more_of_it_pays_sooner(name):
    assert not rebuild_pays(1000, 900, **(ONE | {name: 1}))
    assert rebuild_pays(1000, 900, **(ONE | {name: 100}))


def test_nothing_is_saved_without_epochs_or_edges():
    assert not rebuild_pays(1000, 10, **(ONE | {"epochs_left": 0}))
    assert not rebuild_pays(1000, 1000, **ONE)
    assert not rebuild_pays(0, 0, **ONE)


def test_more_edges_than_before_are_refused():
    with pytest.raises(ValueError, match="'num_kept' to be at most 'num_edges', 5"):
        rebuild_pays(5, 6, **ONE)
