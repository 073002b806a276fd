"""Models in folders of the Hugging Face Hub: what is read back gives the same numbers, offline."""

import json
import shutil
import socket
from copy import deepcopy

import pytest
import torch

pytest.importorskip("huggingface_hub", reason="the hub is in the extra [hub]")


from safetensors.torch import save_file

from jsem_pyg import nn
from jsem_pyg.models import hub

EDGES = torch.tensor([[0, 1, 2, 0, 3, 4, 5, 3], [1, 2, 0, 2, 4, 5, 3, 5]])
EDGES = torch.cat([EDGES, EDGES.flip(0)], 1).unique(dim=1)
MEMBERS = torch.tensor([[0, 1, 2, 3, 3, 4, 5], [0, 0, 0, 0, 1, 1, 1]])
ATTR = torch.rand(EDGES.size(1), generator=torch.Generator().manual_seed(1))
ATTR = (ATTR + ATTR[[*map(EDGES.T.tolist().index, EDGES.flip(0).T.tolist())]])[:, None]

MODELS = {
    "AnisotropicChebConv": (lambda cls: cls(3, 4, t=torch.tensor([1.0, 3.0])), (EDGES, None, ATTR)),
    "AnisotropicDiffusion": (
        lambda cls: cls(1, t=[0.5, 2.0], conductance="mlp"),
        (EDGES, None, ATTR),
    ),
    "AnisotropicGNN": (lambda cls: cls(3, 8, 2, out_channels=2, edge_dim=0, t=3.0), (EDGES,)),
    "DiffusionClassifier": (lambda cls: cls(3, 2, normalization="rw", tol=1e-4), (EDGES,)),
    "HypergraphChebConv": (lambda cls: cls(3, 2, t=0.7), (MEMBERS,)),
    "HypergraphDiffusion": (lambda cls: cls(t=0.7), (MEMBERS,)),
}


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a folder needs no network")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture
def x():
    return torch.randn(6, 3, generator=torch.Generator().manual_seed(0))


