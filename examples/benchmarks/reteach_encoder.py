"""Teach an encoder of sentences the clusters of your own documents, without a label.

    python examples/benchmarks/reteach_encoder.py titles.csv --classes 20 --output output/encoder

titles.csv has a column of documents (`--text`, "text" by default). A round is

1. vectors of the encoder, and the words of the documents beside them (`WordFeatures`);
2. their neighbours, and a `DiffusionClassifier` that `fit` trains on the graph;
3. confident documents: classifier and diffused probabilities name one class, and after classes are
   balanced (Sinkhorn iterations between documents and classes, as IOCC does) this class is among
   the surest of its documents;
4. an epoch of all documents, twice each under different dropout: cross entropy of the confident
   ones against their class, and a contrastive loss that brings both vectors of a document together.

The encoder of `--output`/round_1, round_2 ... is a sentence-transformers model, for
`jsem-pyg map --model` or `EmbeddingDataset(model=...)`. Rounds that are there are not run again.
`--labels COLUMN` prints scores; nothing else looks at them. What came out, also without a part of
this, is in `examples/results/reteach_encoder.md`.
"""

import argparse
import math
import os
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from reporting import parser_of
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch_geometric import seed_everything
from torch_geometric.data import Data

from jsem_pyg.datasets import WordFeatures, embed_texts
from jsem_pyg.datasets.text import load_encoder
from jsem_pyg.evaluation import partition_scores
from jsem_pyg.nn import DiffusionClassifier
from jsem_pyg.training import fit
from jsem_pyg.transforms import FaissKNNGraph

TEMPERATURE, HEAD_TEMPERATURE = 0.05, 0.1  # of the contrastive loss, and of the classes
SINKHORN_STEPS = 50
NEIGHBOURS, WEIGHT_OF_WORDS = 15, 0.5
SHARE = 0.6  # of each class, which teaches


def find_classes(x: Tensor, texts: list[str], args: argparse.Namespace) -> tuple[Tensor, Tensor]:
    """Probabilities [N, C] by the graph, and the class [N] of the classifier that sees no edge."""
    z = WordFeatures(WEIGHT_OF_WORDS).fit(texts).beside(x, texts)
    data = FaissKNNGraph(k=NEIGHBOURS)(Data(x=z))
    model = DiffusionClassifier(z.size(1), args.classes)
    fit(model, data, seed=args.seed)
    with torch.no_grad():
        p = model(data.x, data.edge_index, data.edge_weight)
        return p, model.classify(data.x).argmax(-1)


def balance(p: Tensor) -> Tensor:
    """The transport plan between documents of equal mass and classes of equal mass, rows to one.

    Its cost is the surprise -log p; Sinkhorn iterations (Cuturi 2013) at regularisation one.
    """
    log_p = p.double().clamp(min=1e-12).log()
    for _ in range(SINKHORN_STEPS):
        log_p = log_p.log_softmax(0)  # each class has the same mass
        log_p = log_p.log_softmax(1)
    return log_p.exp().float()


def confident(p: Tensor, guess: Tensor) -> tuple[Tensor, Tensor]:
    """Which documents teach [N], and their class [N]."""
    sureness, target = balance(p).max(-1)
    agree = target == guess
    teaches = torch.zeros_like(agree)
    for label in range(p.size(1)):
        members = (agree & (target == label)).nonzero().flatten()
        count = int(SHARE * len(members) + 0.5)
        teaches[members[sureness[members].argsort(descending=True)[:count]]] = True
    return teaches, target


class Training:
    """Encoder, head and optimizer of a round."""

    def __init__(self, base: str | None, centres: Tensor, args: argparse.Namespace) -> None:
        self.encoder = load_encoder(base, "cpu")
        self.head = torch.nn.Parameter(F.normalize(centres))
        rest = []
        for name, each in self.encoder.named_parameters():
            each.requires_grad_("embeddings" not in name)  # those of words stay as they are
            rest += [each] if each.requires_grad else []
        groups = [{"params": rest, "lr": args.lr}, {"params": [self.head], "lr": 100 * args.lr}]
        self.optimizer = torch.optim.AdamW(groups)

    def loss(self, texts: list[str], target: Tensor) -> Tensor:
        """Target [B] is -1 where a document does not teach."""
        inputs = self.encoder.preprocess(texts + texts)  # one pass, two draws of dropout
        z = F.normalize(self.encoder(inputs)["sentence_embedding"])
        one, other = z.chunk(2)
        loss = F.cross_entropy(one @ other.T / TEMPERATURE, torch.arange(len(texts)))
        if bool((target >= 0).any()):
            logits = z @ F.normalize(self.head).T / HEAD_TEMPERATURE
            loss = loss + F.cross_entropy(logits, target.repeat(2), ignore_index=-1)
        return loss


