"""The adapter to scikit-learn: transformers, a clusterer and a semi-supervised classifier.

All build the neighbour graph of X and take new points later, one by one: the result of a
point does not depend on which others are in the call. They have no mathematics of their own: heat
is of :mod:`jsem_pyg.diffusion`, self-training of :mod:`jsem_pyg.training`. They work as
other estimators do (pipelines, searches, `set_output`, joblib), in float32 and float64.
`tests/estimators/test_checks.py` lists the check of scikit-learn that cannot pass.
"""

from .diffusion_clusterer import DiffusionClusterer
from .diffusion_label_spreading import DiffusionLabelSpreading
from .diffusion_map import DiffusionMap
from .heat_diffusion import HeatDiffusion

__all__ = ["DiffusionClusterer", "DiffusionLabelSpreading", "DiffusionMap", "HeatDiffusion"]
