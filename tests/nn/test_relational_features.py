"""Features of random relational convolutions."""

import pytest
import torch

from jsem_pyg.nn import relational_features

WRITES = ("author", "writes", "paper")


def make_graph():
    """Two groups of authors and papers without an edge between them."""
    generator = torch.Generator().manual_seed(0)
    source = torch.randint(20, (80,), generator=generator)
    target = torch.randint(30, (80,), generator=generator)
    edges = torch.stack([torch.cat([source, source + 20]), torch.cat([target, target + 30])])
    x_dict = {
        "author": torch.randn(40, 3, generator=generator),
        "paper": torch.randn(60, 5, generator=generator),
    }
    return x_dict, {WRITES: edges}


def test_features_have_a_block_for_the_input_and_one_for_every_hop():
    x_dict, edges = make_graph()
    out = relational_features(x_dict, edges, dim=16, hops=3)
    assert {name: each.shape for name, each in out.items()} == {
        "author": (40, 64),
        "paper": (60, 64),
    }
    for block in out["author"].split(16, -1):
        torch.testing.assert_close(block.norm(dim=-1), torch.ones(40))
    assert not out["author"].requires_grad


def test_the_same_seed_gives_the_same_features_and_leaves_the_generator_alone():
    x_dict, edges = make_graph()
    state = torch.get_rng_state()
    first, again = (relational_features(x_dict, edges)["paper"] for _ in range(2))
    assert torch.equal(first, again)
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(relational_features(x_dict, edges, seed=1)["paper"], first)


def test_nodes_without_edges_between_them_are_told_apart():
    x_dict, edges = make_graph()
    hop = relational_features(x_dict, edges, dim=32, hops=1, t=50.0)["author"][:, 32:]
    cosine = hop @ hop.T
    assert cosine[:20, :20].median() > 0.9
    assert cosine[:20, 20:].median() < 0


@pytest.mark.parametrize("options", [{"dim": 0}, {"hops": -1}, {"t": 0.0}])
def test_bad_options_are_named(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        relational_features(*make_graph(), **options)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "got none of 'author'"),
        ({"author": None, "paper": torch.ones(60, 5)}, "got none of 'author'"),
        ({"author": torch.ones(40), "paper": torch.ones(60, 5)}, r"x_dict\['author'\]"),
        ({"author": torch.ones(40, 3).long(), "paper": torch.ones(60, 5)}, "floating-point"),
    ],
)
def test_features_that_do_not_fit_are_named(change, words):
    with pytest.raises((ValueError, TypeError), match=words):
        relational_features(change, make_graph()[1])