def batches(texts: list[str], args: argparse.Namespace, seed: int) -> list[np.ndarray]:
    """Documents of like length together, in an order drawn at random."""
    draw = np.random.default_rng(seed)
    length = np.array([len(text) for text in texts]) * draw.uniform(0.8, 1.25, len(texts))
    parts = np.array_split(np.argsort(length), max(1, len(texts) // args.batch))
    return [parts[i] for i in draw.permutation(len(parts))]


def train(
    base: str | None, texts: list[str], target: Tensor, x: Tensor, folder: Path, args
) -> None:
    """A round's epochs; the encoder takes its name when it is whole."""
    known = target >= 0
    onehot = F.one_hot(target.clamp(min=0), args.classes).float() * known[:, None]
    training = Training(base, onehot.T @ F.normalize(x), args)
    whole = [batches(texts, args, epoch) for epoch in range(math.ceil(args.epochs))]
    steps = [each for epoch in whole for each in epoch][: math.ceil(args.epochs * len(whole[0]))]
    training.encoder.train()
    for step, rows in enumerate(steps):
        seed_everything(args.seed + step)
        rate = min(1.0, (step + 1) / (0.1 * len(steps)))
        for group, lr in zip(training.optimizer.param_groups, (1, 100), strict=True):
            group["lr"] = args.lr * lr * rate
        training.optimizer.zero_grad()
        loss = training.loss([texts[row] for row in rows], target[rows])
        loss.backward()
        training.optimizer.step()
        if step % 10 == 0:
            print(f"step {step + 1} of {len(steps)}, loss {loss:.3f}", flush=True)
    part = folder.with_name(folder.name + ".part")
    training.encoder.save_pretrained(str(part))
    os.replace(part, folder)


def vectors(model: str | None, texts: list[str], number: int, args: argparse.Namespace) -> Tensor:
    """Of all documents after a round, made once."""
    path = args.output / f"vectors_{number}.safetensors"
    if not path.exists():
        fresh = path.with_suffix(".new")
        save_file({"x": embed_texts(texts, model or args.model, 64, "cpu", False)}, fresh)
        os.replace(fresh, path)
    return load_file(path)["x"]


def scores(p: Tensor, y: Tensor | None) -> dict[str, float]:
    return {} if y is None else partition_scores(p.argmax(-1), y)._asdict()


def run(texts: list[str], y: Tensor | None, args: argparse.Namespace) -> pd.DataFrame:
    """All rounds, and a row of scores for the vectors before the first and after each."""
    args.output.mkdir(parents=True, exist_ok=True)
    rows: list[dict] = []
    x, target = vectors(None, texts, 0, args), torch.empty(0)
    for number in range(args.rounds + 1):
        if number:
            folder = args.output / f"round_{number}"
            if not folder.exists():
                base = args.model if number == 1 else str(args.output / f"round_{number - 1}")
                train(base, texts, target, x, folder, args)
            x = vectors(str(folder), texts, number, args)
        p, guess = find_classes(x, texts, args)
        teaches, found = confident(p, guess)
        target = torch.where(teaches, found, -1)
        row = {"round": number, **scores(p, y), "teach": int(teaches.sum())}
        if y is not None:
            row["right among them"] = partition_scores(found[teaches], y[teaches]).acc
        rows.append(row)
        print({k: round(v, 3) for k, v in row.items()}, flush=True)
    return pd.DataFrame(rows)


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__, "output/reteach")
    parser.add_argument("file", type=Path, help="CSV file, a document a row")
    parser.add_argument("--classes", type=int, required=True)
    parser.add_argument("--text", default="text", help="column of the documents")
    parser.add_argument("--labels", help="column of labels, for scores alone")
    parser.add_argument("--model", help="name or folder; the bundled all-MiniLM-L6-v2 if omitted")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--epochs", type=float, default=1.0)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-5)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    table = pd.read_csv(args.file)
    texts = table[args.text].fillna("").astype(str).tolist()
    y = None if args.labels is None else torch.from_numpy(pd.factorize(table[args.labels])[0])
    runs = run(texts, y, args)
    runs.to_csv(args.output / "rounds.csv", index=False)
    print(runs.round(3).to_string(index=False))
    return runs


if __name__ == "__main__":
    main()
