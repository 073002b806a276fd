"""What follows from a pattern outlasts the mode in which it was first asked for."""

import torch

from jsem_pyg.graph import GraphStructure
from jsem_pyg.kernels.csr import CSR


def test_degrees_made_in_inference_mode_serve_training():
    with torch.inference_mode():
        csr = GraphStructure(torch.tensor([[0, 1], [1, 0]]), 2).csr
        degree, kept = csr.degree, csr.derived(twice)
    assert degree.tolist() == [1, 1]
    assert not degree.is_inference()
    assert not kept.is_inference()


def twice(csr: CSR) -> torch.Tensor:
    return 2 * csr.col
