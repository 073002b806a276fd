"""Class probabilities that diffuse over the graph, except across edges where they disagree."""

from typing import Any, cast

import torch
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.typing import Adj, OptTensor

from .._checks import (
    check_edge_index,
    check_keywords,
    check_matrix,
    check_number,
    check_positive,
    check_positive_int,
)
from .._precision import affine_rows, lengths, normalize_rows
from ..graph.reader import GraphReader
from ..graph.structure import GraphRows
from ..kernels.torch_func import check_type_of_layer
from .anisotropic_diffusion import AnisotropicDiffusion
from .conductance import AgreementConductance
from .running_mean import RunningMean


class DiffusionClassifier(torch.nn.Module):
    r"""Classifies nodes linearly; probabilities diffuse along all edges, then within classes.

    .. math::
        \mathbf{Q} &= \mathrm{softmax}(\hat{\mathbf{X}} \mathbf{W} + \mathbf{b})

        \mathbf{P} &= b\left( e^{-t \mathbf{L}} \mathbf{Q} \right)

        \mathbf{P}^{\prime} &= b\left( e^{-t \mathbf{L}_{\theta}} \mathbf{P} \right), \qquad
        w^{\prime}_{ij} = w_{ij} \, h(\mathbf{p}_i, \mathbf{p}_j)

    with the centred features beside a constant column of 1.5 times their mean length, rows
    :math:`\hat{\mathbf{X}}` of length one together: classes may lie in any direction and at any
    distance from the centre. The conductance is their agreement: an edge conducts as far as the
    probabilities around its two ends agree. What is learned, :math:`\mathbf{W}`, is one
    projection shared by both ends of every edge. The balance :math:`b` divides each class by a
    power of its mean, so that large classes do not swallow small ones, and brings the sum of each
    row back to one. Where the start of a training tells the shares of the classes, means are taken
    relative to them.

    In training mode a call uses its own centre, length and class means, in evaluation mode those of
    the training (:class:`~jsem_pyg.nn.running_mean.RunningMean`). The probabilities of a node
    then depend on its own component of the graph, not on other nodes in the call.

    :func:`~jsem_pyg.training.fit` trains it without labels, by self-training; it is differentiable,
    so that it may as well be trained with labels like any other model.

    Args:
        in_channels (int): Size of each input sample.
        num_classes (int, optional): Number :math:`C` of classes or clusters. If omitted, there are
            none yet: :func:`~jsem_pyg.training.fit`, :meth:`set_num_classes` or loaded weights
            determine it.
        t (float): Diffusion time :math:`t > 0`; :func:`~jsem_pyg.training.fit` chooses another.
        balance (float): The power of the class means: 0 for none, 1 to draw the classes towards
            equal size.
        conductance (torch.nn.Module, optional): Instead of the agreement: a module as in
            :class:`AnisotropicDiffusion` that takes `(edge_attr, x_i, x_j)`, with the probabilities
            of both ends as `x_i` and `x_j`, and None as `edge_attr`.
        **kwargs (optional): Of both diffusions: `learn_t`, `normalization`, `degree`, `tol` and
            `backend`, as in :class:`AnisotropicDiffusion`.

    Shapes:
        - **input:**
          node features :math:`(|\mathcal{V}|, D)`,
          edge indices :math:`(2, |\mathcal{E}|)`, both directions of every edge,
          edge weights :math:`(|\mathcal{E}|)` *(optional)*
        - **output:** class probabilities :math:`(|\mathcal{V}|, C)`

    Example:
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> p = DiffusionClassifier(3, 2)(torch.eye(3), edge_index)
        >>> torch.allclose(p.sum(-1), torch.ones(3))
        True
    """

    def __init__(
        self,
        in_channels: int,
        num_classes: int | None = None,
        t: float = 5.0,
        balance: float = 0.5,
        conductance: torch.nn.Module | None = None,
        **kwargs: Any,
    ) -> None:
        check_keywords(self, kwargs, "learn_t normalization degree tol backend")
        super().__init__()
        check_positive_int("in_channels", in_channels)
        if num_classes is not None:
            check_positive_int("num_classes", num_classes, ", or None for fit to choose it")
        check_positive("t", t)
        check_number("balance", balance)
        if not 0 <= balance <= 1:
            raise ValueError(f"Expected 'balance' to lie in [0, 1] (got {balance!r}).")
        self.in_channels = in_channels
        self.num_classes = num_classes
        self.balance = balance
        size = num_classes or 0  # weights without rows: modules, optimisers and files take them
        self.lin = Linear(in_channels + 1, size, weight_initializer="glorot")
        self.isotropic = AnisotropicDiffusion(0, t=t, **kwargs)
        agree = AgreementConductance() if conductance is None else conductance
        self.anisotropic = AnisotropicDiffusion(0, t=t, conductance=agree, **kwargs)
        if not self.anisotropic.sees_nodes:
            raise ValueError(
                "Expected 'conductance' to be a module that takes (edge_attr, x_i, x_j), the "
                f"probabilities of both ends among them (got {conductance}, which takes edge "
                "features, and a DiffusionClassifier has none)."
            )
        # One time for both, a submodule once: torch.func.functional_call would spoil it otherwise.
        del self.anisotropic.time
        self.anisotropic.__dict__["time"] = self.isotropic.time
        self.center = RunningMean(in_channels)
        self.length = RunningMean(1)
        self.isotropic_mean = RunningMean(size)
        self.anisotropic_mean = RunningMean(size)
        self.class_share: Tensor
        self.register_buffer("class_share", torch.ones(size))
        self._reader = GraphReader()

    def set_num_classes(self, num_classes: int) -> None:
        """Set the number of classes, once, and draw the linear map.

        Parameters stay the same objects, so that an optimiser that has them goes on. A model that
        has another number of classes refuses.
        """
        check_positive_int("num_classes", num_classes)
        if self.num_classes == num_classes:
            return
        if self.num_classes is not None:
            raise ValueError(
                f"Expected 'num_classes' to be {self.num_classes}, as the model has it (got "
                f"{num_classes}). To fix this error, make another model."
            )
        self._resize(num_classes)
        self.lin.reset_parameters()
        self.num_classes = num_classes  # last: after an interrupt there are none yet

    def _resize(self, size: int) -> None:
        """Set all parameters of classes to zeros, for another number of classes."""
        self.lin.out_channels = size
        means = self.isotropic_mean.mean, self.anisotropic_mean.mean
        for each in (self.lin.weight, self.lin.bias, *means):
            each.data = each.new_zeros(size, *each.shape[1:])
        self.class_share = self.class_share.new_ones(size)

    def reset_parameters(self) -> None:
        """Draw the linear map again, return to the initial time, clear all means."""
        self.lin.reset_parameters()
        self.isotropic.reset_parameters()
        self.anisotropic.reset_parameters()
        self.reset_means()

    def reset_means(self) -> None:
        """Clear all means; until the next training every call uses its own ones."""
        self.class_share.fill_(1)
        for mean in (self.center, self.length, self.isotropic_mean, self.anisotropic_mean):
            mean.reset()

    @property
    def t(self) -> Tensor:
        """The diffusion time, > 0."""
        return self.isotropic.t

    def forward(self, x: Tensor, edge_index: Adj, edge_weight: OptTensor = None) -> Tensor:
        """Return class probabilities; see the class for shapes."""
        self._check_features(x)
        # The graph first: one that is refused leaves no trace in the running means.
        graph = self._prepare(x, edge_index, edge_weight)
        return self._diffuse(self._classify(x, graph[0]), graph)

    def classify(self, x: Tensor) -> Tensor:
        """Return class probabilities [N, C] from the own features of each node, undiffused."""
        self._check_features(x)
        return self._classify(x)

    def features(self, x: Tensor) -> Tensor:
        """Return the input of the linear map [N, D + 1]: centred x [N, D] beside a constant."""
        self._check_features(x)
        return self._center(x)

    def _check_features(self, x: Tensor) -> None:
        self._known_num_classes()
        check_matrix("x", x)
        if x.size(1) != self.in_channels:
            raise ValueError(f"Expected 'x' to have {self.in_channels} channels (got {x.size(1)}).")
        check_type_of_layer("x", x, self.lin)

    def _center(self, x: Tensor, graph: Any = None) -> Tensor:
        x = x - self.center(x, _mean_over(graph, x))
        length = lengths(x)
        return affine_rows(x, self.length(length, _mean_over(graph, length)))

    def _classify(self, x: Tensor, graph: Any = None) -> Tensor:
        # In the type of the parameters, within autocast too.
        logits = self.lin(self._center(x, graph))
        return logits.softmax(-1, dtype=self.lin.weight.dtype)

    def diffuse(self, q: Tensor, edge_index: Adj, edge_weight: OptTensor = None) -> Tensor:
        """Diffuse scores [N, C] >= 0 along all edges, then along those whose ends agree."""
        num_classes = self._known_num_classes()
        check_matrix("q", q)
        if q.size(1) != num_classes:
            raise ValueError(f"Expected 'q' to have {num_classes} columns (got {q.size(1)}).")
        return self._diffuse(q, self._prepare(q, edge_index, edge_weight))

    def _diffuse(self, q: Tensor, graph: tuple[Any, OptTensor]) -> Tensor:
        p = self._balance(self.isotropic(q, *graph), self.isotropic_mean, graph[0])
        return self._balance(self.anisotropic(p, *graph), self.anisotropic_mean, graph[0])

    def _balance(self, p: Tensor, class_mean: RunningMean, graph: Any) -> Tensor:
        p = p.clamp(min=0)  # a series that is cut may end a little below
        mean = class_mean(p, _mean_over(graph, p)) / self.class_share.to(p)
        return balance_classes(p, mean, self.balance)

    def conductances(self, x: Tensor, edge_index: Tensor, edge_weight: OptTensor = None) -> Tensor:
        """Compute the conductance of each edge in the second diffusion: [E], in (0, 1].

        Args:
            x: [N, D] node features.
            edge_index: [2, E], both directions of every edge; not a sparse matrix, whose entries
                have no order that the result could follow.
            edge_weight: [E], or None for ones.
        """
        self._check_features(x)
        check_edge_index(edge_index, x.size(0))
        graph = self._reader.read(edge_index, x, edge_weight)
        q = self._classify(x, graph[0])
        p = self._balance(self.isotropic(q, *graph), self.isotropic_mean, graph[0])
        return cast(Tensor, self.anisotropic.conduct(graph[0], p))

    def _prepare(self, x: Tensor, edge_index: Adj, edge_weight: OptTensor) -> tuple[Any, OptTensor]:
        """Read the graph once for both diffusions; compiled code takes it as it is."""
        if torch.compiler.is_compiling():
            return edge_index, edge_weight
        return self._reader.read(edge_index, x, edge_weight)

    def _known_num_classes(self) -> int:
        if self.num_classes is None:
            raise ValueError(
                "Expected the model to have a number of classes (got None). To fix this error, "
                "let fit choose it, load weights, or call set_num_classes."
            )
        return self.num_classes

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        """Take the number of classes from what is loaded, if there is none yet."""
        weight = state_dict.get(f"{prefix}lin.weight")
        if self.num_classes is None and weight is not None and len(weight):
            self.set_num_classes(len(weight))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.in_channels}, {self.num_classes}, "
            f"t={self.isotropic.time}, balance={self.balance})"
        )


def _mean_over(graph: Any, rows: Tensor) -> OptTensor:
    """Compute the mean of rows over all nodes of a prepared graph; None if it is not prepared."""
    return graph.mean(rows) if isinstance(graph, GraphRows) else None


def balance_classes(p: Tensor, class_mean: Tensor, power: float) -> Tensor:
    """Divide the scores [N, C] of each class by a power of its mean [C]; rows sum to one.

    A common factor of all scores cancels.
    """
    least = (1e-6 * class_mean.detach().sum()).clamp(min=torch.finfo(class_mean.dtype).tiny)
    return normalize_rows(p / class_mean.clamp(min=least) ** power)
