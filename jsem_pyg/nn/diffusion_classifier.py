"""Class probabilities that diffuse over the graph, and stop where they disagree."""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.typing import Adj, OptTensor

from .._checks import check_edge_index, check_points, check_positive, check_positive_int
from ..operators import GraphStructure
from .agreement_conductance import AgreementConductance, normalize_rows
from .anisotropic_diffusion import AnisotropicDiffusion
from .running_mean import RunningMean


class _Seen(NamedTuple):
    """The graph of the last call. Swapped whole, so that no thread finds half of it."""

    key: tuple[Any, ...]  # what tells its tensor from any other
    kept: Tensor  # that tensor, so that no other takes its place in memory
    structure: GraphStructure


class DiffusionClassifier(torch.nn.Module):
    r"""A linear classifier whose probabilities diffuse, twice: everywhere, then within classes.

    .. math::
        \mathbf{Q} &= \mathrm{softmax}(\hat{\mathbf{X}} \mathbf{W} + \mathbf{b})

        \mathbf{P} &= b\left( e^{-t \mathbf{L}} \mathbf{Q} \right)

        \mathbf{P}^{\prime} &= b\left( e^{-t \mathbf{L}_{\theta}} \mathbf{P} \right), \qquad
        w^{\prime}_{ij} = w_{ij} \, h(\mathbf{p}_i, \mathbf{p}_j)

    with the centred features :math:`\hat{\mathbf{X}}`, their rows of length one, and the
    conductance :class:`AgreementConductance`: an edge conducts as far as the probabilities around
    its two ends agree. What is learned, :math:`\mathbf{W}`, is one projection shared by both ends
    of every edge. The balance :math:`b` divides each class by a power of its mean, so that large
    classes do not swallow small ones, and brings the sum of each row back to one.

    The centre and the class means are those of the call in training mode, and those of training in
    evaluation mode (:class:`~jsem_pyg.nn.running_mean.RunningMean`). What a trained model says of a
    node then depends on the node's own component of the graph, not on what else is in the call.

    :func:`~jsem_pyg.training.fit` trains it without labels, by self-training; it is differentiable,
    so that it may as well be trained with labels like any other model.

    Args:
        in_channels (int): Size of each input sample.
        num_classes (int): Number :math:`C` of classes or clusters.
        t (float): Diffusion time :math:`t > 0`; :func:`~jsem_pyg.training.fit` chooses another.
        learn_t (bool): Whether gradients reach :math:`t`.
        balance (float): The power of the class means: 0 for none, 1 to draw the classes towards
            equal size.
        conductance (torch.nn.Module, optional): Instead of :class:`AgreementConductance`: a
            module as in :class:`AnisotropicDiffusion` that takes `(edge_attr, x_i, x_j)`; it sees
            no edge features, but the probabilities of both ends.
        **kwargs (optional): Of both diffusions: `normalization`, `degree`, `tol` and `backend`, as
            in :class:`AnisotropicDiffusion`.

    Shapes:
        - **input:**
          node features :math:`(|\mathcal{V}|, D)`,
          edge indices :math:`(2, |\mathcal{E}|)`, both directions of every edge,
          edge weights :math:`(|\mathcal{E}|)` *(optional)*
        - **output:** class probabilities :math:`(|\mathcal{V}|, C)`

    Raises:
        TypeError: If an argument has the wrong type, or `conductance` is not a module.
        ValueError: If an argument is out of range, or `conductance` does not look at the nodes.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> p = DiffusionClassifier(3, 2)(torch.eye(3), edge_index)
        >>> torch.allclose(p.sum(-1), torch.ones(3))
        True
    """

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        t: float = 5.0,
        learn_t: bool = True,
        balance: float = 0.5,
        conductance: torch.nn.Module | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        check_positive_int("in_channels", in_channels)
        check_positive_int("num_classes", num_classes)
        check_positive("t", t)
        if not 0 <= balance <= 1:
            raise ValueError(f"Expected 'balance' to lie in [0, 1] (got {balance!r}).")
        self.in_channels = in_channels
        self.num_classes = num_classes
        self.balance = balance
        self.lin = Linear(in_channels, num_classes, weight_initializer="glorot")
        self.isotropic = AnisotropicDiffusion(0, t=t, learn_t=learn_t, **kwargs)
        conductance = AgreementConductance() if conductance is None else conductance
        _check_conductance(conductance)
        self.anisotropic = AnisotropicDiffusion(0, t=t, conductance=conductance, **kwargs)
        _check_sees_nodes(self.anisotropic, conductance)
        self.anisotropic.time = self.isotropic.time  # one time for both
        self.center = RunningMean(in_channels)
        self.isotropic_mean = RunningMean(num_classes)
        self.anisotropic_mean = RunningMean(num_classes)
        self._seen: _Seen | None = None

    def reset_parameters(self) -> None:
        """Draw the linear map anew, go back to the initial time, forget centre and class means."""
        self.lin.reset_parameters()
        self.isotropic.reset_parameters()
        self.anisotropic.reset_parameters()
        self.reset_means()

    def reset_means(self) -> None:
        """Forget centre and class means: evaluation takes those of the call until there are new."""
        for mean in (self.center, self.isotropic_mean, self.anisotropic_mean):
            mean.reset()

    @property
    def t(self) -> Tensor:
        """The diffusion time, > 0."""
        return self.isotropic.t

    def forward(self, x: Tensor, edge_index: Adj, edge_weight: OptTensor = None) -> Tensor:
        """Return class probabilities; see the class for shapes."""
        return self.diffuse(self.classify(x), edge_index, edge_weight)

    def classify(self, x: Tensor) -> Tensor:
        """Probabilities [N, C] of each node by its own features, before any diffusion."""
        check_points("x", x)
        if x.size(1) != self.in_channels:
            raise ValueError(f"Expected 'x' to have {self.in_channels} channels (got {x.size(1)}).")
        return self.lin(center_and_normalize(x, self.center(x))).softmax(-1)

    def diffuse(self, q: Tensor, edge_index: Adj, edge_weight: OptTensor = None) -> Tensor:
        """Diffuse non-negative scores [N, C] everywhere, and then where they agree: [N, C]."""
        graph = self._prepare(edge_index, edge_weight, q.size(-2))
        p = self._balance(self.isotropic(q, graph, edge_weight), self.isotropic_mean)
        return self._balance(self.anisotropic(p, graph, edge_weight), self.anisotropic_mean)

    def conductances(self, x: Tensor, edge_index: Tensor, edge_weight: OptTensor = None) -> Tensor:
        """How well each edge conducts in the second diffusion: [E], in (0, 1].

        Args:
            x: [N, D] node features.
            edge_index: [2, E], both directions of every edge; not a sparse matrix, whose entries
                have no order that the result could follow.
            edge_weight: [E], or None for ones.

        Raises:
            TypeError: If `edge_index` is not a tensor.
            ValueError: If a shape does not fit.
        """
        q = self.classify(x)
        check_edge_index(edge_index, x.size(0))
        graph = self._prepare(edge_index, edge_weight, x.size(0))
        p = self._balance(self.isotropic(q, graph, edge_weight), self.isotropic_mean)
        source, target = edge_index
        return self.anisotropic.conductance(None, p[target], p[source])

    def _balance(self, p: Tensor, class_mean: RunningMean) -> Tensor:
        p = p.clamp(min=0)  # a series that is cut may end a little below
        return normalize_rows(p / class_mean(p).clamp(min=1e-6) ** self.balance)

    def _prepare(self, edge_index: Any, edge_weight: OptTensor, num_nodes: int) -> Any:
        """Sort and check the edges once for both diffusions, and remember them.

        What is no plain tensor goes to the layers as it is, and so does compiled code, where no
        tensor has an identity.
        """
        is_plain = isinstance(edge_index, Tensor) and edge_index.layout == torch.strided
        if not is_plain or torch.compiler.is_compiling():
            return edge_index
        key = _identity(edge_index, num_nodes)
        seen = self._seen
        if seen is not None and seen.key == key:
            return seen.structure
        structure = GraphStructure(edge_index, num_nodes)
        if edge_weight is not None:
            structure.check_weight(edge_weight)  # the layers look at it on a CPU only
        if key is not None:
            self._seen = _Seen(key, edge_index.detach(), structure)
        return structure

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_seen": None}  # copies and files go without the graph

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.in_channels}, {self.num_classes}, "
            f"t={self.isotropic.time}, balance={self.balance})"
        )


