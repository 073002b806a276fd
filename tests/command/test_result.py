from types import SimpleNamespace

import numpy as np

from jsem_pyg.command.result import MapResult


def test_typical_documents_are_those_near_the_middle():
    result = SimpleNamespace(
        x=np.array([[-3.0, 0.0], [9.0, 9.0], [0.0, 0.0], [3.0, 0.0], [0.0, 1.0], [0.0, 0.25]]),
        content=SimpleNamespace(texts=["left", "other", "middle", "right", "above", " "]),
        clusterer=SimpleNamespace(labels_=np.array([0, 1, 0, 0, 0, 0])),
    )
    assert MapResult.typical(result, 0, 3) == ["middle", "above", "left"]
    result.content.texts = None
    assert MapResult.typical(result, 0, 3) == []
