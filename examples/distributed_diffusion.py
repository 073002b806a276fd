"""How does a diffusion learn on a graph that several processes, or machines, share?

    torchrun --nproc-per-node 2 examples/distributed_diffusion.py          # digits, no file needed
    export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
    torchrun --nproc-per-node 4 --max-restarts 3 examples/distributed_diffusion.py

Every process holds the rows of its part of the graph, exchanges the halo in every term, and makes
the same steps: numbers are those of one process. A process that dies ends the others; torchrun
starts them again, and they go on from the checkpoint. (Without the variable torchrun may hand them
the addresses of those that died, pytorch/pytorch#135712.) On several machines the same command is
given on each, with what says where they meet:

    torchrun --nnodes 8 --nproc-per-node 1 --rdzv-backend c10d --rdzv-endpoint first-machine:29500 \
        examples/distributed_diffusion.py

The diffused features come into one `.npy` file, of which each process writes its rows.
"""

import argparse
import logging
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F

from jsem_pyg.datasets import DigitsDataset
from jsem_pyg.nn import AnisotropicDiffusion
from jsem_pyg.partition import distribute
from jsem_pyg.training import fit
from jsem_pyg.transforms import FaissKNNGraph, FormanCurvature


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--k", type=int, default=15)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--batch-size", type=int, default=4096)
    parser.add_argument("--seconds", type=float, default=600, help="to wait for another process")
    parser.add_argument("--output", type=Path, default=Path("output/distributed"))
    return parser.parse_args(argv)


def write_rows(path: Path, rows: torch.Tensor, nodes: torch.Tensor, num_nodes: int) -> None:
    """Write the rows of all processes to one file."""
    shape = (num_nodes, rows.size(1))
    if dist.get_rank() == 0:
        np.lib.format.open_memmap(path, "w+", rows.numpy().dtype, shape).flush()
    dist.barrier()
    out = np.lib.format.open_memmap(path, "r+")
    out[nodes.numpy()] = rows.numpy()
    out.flush()
    dist.barrier()


def main(argv: list[str] | None = None) -> None:
    args = parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    dist.init_process_group("gloo", timeout=timedelta(seconds=args.seconds))
    is_first = dist.get_rank() == 0
    if not is_first:
        logging.disable(logging.INFO)
    size = dist.get_world_size()
    whole = DigitsDataset(args.output / "digits")[0]
    whole.x = F.normalize(whole.x)
    whole = FormanCurvature()(FaissKNNGraph(k=args.k)(whole))
    part = distribute(whole)
    print(part, flush=True)

    data = part.data
    model = AnisotropicDiffusion(t=5.0)
    result = fit(
        model,
        data,
        epochs=args.epochs,
        lr=args.lr,
        batch_size=args.batch_size,
        checkpoint=args.output / f"run-{size}.safetensors",
        checkpoint_every=1,
        resume=True,
        progress=False,
    )
    with torch.no_grad():
        y = model(data.x, part, data.edge_weight, data.edge_attr)
    write_rows(args.output / "diffused.npy", y, part.nodes, part.num_nodes_in_all)
    if is_first:
        last = result.history[-1]
        print(f"loss {result.history[0].loss:.4f} -> {last.loss:.4f}, t = {last.t:.3f}")
        print(f"diffused features in {args.output / 'diffused.npy'}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
