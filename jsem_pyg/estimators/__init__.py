"""scikit-learn's doors: a transformer, a clusterer and a semi-supervised classifier.

All three build the neighbour graph of X and take new points later, each by itself: what is said of
a point does not depend on which others are in the call. They have no mathematics of their own: heat
is of :mod:`jsem_pyg.diffusion`, self-training of :mod:`jsem_pyg.training`. They work where
estimators do (pipelines, searches, `set_output`, joblib), in float32 and float64; sparse X is
reduced first. What cannot be heard from scikit-learn's own checks stands in
`tests/estimators/test_checks.py`.
"""

from .diffusion_clusterer import DiffusionClusterer
from .diffusion_label_spreading import DiffusionLabelSpreading
from .heat_diffusion import HeatDiffusion

__all__ = ["DiffusionClusterer", "DiffusionLabelSpreading", "HeatDiffusion"]
