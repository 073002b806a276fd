import numpy as np
import pytest
from jax_cases import assert_same, by_jax, make_case
from tiny_graphs import ring

from jsem_pyg.jax import functional, series


@pytest.mark.slow
@pytest.mark.parametrize("t", [[1.0, 2.0], [[*np.linspace(0, 2, 18)]]], ids=["scales", "channels"])
def test_tiles_of_columns_give_what_all_give_at_once(monkeypatch, t):
    case = make_case(ring(), (18,), t)  # two tiles, the second of two columns
    whole = by_jax(case, backend="xla")
    functional._evolve.clear_cache()
    monkeypatch.setattr(series, "_MESSAGES", 1)
    tiled = by_jax(case, backend="xla")
    functional._evolve.clear_cache()
    assert_same(tiled, whole)
