"""What a learned step computes on a GPU beside the terms of its series, in a few Triton kernels.

Everywhere else, and in the tests, torch's operations compute the same numbers:

- :mod:`.entries`: weights and conductances of edges -> the entries of S
  (`jsem_pyg.operators.laplacian`)
- :mod:`.sigmoid`: features of edges -> their conductance (`jsem_pyg.nn.conductance`)
- :mod:`.heat`: a learned time -> the coefficients of the series
  (`jsem_pyg.diffusion.heat_coefficients`)
"""

from dataclasses import dataclass


@dataclass
class Switches:
    """Which of these run where they can: none, until they are measured on a GPU.

    `examples/benchmarks/gpu_epoch.py` turns them on, one by one and all together. Two are for the
    terms themselves.
    """

    entries: bool = False
    sigmoid: bool = False
    heat: bool = False
    windows: bool = False  # rows that share neighbours gather them together
    replay: bool = False  # a pass is one CUDA graph, from its second call on


SWITCHES = Switches()
