"""One good call of every public function, constructor and method: the only place to register one.

Bad input (`test_bad_input.py`), layouts in memory (`test_layouts.py`), global state
(`test_global_state.py`) and threads (`test_threads.py`) are tried on these calls. A key is a stage
and a name, with a method behind it where it has one, and a word after a colon in a second call. A
value says what the arguments are, see :func:`good`; those that are left out have their defaults.
:func:`good_call` draws other data of the same shapes.
"""

import inspect
from collections.abc import Callable
from copy import copy
from functools import cache, partial
from importlib.util import find_spec
from pkgutil import resolve_name
from tempfile import TemporaryDirectory
from types import FunctionType
from typing import Any, get_type_hints

import torch
from hypergraph_cases import every
from tiny_graphs import two_parts
from torch_geometric.data import Data
from training.training_cases import SmoothingStub, two_clusters

from jsem_pyg import (
    curvature,
    graph,
    nn,
    operators,
    partition,
    report,
    training,
    transforms,
    transport,
)
from jsem_pyg.diffusion import filters
from jsem_pyg.training.self_training import self_train
from jsem_pyg.training.triplet_training import fit_triplets

Call = tuple[Callable[..., Any], dict[str, Any]]
N, D = 6, 3
_seed = 0  # of what is drawn


def good_call(key: str, seed: int = 0) -> Call:
    """The call of a name, on data that are drawn by a seed."""
    global _seed
    _seed = seed
    try:
        return GOOD[key]()
    finally:
        _seed = 0


def _fit_with_options_of(trainer: Callable[..., Any]) -> Callable[..., Any]:
    """`fit`, with the options that a trainer takes in its signature, so that each is tried."""

    def fit(**given: Any) -> Any:
        return training.fit(**given)

    own = dict(inspect.signature(training.fit).parameters)
    left_out = {*own, "graph", "rounds"}
    del own["options"]
    options = inspect.signature(trainer).parameters
    taken = [each for name, each in options.items() if name not in left_out]
    fit.__signature__ = inspect.Signature([*own.values(), *taken])
    fit.__annotations__ = get_type_hints(trainer) | get_type_hints(training.fit)
    return fit


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(_seed)


def _x(rows: int = N, channels: int = D) -> torch.Tensor:
    return torch.randn(rows, channels, generator=_generator())


def _named(nodes: torch.Tensor) -> torch.Tensor:
    """The nodes in another order for every seed but 0."""
    return nodes if _seed == 0 else torch.randperm(N, generator=_generator())[nodes]


def _edges() -> torch.Tensor:
    return _named(two_parts()[0])


def _triangles() -> torch.Tensor:
    return _named(torch.tensor([[0, 3], [1, 4], [2, 5]]))


def _path() -> torch.Tensor:
    """Connected."""
    edges = _named(torch.stack([torch.arange(N - 1), torch.arange(1, N)]))
    return torch.cat([edges, edges.flip(0)], dim=1)


def _per_edge() -> torch.Tensor:
    return torch.tensor([0.2, 0.4, 0.6, 0.8, 1.0, 1.2]).roll(_seed).repeat(2)


def _one_part() -> partition.Partition:
    return partition.Partition(torch.arange(N), torch.tensor([0, N]))


def _labels() -> torch.Tensor:
    return torch.tensor([0, 0, 1, 0, 1, 1]).roll(_seed)


def _memberships() -> torch.Tensor:
    members, hyperedge = every(N, 3)[:, :30]  # ten hyperedges
    return torch.stack([_named(members), hyperedge])


def _graph_with_attr() -> Data:
    return _graph(edge_attr=_attr())


def _points() -> Data:
    return Data(x=_x())


def _graph(**more: Any) -> Data:
    return Data(x=_x(), edge_index=_edges(), edge_weight=_per_edge(), **more)


