"""Training steps of layers on a GPU, and panels of a file; parts of gpu_epoch.py."""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from gpu_timing import Note, between, error, last_line, now, too_large
from torch import Tensor
from torch.nn import Module
from torch_geometric.nn import RGCNConv
from training_epoch import load_points

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.graph import GraphStructure
from jsem_pyg.neighbors import knn_graph
from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion, RelationalChebConv
from jsem_pyg.partition import diffuse_file
from jsem_pyg.partition.files import flow
from jsem_pyg.partition.files.memory import choose_width

diffuse_module = import_module("jsem_pyg.partition.files.diffuse_file")


def training_layer(kind: str, channels: int, args: argparse.Namespace, **options: Any) -> Module:
    """A layer whose conductance and time have been learned a little."""
    torch.manual_seed(0)
    options = {"degree": args.degree, "backend": "triton"} | options
    if kind == "diffusion":
        layer = AnisotropicDiffusion(t=5.0, **options)
    else:
        layer = AnisotropicChebConv(channels, channels, t=5.0, **options)
    with torch.no_grad():
        for name, each in layer.named_parameters():
            if name.startswith(("conductance", "time", "relation")):
                each.add_(0.1)
    return layer.to(args.device)


def step_seconds(step: Callable[[], object], repeats: int, device: str) -> float:
    """Median time of a step among several in a row, so that waits of the host show."""
    in_a_row = 1 if device == "cpu" else 10
    timings = []
    for _ in range(max(repeats // 4, 1) + 1):
        start = now(device)
        for _ in range(in_a_row):
            step()
        timings.append(between(start, now(device)) / in_a_row)
    return statistics.median(timings[1:])


def gradients_of(layer: Module, *given: Any, **named: Any) -> list[Tensor]:
    """The result of a layer, and the gradients of its parameters."""
    learned = [each for each in layer.parameters() if each.requires_grad]
    out = layer(*given, **named)
    return [out.detach(), *torch.autograd.grad(out, learned, out.detach())]


def steps(args: argparse.Namespace, note: Note) -> None:
    """A training step, forward and backward, by Triton and by torch."""
    x = load_points(args).to(args.device)
    edge_index, weight = knn_graph(x.cpu(), args.k)
    structure = GraphStructure(edge_index.to(args.device), x.size(0))
    weight = weight.to(args.device)
    for kind in ("diffusion", "convolution"):
        first = None
        for way in ("torch", "triton"):
            try:
                layer = training_layer(kind, x.size(1), args, backend=way)
                given = layer, x, structure, weight, weight.unsqueeze(-1)
                found = gradients_of(*given)
                first = found if first is None else first
                off = max(error(*pair) for pair in zip(found, first, strict=True))
                taken = step_seconds(lambda g=given: gradients_of(*g), args.repeats, args.device)
                note(way=f"{kind}, {way}", N=x.size(0), D=x.size(1), error=off,
                     failed=too_large(off, 1e-4), **{"epoch ms": 1e3 * taken})  # fmt: skip
            except Exception as problem:
                note(way=f"{kind}, {way}", failed=last_line(problem))


def relations(args: argparse.Namespace, note: Note) -> None:
    """A step of convolutions with relations, beside RGCNConv."""
    x, num_relations = load_points(args).to(args.device), 4
    edge_index, _ = knn_graph(x.cpu(), args.k)
    edge_index = edge_index.to(args.device)
    structure = GraphStructure(edge_index, x.size(0))
    edge_type = edge_index.sum(0) % num_relations
    channels = x.size(1)
    sizes = channels, channels, num_relations
    one = training_layer("convolution", channels, args, edge_dim=0, num_relations=num_relations)
    options = {"degree": args.degree if args.rehearse else None, "backend": "triton"}
    several = RelationalChebConv(*sizes, **options).to(args.device)
    theirs = RGCNConv(*sizes).to(args.device)
    steps: dict[str, Callable[[], list[Tensor]]] = {
        "PyG RGCNConv": lambda: gradients_of(theirs, x, edge_index, edge_type),
        "RelationalChebConv": lambda: gradients_of(several, x, edge_index, edge_type),
        "AnisotropicChebConv": lambda: gradients_of(one, x, structure, edge_type=edge_type),
    }
    for way, step in steps.items():
        taken = step_seconds(step, args.repeats, args.device)
        note(way=f"{way}, {num_relations} relations", N=x.size(0), D=channels,
             **{"epoch ms": 1e3 * taken})  # fmt: skip


def panels(args: argparse.Namespace, note: Note) -> None:
    """A file through the GPU, in panels of columns; beside the same from memory."""
    x = load_points(args)
    edge_index, weight = knn_graph(x, args.k)
    structure = GraphStructure(edge_index, x.size(0))
    x = x.repeat(1, 1 if args.rehearse else 8)
    on_device = GraphStructure(edge_index.to(args.device), x.size(0))

    def run() -> Tensor:
        moved = x.to(args.device), weight.to(args.device)
        return heat_diffusion(moved[0], on_device, moved[1], 5.0).cpu()

    run()
    started = time.perf_counter()
    wanted = run()
    shape = {"N": x.size(0), "D": x.size(1)}
    taken = time.perf_counter() - started
    note(way="from memory and back", **shape, **{"forward ms": 1e3 * taken})
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "x.npy", Path(folder) / "y.npy"
        np.save(source, x.numpy())
        for flow._IN_FLIGHT in (1, 2):
            started = time.perf_counter()
            with mock.patch.object(diffuse_module, "choose_width", narrow):
                diffuse_file(
                    source, structure, target, 5.0, edge_weight=weight, memory="16GB",
                    device=args.device, progress=False,
                )  # fmt: skip
            taken, found = time.perf_counter() - started, torch.from_numpy(np.load(target))
            off = error(found, wanted)
            note(way=f"diffuse_file, {flow._IN_FLIGHT} on their way", **shape, error=off,
                 failed=too_large(off, 1e-5), **{"forward ms": 1e3 * taken})  # fmt: skip


def narrow(limit: int, flow: Any, width: int | None) -> int:
    """Make eight panels at least, so that copies can fall into the time of others."""
    return max(flow.unit, min(choose_width(limit, flow, width), flow.channels // 8))
