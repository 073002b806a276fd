import pytest
import torch
from layer_cases import count_preparations

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.graph import GraphStructure
from jsem_pyg.nn import AnisotropicDiffusion

PATH = torch.tensor([[2, 0, 1, 1], [1, 1, 2, 0]])  # 0 - 1 - 2, unsorted


def test_slots_are_sorted_and_paired():
    structure = GraphStructure(PATH, num_nodes=4)
    assert [structure.row.tolist(), structure.col.tolist()] == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert structure.rowptr.tolist() == [0, 1, 3, 4, 4]
    assert structure.slot.tolist() == [3, 0, 2, 1]
    assert structure.reverse.tolist() == [1, 0, 3, 2]
    assert torch.equal(torch.stack(structure.edges), PATH.flip(0))


def test_values_travel_to_slots_and_back():
    structure = GraphStructure(PATH, num_nodes=3)
    values = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert structure.to_slots(values).tolist() == [2.0, 4.0, 3.0, 1.0]
    assert torch.equal(structure.to_edges(structure.to_slots(values)), values)


def test_repeated_edges_add_up_and_share_what_comes_back():
    structure = GraphStructure(torch.cat([PATH, PATH], dim=1), num_nodes=3)
    assert (structure.num_slots, structure.num_edges) == (4, 8)
    slots = structure.to_slots(torch.arange(8.0))
    assert slots.tolist() == [1.0 + 5.0, 3.0 + 7.0, 2.0 + 6.0, 0.0 + 4.0]
    assert structure.share_among_edges(slots).tolist() == [2.0, 3.0, 4.0, 5.0] * 2
    assert structure.to_edges(slots).tolist() == [4.0, 6.0, 8.0, 10.0] * 2


def test_components_are_numbered():
    edge_index = torch.tensor([[0, 1, 3, 4], [1, 0, 4, 3]])
    assert GraphStructure(edge_index, num_nodes=6).component.tolist() == [0, 0, 1, 2, 2, 3]


def test_diagonal_slots_merge_in_order():
    structure = GraphStructure(PATH, num_nodes=3)
    csr, order = structure.csr_with_diagonal
    off_diagonal, diagonal = torch.arange(1.0, 5.0), torch.arange(10.0, 13.0)
    dense = torch.zeros(3, 3)
    dense[csr.row.long(), csr.col.long()] = torch.cat([off_diagonal, diagonal])[order]
    assert dense.tolist() == [[10.0, 1.0, 0.0], [2.0, 11.0, 3.0], [0.0, 4.0, 12.0]]
    assert csr.rowptr.tolist() == [0, 2, 5, 7]


@pytest.mark.parametrize("num_nodes", [0, 1, 5])
def test_no_edges(num_nodes):
    structure = GraphStructure(torch.empty(2, 0, dtype=torch.long), num_nodes)
    assert structure.num_slots == 0
    assert structure.rowptr.tolist() == [0] * (num_nodes + 1)
    assert structure.component.tolist() == list(range(num_nodes))


def test_asymmetric_values_are_refused():
    structure = GraphStructure(PATH, num_nodes=3)
    structure.check_weight(torch.ones(4))
    structure.check_weight(torch.tensor([1.0, 1.0, 1.0 + 1e-6, 1.0]))
    with pytest.raises(ValueError, match=r"'edge_weight' to be the same in both.*to_undirected"):
        structure.check_weight(torch.tensor([1.0, 1.0, 1.1, 1.0]))
    with pytest.raises(ValueError, match="'edge_attr' to be the same in both"):
        structure.check_attr(torch.tensor([[1.0], [1.0], [-1.0], [1.0]]))


class TestMemory:
    """Of layers, which remember the last graph."""

    x = torch.eye(4)

    def test_a_new_tensor_in_the_same_memory_is_not_mistaken(self):
        layer = AnisotropicDiffusion(0)
        for node in (1, 2, 3):  # each tensor is freed, and its memory free to be used again
            edge_index = torch.tensor([[0, node], [node, 0]])
            expected = AnisotropicDiffusion(0)(self.x, edge_index)
            assert torch.equal(layer(self.x, edge_index), expected)
            del edge_index
        assert layer(torch.eye(5), torch.tensor([[0, 4], [4, 0]])).shape == (5, 5)

    def test_inference_tensors_are_prepared_each_time(self, monkeypatch):
        layer, made = AnisotropicDiffusion(0), count_preparations(monkeypatch)
        with torch.inference_mode():
            edge_index = torch.tensor([[0, 1], [1, 0]])
            for _ in range(2):
                layer(self.x, edge_index)
        assert len(made) == 2

    def test_keeps_nothing_of_a_graph_that_is_refused(self):
        layer, directed = AnisotropicDiffusion(0), torch.tensor([[0], [1]])
        for call in (layer, layer, torch.compile(layer, backend="eager")):
            with pytest.raises(ValueError, match="undirected"):
                call(self.x, directed)


@pytest.mark.parametrize("count", [1, 5])
def test_compiled_code_sees_a_change_that_leaves_no_trace(count):
    """It knows graphs by their entries, a few at a time."""
    torch._dynamo.reset()
    run = torch.compile(heat_diffusion, backend="eager", fullgraph=True)
    graphs = [torch.tensor([[0, node], [node, 0]]) for node in range(1, count + 1)]
    for edge_index in graphs * 2:
        x = torch.eye(count + 2)
        assert torch.equal(run(x, edge_index), heat_diffusion(x, edge_index))
        version, entries = edge_index._version, edge_index.numpy()
        entries[:] = count + 1 - entries
        assert edge_index._version == version


def test_what_is_prepared_in_inference_mode_serves_training():
    with torch.inference_mode():
        structure = GraphStructure(PATH.clone(), num_nodes=3)
        wide, order = structure.csr_with_diagonal
        derived = (wide.row, wide.col, wide.rowptr, order, structure.component, structure.slot)
        structure.to_slots(torch.ones(4))
    kept = (structure.row, structure.col, structure.rowptr, structure.reverse)
    assert not any(each.is_inference() for each in (*kept, *derived))


def test_a_number_that_differs_by_rounding_is_read_as_the_mean_of_both_directions():
    structure = GraphStructure(torch.tensor([[0, 1], [1, 0]]), 2)
    read = structure.read_symmetric("edge_weight", torch.tensor([1.0, 1.0 + 2e-6]))
    assert read.dtype == torch.float64
    assert read[0] == read[1] == pytest.approx(1 + 1e-6, abs=1e-7)