def _attr(rows: int = 12) -> torch.Tensor:
    half = torch.linspace(-1, 1, rows // 2).unsqueeze(-1)
    return torch.cat([half, half])


def _structure() -> graph.GraphStructure:
    return graph.GraphStructure(_edges(), N)


def _operator() -> operators.HeatOperator:
    return operators.laplacian_operator(_structure(), _per_edge())


def _hypergraph() -> graph.HypergraphStructure:
    return graph.HypergraphStructure(_memberships(), N)


def _complex() -> graph.SimplicialStructure:
    return graph.SimplicialStructure(_edges()[:, :6])


def _classifier() -> nn.DiffusionClassifier:
    return nn.DiffusionClassifier(D, 2)


def _unlabelled() -> Data:
    data = two_clusters(num_nodes=12, seed=_seed)
    return Data(x=data.x, edge_index=data.edge_index, edge_weight=data.edge_weight)


def _labelled() -> Data:
    data = two_clusters(num_nodes=12, seed=_seed)
    data.train_mask = torch.ones(12, dtype=torch.bool)
    return data


def _few_labels() -> torch.Tensor:
    labels = torch.full((12,), -1)
    labels[:2], labels[-2:] = 0, 1
    return labels


def _neighbours() -> graph.NeighborIndex:
    return graph.NeighborIndex(_x(), k=2)


def _distances() -> torch.Tensor:
    return graph.knn_search(_x(), 2)[1]


def _triplets() -> training.Triplets:
    return training.Triplets(*torch.tensor([[0, 1], [1, 2], [3, 4]]))


def _aligned() -> transport.Plan:
    return copy(_plan(_seed))


@cache
def _plan(seed: int) -> transport.Plan:
    assert seed == _seed
    return transport.gromov_wasserstein(_x(), _x(5, 2), epsilon=0.3, starts=["axes"])


def _columns(nodes: torch.Tensor) -> torch.Tensor:
    """Of the distances on a line."""
    position = torch.arange(N).float()
    return (position[:, None] - position[nodes]).abs()


_FOLDER = TemporaryDirectory()  # for what is written to files


def _masses(size: int) -> torch.Tensor:
    mass = torch.arange(1.0, size + 1)
    return mass / mass.sum()


def _distances_of(x: torch.Tensor) -> torch.Tensor:
    return torch.cdist(x, x)


# What arguments are, by their names, wherever a call does not say otherwise.
USUAL: dict[str, Any] = {
    "x": _x,
    "edge_index": _edges,
    "edge_weight": _per_edge,
    "edge_attr": _attr,
    "num_nodes": N,
    "structure": _structure,
    "hyperedge_index": _memberships,
    "hyperedge_weight": lambda: torch.linspace(0.5, 1.5, 10),
    "num_hyperedges": 10,
    "triangles": _triangles,
    "triangle_weight": lambda: torch.tensor([0.5, 2.0]),
    "nodes": lambda: torch.tensor([0, 5]),
    "x_new": lambda: _x(2),
    "values": _x,
    "y": _labels,
    "labels": _labels,
    "source": _x,
    "target": lambda: _x(5, 2),
    "p": lambda: _masses(N),
    "q": lambda: _masses(5),
    "features": lambda: [_x(N, 2), _x(5, 2)],
    "known_pairs": lambda: torch.tensor([[0, 1], [4, 2]]),
}
GROUPS = {
    "@graph": "x edge_index edge_weight",
    "@edges": "edge_index num_nodes edge_weight",
    "@hypergraph": "x hyperedge_index hyperedge_weight num_hyperedges",
    "@pair": "source target p q",
    "@fused": "source target p q features known_pairs",
}


def good(names: str = "", *, of: Callable[[], Any] | None = None, **given: Any) -> tuple[Any, ...]:
    """Arguments of a call.

    Args:
        names: arguments that have their usual values, or groups of them.
        of: makes the object whose method it is, by default without arguments; or what is called,
            where that is no method.
        given: other arguments; a function of Python's makes one anew.
    """
    return names, of, given


def _call(key: str, names: str, of: Callable[[], Any] | None, given: dict[str, Any]) -> Call:
    for group, members in GROUPS.items():
        names = names.replace(group, members)
    values = {name: USUAL[name] for name in names.split()} | given
    arguments = {
        name: value() if isinstance(value, FunctionType) else copy(value)
        for name, value in values.items()
    }
    head, _, name = f"jsem_pyg.{key.split(':')[0]}".rpartition(".")
    parent = resolve_name(head)
    if not inspect.isclass(parent):
        return (getattr(parent, name) if of is None else of()), arguments
    owner = parent() if of is None else of()
    is_layer = isinstance(owner, torch.nn.Module)
    is_called = name == "__call__" or (name == "forward" and not is_layer)
    return (owner if is_called else getattr(owner, name)), arguments


_ON_COMPLEX = good(
    "x triangles triangle_weight",
    edge_index=lambda: _edges()[:, :6],
    edge_weight=lambda: _per_edge()[:6],
)

CALLS: dict[str, tuple[Any, ...]] = {
    # 1. points and graphs
    "graph.GraphStructure": good("edge_index num_nodes"),
    "graph.GraphStructure.check_weight": good("edge_weight", of=_structure),
    "graph.GraphStructure.check_attr": good("edge_attr", of=_structure),
    "graph.GraphStructure.read_symmetric": good(of=_structure, name="values", values=_per_edge),
    "graph.HypergraphStructure": good("hyperedge_index num_nodes num_hyperedges"),
    "graph.HypergraphStructure.check_weight": good("hyperedge_weight", of=_hypergraph),
    "graph.HypergraphStructure.check_weight_shape": good("hyperedge_weight", of=_hypergraph),
    "graph.SimplicialStructure": good("num_nodes triangles", edge_index=lambda: _edges()[:, :6]),
    "graph.SimplicialStructure.check_edge_weight": good(
        of=_complex, edge_weight=lambda: _per_edge()[:6]
    ),
    "graph.SimplicialStructure.check_triangle_weight": good(
        of=_complex, triangle_weight=lambda: torch.ones(2)
    ),
    "graph.SimplicialStructure.check_flow": good("x", of=_complex),
    "graph.NeighborIndex": good("x", k=2),
    "graph.NeighborIndex.query": good("x_new", of=_neighbours, k=2),
    "graph.NeighborIndex.links": good("x_new", of=_neighbours),
    "graph.NeighborIndex.extend": good("x_new", of=_neighbours),
    "graph.knn_graph": good("x", k=2, batch=lambda: torch.tensor([0, 0, 0, 1, 1, 1])),
    "graph.knn_hyperedges": good("x", k=2),
    "graph.knn_search": good("x", k=2),
    # 2. curvature
    "curvature.Standardizer.fit": good("values"),
    "curvature.Standardizer.transform": good(
        "values", of=lambda: curvature.Standardizer().fit(_x())
    ),
    "curvature.degree_contrast": good("@edges"),
    "curvature.distance_rank": good("@edges"),
    "curvature.forman_curvature": good("@edges"),
    "curvature.jaccard_overlap": good("edge_index num_nodes"),
    "curvature.robust_standardize": good(
        values=_per_edge, group=lambda: _labels().repeat(2), num_groups=2
    ),
    # 3. operators
    "operators.laplacian_operator": good(
        "structure edge_weight", conductance=lambda: torch.ones(12)
    ),
    "operators.hypergraph_operator": good("hyperedge_weight", structure=_hypergraph),
    "operators.hodge_operator": good(
        structure=_complex,
        part="down",
        edge_weight=lambda: torch.ones(6),
        triangle_weight=lambda: torch.ones(2),
    ),
    # 4. diffusion
    "diffusion.dense_laplacian": good("@edges"),
    "diffusion.diffuse": good("x", operator=_operator),
    "diffusion.diffusion_cosine": good("@graph"),
    "diffusion.exact_heat_diffusion": good("@graph"),
    "diffusion.heat_coefficients": good(t=lambda: torch.tensor([1.0]), degree=3),
    "diffusion.heat_degree": good(t=1.0, bound=0.001),
    "diffusion.expm_multiply": good("x", A=lambda: _x(N, N) + _x(N, N).T),
    "diffusion.heat_diffusion": good("@graph", degree=5),
    "diffusion.heat_kernel_columns": good("edge_index nodes edge_weight num_nodes"),
    "diffusion.hypergraph_diffusion": good("@hypergraph"),
    "diffusion.simplicial_diffusion": _ON_COMPLEX,
    "diffusion.truncation_bound": good(t=1.0, degree=3),
    # 5. partition
    "partition.Partition": good(
        order=lambda: torch.tensor([2, 0, 1]),
        ptr=lambda: torch.tensor([0, 1, 3]),
        halo=lambda: torch.tensor([1, 1]),
    ),
    "partition.diffuse_file": good(
        "edge_index edge_weight",
        source=lambda: _x().numpy(),
        target=lambda: f"{_FOLDER.name}/{_seed}.npy",
        t=2.0,
        conductance=lambda: torch.linspace(0.5, 1.0, 6).repeat(2),
        memory="64GB",
        resume=False,
    ),
    "partition.prune_edges": good(data=_graph, conductance=_per_edge, threshold=0.5),
    "partition.recursive_partition": good("edge_index num_nodes", num_parts=2, method="bandwidth"),
    "partition.distribute": good(data=lambda: _graph(edge_attr=_attr()), partition=_one_part),
    "partition.sum_gradients": good(parameters=lambda: list(torch.nn.Linear(2, 1).parameters())),
    # 6. transport
    "transport.AdjacencyCost": good("@edges"),
    "transport.AdjacencyCost.columns": good("nodes", of=lambda: transport.AdjacencyCost(_edges())),
    "transport.ColumnCost": good(function=lambda: _columns, num_points=N),
    "transport.ColumnCost.columns": good("nodes", of=lambda: transport.ColumnCost(_columns, N)),
    "transport.ColumnCost.factor": good(of=lambda: transport.ColumnCost(_columns, N)),
    "transport.CommuteCost": good(),
    "transport.CommuteCost.__call__": good(
        "num_nodes", source=_path, edge_weight=lambda: torch.ones(10)
    ),
    "transport.Factor": good("x edge_index", kind="kernel", sign=lambda: torch.ones(D)),
    "transport.Factor.columns": good("nodes", of=lambda: transport.Factor(_x())),
    "transport.FeatureCost": good(),
    "transport.FeatureCost.__call__": good("source"),
    "transport.GeodesicCost": good(),
    "transport.GeodesicCost.__call__": good(
        "num_nodes", source=_path, edge_length=lambda: torch.ones(10)
    ),
    "transport.HeatCost": good(),
    "transport.HeatCost.__call__": good("num_nodes", source=_graph),
    "transport.MatrixCost": good(),
    "transport.MatrixCost.__call__": good(matrix=lambda: torch.cdist(_x(), _x())),
    "transport.Plan.apply": good(of=_aligned, y=lambda: _x(5)),
    "transport.Plan.joint_embedding": good(of=_aligned, dim=1),
    "transport.Plan.topk": good(of=_aligned, k=2),
    "transport.comparable": good("source", target=lambda: _x(5)),
    "transport.geodesic_columns": good(
        "num_nodes", edge_index=_path, edge_length=lambda: torch.ones(10)
    ),
    "transport.gromov_wasserstein": good("@fused", epsilon=0.3, starts=["axes"], progress=False),
    "transport.gw_distance": good(
        "@fused", epsilon=0.3, starts=["axes"], progress=False, max_iter=3
    ),
    "transport.heat_profiles": good("@edges"),
    "transport.match_graphs": good(
        source=_edges,
        target=lambda: _edges().flip(0),
        p=lambda: torch.arange(1.0, N + 1),
        q=lambda: torch.arange(2.0, N + 2),
        max_iter=3,
    ),
    "transport.sampled_gromov_wasserstein": good(
        "p q",
        source=lambda: _distances_of(_x()),
        target=lambda: _distances_of(_x(5, 2)),
        epsilon=1.0,
        num_anchors=4,
        max_iter=3,
    ),
    # 7. layers
    "nn.AgreementConductance": good(),
    "nn.AgreementConductance.forward": good(
        edge_attr=None, x_i=lambda: _x().softmax(-1), x_j=lambda: _x().softmax(-1)
    ),
    "nn.AgreementConductance.project": good(x=lambda: _x().softmax(-1)),
    "nn.AnisotropicChebConv": good(in_channels=D, out_channels=4),
    "nn.AnisotropicChebConv.forward": good(
        "@graph edge_attr", of=lambda: nn.AnisotropicChebConv(D, 4)
    ),
    "nn.AnisotropicDiffusion": good(),
    "nn.AnisotropicDiffusion.forward": good("@graph edge_attr"),
    "nn.DiffusionClassifier": good(in_channels=D, num_classes=2),
    "nn.DiffusionClassifier.forward": good("@graph", of=_classifier),
    "nn.DiffusionClassifier.classify": good("x", of=_classifier),
    "nn.DiffusionClassifier.features": good("x", of=_classifier),
    "nn.DiffusionClassifier.conductances": good("@graph", of=_classifier),
    "nn.DiffusionClassifier.diffuse": good(
        "edge_index edge_weight", of=_classifier, q=lambda: _x(N, 2).softmax(-1)
    ),
    "nn.DiffusionClassifier.set_num_classes": good(
        of=lambda: nn.DiffusionClassifier(D), num_classes=2
    ),
    "nn.DiffusionTime": good(t=1.0),
    "nn.DiffusionTime.set": good(of=lambda: nn.DiffusionTime(1.0), t=2.0),
    "nn.EndpointConductance": good(),
    "nn.EndpointConductance.forward": good(
        of=lambda: nn.EndpointConductance(D), edge_attr=None, x_i=_x, x_j=_x
    ),
    "nn.EndpointConductance.project": good("x", of=lambda: nn.EndpointConductance(D)),
    "nn.HyperedgeWeight": good(num_hyperedges=3),
    "nn.HypergraphChebConv": good("num_hyperedges", in_channels=D, out_channels=4),
    "nn.HypergraphChebConv.forward": good("@hypergraph", of=lambda: nn.HypergraphChebConv(D, 4)),
    "nn.HypergraphDiffusion": good("num_hyperedges"),
    "nn.HypergraphDiffusion.forward": good("@hypergraph", of=lambda: nn.HypergraphDiffusion()),
    "nn.MLPConductance": good(),
    "nn.MLPConductance.forward": good("edge_attr"),
    "nn.SigmoidConductance": good(),
    "nn.SigmoidConductance.forward": good("edge_attr"),
    "nn.SimplicialDiffusion": good(),
    "nn.SimplicialDiffusion.forward": _ON_COMPLEX,
    # 8. evaluation
    "evaluation.clustering_scores": good("x y", num_clusters=2, seeds=[0]),
    "evaluation.dirichlet_energy": good("@graph"),
    "evaluation.modularity": good("edge_index edge_weight labels"),
    "evaluation.partition_scores": good("y", clusters=_labels),
    # 9. training
    "training.GraphTriplets": good("@edges"),
    "training.GraphTriplets.sample": good(
        of=lambda: training.GraphTriplets(_edges(), None, N), num_triplets=4, generator=_generator
    ),
    "training.LabelTriplets": good("y", mask=lambda: torch.ones(N, dtype=torch.bool)),
    "training.LabelTriplets.sample": good(
        of=lambda: training.LabelTriplets(_labels()), num_triplets=4, generator=_generator
    ),
    "training.PruneEdges": good(),
    "training.TripletLoss": good(),
    "training.TripletLoss.forward": good(z=_x, triplets=_triplets),
    "training.choose_num_classes": good(data=_unlabelled, largest=3),
    "training.fit": good(
        of=lambda: _fit_with_options_of(fit_triplets),
        model=lambda: SmoothingStub(),
        data=_labelled,
        sampler="labels",
        epochs=1,
        batch_size=8,
    ),
    "training.fit:self_training": good(
        of=lambda: _fit_with_options_of(self_train),
        model=lambda: nn.DiffusionClassifier(6, 2),
        data=_unlabelled,
        epochs=1,
        times=[1.0],
        labels=lambda: two_clusters(num_nodes=12, seed=_seed).y,
    ),
    "training.classify_by_heat": good(data=_unlabelled, labels=_few_labels, t=2.0),
    "training.propagate_labels": good(data=_unlabelled, labels=_few_labels, steps=1, folds=1),
    "training.select_time": good(data=_unlabelled, times=[1.0, 2.0]),
    # Report
    "report.report": good(
        data=lambda: _graph(y=_labels()),
        result=lambda: report.Findings(_labels(), _per_edge() / 2, t=2.0),
        path=lambda: f"{_FOLDER.name}/{_seed}.html",
        text=lambda: [f"text {i}" for i in range(N)],
        cluster_names=["one", "other"],
        label_names={0: "a", 1: "b"},
        scores={"ARI": 0.5},
        settings={"seed": 0},
        title="Map",
        times=[0.0, 1.0],
        layout="pca",
        random_state=0,
        progress=False,
    ),
    # Transforms
    "transforms.EdgeGeometry": good(),
    "transforms.EdgeGeometry.fit": good(data=_graph),
    "transforms.EdgeGeometry.forward": good(data=_graph_with_attr),
    "transforms.FaissKNNGraph": good(),
    "transforms.FaissKNNGraph.fit": good(of=lambda: transforms.FaissKNNGraph(2), data=_points),
    "transforms.FaissKNNGraph.forward": good(of=lambda: transforms.FaissKNNGraph(2), data=_points),
    "transforms.FaissKNNGraph.extend": good(
        of=lambda: transforms.FaissKNNGraph(2).fit(_points()), new=_points
    ),
    "transforms.FaissKNNGraph.query": good(
        "x_new", of=lambda: transforms.FaissKNNGraph(2).fit(_points()), k=2
    ),
    "transforms.FormanCurvature": good(),
    "transforms.FormanCurvature.fit": good(data=_graph),
    "transforms.FormanCurvature.forward": good(data=_graph_with_attr),
    "transforms.LocalityOrder": good(),
    "transforms.LocalityOrder.forward": good(
        of=lambda: transforms.LocalityOrder("bandwidth"), data=lambda: _graph(edge_attr=_attr())
    ),
    "transforms.LocalityOrder.restore": good(
        out=_x, data=lambda: transforms.LocalityOrder("bandwidth")(_graph())
    ),
}

if find_spec("jax") is not None:
    _by_numpy = {
        name: lambda name=name: USUAL[name]().numpy() for name in ("x", "edge_index", "edge_weight")
    }
    CALLS |= {
        "jax.heat_coefficients": good(t=1.0, degree=3),
        "jax.heat_diffusion": good(**_by_numpy, degree=5, backend="xla"),
        "jax.prepare_graph": good("num_nodes", edge_index=_by_numpy["edge_index"]),
    }

# Every filter, made, and called on a graph.
FILTERS: dict[str, dict[str, Any]] = {
    "FromFunction": {"function": torch.cos},
    "Heat": {"t": 2.0},
    "Learned": {"degree": 4},
    "LowPass": {"cutoff": 0.5, "order": 2},
    "PersonalizedPageRank": {"alpha": 0.2},
    "Resolvent": {"t": 2.0},
    "Wavelets": {"scales": [2.0, 1.0]},
}
for _name, _given in FILTERS.items():
    CALLS[f"diffusion.filters.{_name}"] = good(**_given)
    _make = partial(getattr(filters, _name), **_given)
    CALLS[f"diffusion.filters.{_name}.forward"] = good("@graph", of=_make, degree=5)
CALLS["diffusion.filters.FilterBank.forward"] = good(
    "@graph", of=lambda: filters.FilterBank(filters.Heat(), filters.Learned(4)), degree=5
)
CALLS["diffusion.filters.Wavelets.synthesize"] = good(
    of=lambda: filters.Wavelets([2.0, 1.0]), y=lambda: _x(3 * N).view(3, N, D), operator=_operator
)

GOOD: dict[str, Callable[[], Call]] = {
    key: partial(_call, key, *call) for key, call in CALLS.items()
}