def shake(model):
    """Other parameters than those of a new model."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for each in model.parameters():
            each.add_(0.3 * torch.randn(each.shape, generator=generator))
    return model


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", MODELS)
def test_a_folder_gives_the_same_model_in_the_same_precision(name, dtype, x, tmp_path):
    make, graph = MODELS[name]
    model = shake(make(getattr(hub, name)).to(dtype)).eval()
    graph = [each.to(dtype) if each is ATTR else each for each in graph]
    model.save_pretrained(tmp_path)
    files = {"README.md", "config.json", "model.safetensors"}
    assert {path.name for path in tmp_path.iterdir()} == files
    again = getattr(hub, name).from_pretrained(tmp_path)
    assert not again.training
    assert torch.equal(again(x.to(dtype), *graph), model(x.to(dtype), *graph))
    card = (tmp_path / "README.md").read_text()
    assert f"import {name}\n" in card
    assert "library_name: jsem_pyg" in card


def test_all_layers_that_diffuse_are_there():
    assert {*MODELS, "SimplicialDiffusion"} == {*hub.__all__}


def test_a_classifier_keeps_the_number_and_the_time_that_training_chose(x, tmp_path):
    model = hub.DiffusionClassifier(3)
    assert isinstance(model, nn.DiffusionClassifier)
    model.set_num_classes(4)
    model.isotropic.time.set(7.0)
    model(x, EDGES)  # running means
    model.eval().save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["num_classes"] == 4
    again = hub.DiffusionClassifier.from_pretrained(tmp_path)
    assert torch.equal(again(x, EDGES), model(x, EDGES))
    assert torch.equal(again.t, model.t)


def test_a_lazy_layer_knows_its_size_after_reading(x, tmp_path):
    conv = hub.AnisotropicChebConv(-1, 4, edge_dim=0)
    expected = conv(x, EDGES)
    conv.save_pretrained(tmp_path)
    again = hub.AnisotropicChebConv.from_pretrained(tmp_path)
    assert torch.equal(again(x, EDGES), expected)


def test_modules_as_arguments_are_refused_before_anything_is_written(tmp_path):
    conv = hub.AnisotropicChebConv(3, 4, conductance=nn.SigmoidConductance(1))
    with pytest.raises(TypeError, match=r"others for \['conductance'\]"):
        conv.save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    with pytest.raises(TypeError, match="conductance"):
        deepcopy(conv).save_pretrained(tmp_path / "model")
    by_place = hub.AnisotropicDiffusion(1, 5.0, True, nn.SigmoidConductance(1))
    with pytest.raises(TypeError, match=r"others for \['conductance'\]"):
        by_place.save_pretrained(tmp_path / "model")


def test_weights_that_miss_or_do_not_fit_are_errors(tmp_path):
    hub.AnisotropicChebConv(3, 4).save_pretrained(tmp_path)
    with pytest.raises(RuntimeError, match="size mismatch"):
        hub.AnisotropicChebConv.from_pretrained(tmp_path, out_channels=5)
    with pytest.raises(RuntimeError, match="Missing"):
        hub.AnisotropicChebConv.from_pretrained(tmp_path, conductance="mlp")
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"'model_id'.*model\.safetensors"):
        hub.AnisotropicChebConv.from_pretrained(tmp_path)


@pytest.mark.parametrize("place", [0, 200, -3])
@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_flipped_byte_is_seen(tmp_path, name, place):
    hub.AnisotropicChebConv(3, 4, t=5.0).save_pretrained(tmp_path)
    content = bytearray((tmp_path / name).read_bytes())
    content[place] ^= 1
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match="`save_pretrained` wrote"):
        hub.AnisotropicChebConv.from_pretrained(tmp_path)


def test_weights_on_a_full_disk_are_an_oserror_and_the_old_ones_stay(tmp_path):
    pytest.importorskip("resource", reason="POSIX only")
    from trust.disk_cases import file_size_limit

    hub.AnisotropicChebConv(3, 400).save_pretrained(tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()
    for limit in (0, 1000, len(before) - 1):
        with file_size_limit(limit), pytest.raises(OSError, match="too large|No space"):
            hub.AnisotropicChebConv(3, 400).save_pretrained(tmp_path)
        assert (tmp_path / "model.safetensors").read_bytes() == before


def test_a_folder_of_another_class_is_refused(tmp_path):
    hub.AnisotropicDiffusion(edge_dim=0, t=3.0).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"a HypergraphDiffusion \(got a AnisotropicDiffusion\)"):
        hub.HypergraphDiffusion.from_pretrained(tmp_path)


def test_files_that_do_not_belong_together_are_refused(tmp_path):
    for place, normalization in (("one", "rw"), ("other", "sym")):
        conv = hub.AnisotropicDiffusion(edge_dim=0, normalization=normalization)
        conv.save_pretrained(tmp_path / place)
    shutil.copy(tmp_path / "one/config.json", tmp_path / "other")
    with pytest.raises(ValueError, match="not written together"):
        hub.AnisotropicDiffusion.from_pretrained(tmp_path / "other")
    (tmp_path / "one/config.json").unlink()  # the arguments would be those of a new layer
    with pytest.raises(FileNotFoundError, match=r"'model_id'.*config\.json"):
        hub.AnisotropicDiffusion.from_pretrained(tmp_path / "one")
    save_file({"time.raw": torch.zeros(())}, tmp_path / "other/model.safetensors")
    with pytest.raises(ValueError, match="weights alone are read by `load_state_dict`"):
        hub.AnisotropicDiffusion.from_pretrained(tmp_path / "other")


def test_times_are_weights_and_no_arguments(tmp_path):
    hub.AnisotropicChebConv(3, 2, t=[1.0, 2.0]).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="no 't', since the times are among the weights"):
        hub.AnisotropicChebConv.from_pretrained(tmp_path, t=[5.0, 6.0])
    read = hub.AnisotropicChebConv.from_pretrained(tmp_path, normalization="rw")
    assert read.t.tolist() == pytest.approx([1.0, 2.0])
    assert read.options.normalization == "rw"