def center_and_normalize(x: Tensor, center: Tensor) -> Tensor:
    """Features [N, D] less their centre [D], with rows of length one; a row there stays zero."""
    return F.normalize(x - center)


def _identity(edge_index: Tensor, num_nodes: int) -> tuple[Any, ...] | None:
    """What another tensor cannot share as long as this one is kept, nor it itself once changed."""
    if edge_index.is_inference():
        return None  # such tensors carry no version, so a change in place could not be seen
    layout = (edge_index.shape, edge_index.stride(), edge_index.dtype, edge_index.device)
    return (edge_index.data_ptr(), edge_index._version, *layout, num_nodes)


def _check_conductance(conductance: Any) -> None:
    if not isinstance(conductance, torch.nn.Module):
        raise TypeError(
            "Expected 'conductance' to be a torch.nn.Module, or None for AgreementConductance() "
            f"(got {conductance!r}). To fix this error, leave it out: forms by name are functions "
            "of edge features, of which a DiffusionClassifier has none."
        )


def _check_sees_nodes(layer: AnisotropicDiffusion, conductance: torch.nn.Module) -> None:
    """A conductance of edge features alone would never be called."""
    if not layer.sees_nodes:
        raise ValueError(
            "Expected 'conductance' to be a module that takes (edge_attr, x_i, x_j), the "
            f"probabilities of both ends among them (got {conductance}, which takes edge features "
            "alone). To fix this error, give its forward these three arguments."
        )
