"""One good call of every public function, constructor and method: the only place to register one.

Bad input (`test_bad_input.py`), layouts in memory (`test_layouts.py`) and threads
(`test_threads.py`) are tried on these calls. A key is a stage and a name, with a method behind it
where it has one, and a word after a colon in a second call. A value makes the call anew: what is
called, and its arguments by name. Arguments that are left out have their defaults.
:func:`good_call` draws other data of the same shapes.
"""

import inspect
from collections.abc import Callable
from copy import copy
from functools import cache
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Any, get_type_hints

import torch
from hypergraph_cases import every
from tiny_graphs import two_parts
from torch_geometric.data import Data
from training.training_cases import SmoothingStub, two_clusters

from jsem_pyg import (
    curvature,
    diffusion,
    evaluation,
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


def _points() -> Data:
    return Data(x=_x())


def _graph(**more: Any) -> Data:
    return Data(x=_x(), edge_index=_edges(), edge_weight=_per_edge(), **more)


def _on_graph(**more: Any) -> dict[str, Any]:
    return {"x": _x(), "edge_index": _edges(), "edge_weight": _per_edge(), **more}


def _on_hypergraph(**more: Any) -> dict[str, Any]:
    weight = torch.linspace(0.5, 1.5, 10)
    return {"x": _x(), "hyperedge_index": _memberships(), "hyperedge_weight": weight, **more}


def _on_complex(**more: Any) -> dict[str, Any]:
    edge_index = _edges()[:, :6]
    triangle_weight = torch.tensor([0.5, 2.0])
    given = {
        "edge_index": edge_index,
        "triangles": _triangles(),
        "triangle_weight": triangle_weight,
    }
    return {"x": _x(), "edge_weight": _per_edge()[:6], **given, **more}


def _attr(rows: int = 12) -> torch.Tensor:
    half = torch.linspace(-1, 1, rows // 2).unsqueeze(-1)
    return torch.cat([half, half])


def _structure() -> graph.GraphStructure:
    return graph.GraphStructure(_edges(), N)


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


def _batch_aligned() -> transport.BatchPlan:
    return transport.batch_gromov_wasserstein([_x(4)], [_x(3)])


def _pair(**more: Any) -> dict[str, Any]:
    """Two sides and their masses."""
    p, q = (torch.arange(1.0, size + 1) for size in (N, 5))
    return {"source": _x(), "target": _x(5, 2), "p": p / p.sum(), "q": q / q.sum(), **more}


def _fused(**more: Any) -> dict[str, Any]:
    """Two sides, their masses and features, and two pairs of their points."""
    features = [_x(N, 2), _x(5, 2)]
    return _pair(features=features, known_pairs=torch.tensor([[0, 1], [4, 2]]), **more)


def _matrices(**more: Any) -> dict[str, Any]:
    """Two sides as distances, and their masses."""
    given = _pair(**more)
    return {**given, **{name: torch.cdist(given[name], given[name]) for name in _SIDES}}


def _columns(nodes: torch.Tensor) -> torch.Tensor:
    """Of the distances on a line."""
    position = torch.arange(N).float()
    return (position[:, None] - position[nodes]).abs()


_SIDES = ("source", "target")
_FOLDER = TemporaryDirectory()  # for what is written to files
_CURVED = {"edge_index": _edges, "num_nodes": lambda: N}
_ON_EDGES = {**_CURVED, "edge_weight": _per_edge}


def _made(function: Callable[..., Any], makers: dict[str, Callable[[], Any]]) -> Call:
    return function, {name: make() for name, make in makers.items()}


GOOD: dict[str, Callable[[], Call]] = {
    # 1. points and graphs
    "graph.GraphStructure": lambda: _made(graph.GraphStructure, _CURVED),
    "graph.GraphStructure.check_weight": lambda: (
        _structure().check_weight,
        {"edge_weight": _per_edge()},
    ),
    "graph.GraphStructure.check_attr": lambda: (_structure().check_attr, {"edge_attr": _attr()}),
    "graph.GraphStructure.read_symmetric": lambda: (
        _structure().read_symmetric,
        {"name": "values", "values": _per_edge()},
    ),
    "graph.HypergraphStructure": lambda: (
        graph.HypergraphStructure,
        {"hyperedge_index": _memberships(), "num_nodes": N, "num_hyperedges": 10},
    ),
    "graph.HypergraphStructure.check_weight": lambda: (
        _hypergraph().check_weight,
        {"hyperedge_weight": torch.ones(10)},
    ),
    "graph.HypergraphStructure.check_weight_shape": lambda: (
        _hypergraph().check_weight_shape,
        {"hyperedge_weight": torch.ones(10)},
    ),
    "graph.SimplicialStructure": lambda: (
        graph.SimplicialStructure,
        {
            "edge_index": _edges()[:, :6],
            "num_nodes": N,
            "triangles": _triangles(),
        },
    ),
    "graph.SimplicialStructure.check_edge_weight": lambda: (
        _complex().check_edge_weight,
        {"edge_weight": _per_edge()[:6]},
    ),
    "graph.SimplicialStructure.check_triangle_weight": lambda: (
        _complex().check_triangle_weight,
        {"triangle_weight": torch.ones(2)},
    ),
    "graph.SimplicialStructure.check_flow": lambda: (_complex().check_flow, {"x": _x()}),
    "graph.NeighborIndex": lambda: (graph.NeighborIndex, {"x": _x(), "k": 2}),
    "graph.NeighborIndex.query": lambda: (_neighbours().query, {"x_new": _x(2), "k": 2}),
    "graph.NeighborIndex.links": lambda: (_neighbours().links, {"x_new": _x(2)}),
    "graph.NeighborIndex.extend": lambda: (_neighbours().extend, {"x_new": _x(2)}),
    "graph.clique_hyperedges": lambda: _made(graph.clique_hyperedges, _CURVED),
    "graph.cluster_hyperedges": lambda: (graph.cluster_hyperedges, {"label": _labels()}),
    "graph.knn_graph": lambda: (
        graph.knn_graph,
        {"x": _x(), "k": 2, "batch": torch.tensor([0, 0, 0, 1, 1, 1])},
    ),
    "graph.knn_hyperedges": lambda: (graph.knn_hyperedges, {"x": _x(), "k": 2}),
    "graph.knn_search": lambda: (graph.knn_search, {"x": _x(), "k": 2}),
    "graph.patch_graph": lambda: (graph.patch_graph, {"image": _x(), "noise": 0.5, "k": 2}),
    "graph.random_hyperedges": lambda: (
        graph.random_hyperedges,
        {"num_nodes": N, "size": 3, "num_hyperedges": 5},
    ),
    # 2. curvature
    "curvature.Standardizer": lambda: (curvature.Standardizer, {}),
    "curvature.Standardizer.fit": lambda: (curvature.Standardizer().fit, {"values": _x()}),
    "curvature.Standardizer.transform": lambda: (
        curvature.Standardizer().fit(_x()).transform,
        {"values": _x()},
    ),
    "curvature.degree_contrast": lambda: _made(curvature.degree_contrast, _ON_EDGES),
    "curvature.distance_rank": lambda: _made(curvature.distance_rank, _ON_EDGES),
    "curvature.forman_curvature": lambda: _made(curvature.forman_curvature, _ON_EDGES),
    "curvature.jaccard_overlap": lambda: _made(curvature.jaccard_overlap, _CURVED),
    "curvature.node_curvature": lambda: _made(
        curvature.node_curvature, {**_CURVED, "curvature": _per_edge}
    ),
    "curvature.rank_standardize": lambda: (
        curvature.rank_standardize,
        {"values": _per_edge(), "group": _labels().repeat(2), "num_groups": 2},
    ),
    "curvature.robust_standardize": lambda: (
        curvature.robust_standardize,
        {"values": _per_edge(), "group": _labels().repeat(2), "num_groups": 2},
    ),
    # 3. operators
    "operators.laplacian_operator": lambda: (
        operators.laplacian_operator,
        {"structure": _structure(), "edge_weight": _per_edge(), "conductance": torch.ones(12)},
    ),
    "operators.hypergraph_operator": lambda: (
        operators.hypergraph_operator,
        {"structure": _hypergraph(), "hyperedge_weight": torch.ones(10)},
    ),
    "operators.hodge_operator": lambda: (
        operators.hodge_operator,
        {
            "structure": _complex(),
            "part": "down",
            "edge_weight": torch.ones(6),
            "triangle_weight": torch.ones(2),
        },
    ),
    # 4. diffusion
    "diffusion.dense_laplacian": lambda: _made(diffusion.dense_laplacian, _ON_EDGES),
    "diffusion.diffuse": lambda: (
        diffusion.diffuse,
        {"x": _x(), "operator": operators.laplacian_operator(_structure(), _per_edge())},
    ),
    "diffusion.diffusion_cosine": lambda: (diffusion.diffusion_cosine, _on_graph()),
    "diffusion.exact_heat_diffusion": lambda: (diffusion.exact_heat_diffusion, _on_graph()),
    "diffusion.heat_coefficients": lambda: (
        diffusion.heat_coefficients,
        {"t": torch.tensor([1.0]), "degree": 3},
    ),
    "diffusion.heat_degree": lambda: (diffusion.heat_degree, {"t": 1.0, "bound": 1e-3}),
    "diffusion.expm_multiply": lambda: (
        diffusion.expm_multiply,
        {"A": _x(N, N) + _x(N, N).T, "x": _x()},
    ),
    "diffusion.heat_diffusion": lambda: (diffusion.heat_diffusion, _on_graph(degree=5)),
    "diffusion.heat_kernel_columns": lambda: (
        diffusion.heat_kernel_columns,
        {
            "edge_index": _edges(),
            "nodes": torch.tensor([0, 5]),
            "edge_weight": _per_edge(),
            "num_nodes": N,
        },
    ),
    "diffusion.hypergraph_diffusion": lambda: (
        diffusion.hypergraph_diffusion,
        _on_hypergraph(num_hyperedges=10),
    ),
    "diffusion.simplicial_diffusion": lambda: (diffusion.simplicial_diffusion, _on_complex()),
    "diffusion.truncation_bound": lambda: (diffusion.truncation_bound, {"t": 1.0, "degree": 3}),
    # 5. partition
    "partition.Partition": lambda: (
        partition.Partition,
        {
            "order": torch.tensor([2, 0, 1]),
            "ptr": torch.tensor([0, 1, 3]),
            "halo": torch.tensor([1, 1]),
        },
    ),
    "partition.diffuse_file": lambda: (
        partition.diffuse_file,
        {
            "source": _x().numpy(),
            "edge_index": _edges(),
            "target": f"{_FOLDER.name}/{_seed}.npy",
            "t": 2.0,
            "edge_weight": _per_edge(),
            "conductance": torch.linspace(0.5, 1.0, 6).repeat(2),
            "memory": "64GB",
            "resume": False,
        },
    ),
    "partition.prune_edges": lambda: (
        partition.prune_edges,
        {"data": _graph(), "conductance": _per_edge(), "threshold": 0.5},
    ),
    "partition.recursive_partition": lambda: (
        partition.recursive_partition,
        {
            "edge_index": _edges(),
            "num_parts": 2,
            "num_nodes": N,
            "method": "hilbert",
            "points": _x(),
            "cost": torch.ones(N),
        },
    ),
    "partition.distribute": lambda: (
        partition.distribute,
        {"data": _graph(edge_attr=_attr()), "partition": _one_part()},
    ),
    "partition.sum_gradients": lambda: (
        partition.sum_gradients,
        {"parameters": list(torch.nn.Linear(2, 1).parameters())},
    ),
    # 6. transport
    "transport.AdjacencyCost": lambda: _made(transport.AdjacencyCost, _ON_EDGES),
    "transport.AdjacencyCost.columns": lambda: (
        transport.AdjacencyCost(_edges()).columns,
        {"nodes": torch.tensor([0, 5])},
    ),
    "transport.BatchPlan.apply": lambda: (_batch_aligned().apply, {"y": _x(3)}),
    "transport.BatchPlan.plan": lambda: (_batch_aligned().plan, {"pair": 0}),
    "transport.ColumnCost": lambda: (
        transport.ColumnCost,
        {"function": _columns, "num_points": N},
    ),
    "transport.ColumnCost.columns": lambda: (
        transport.ColumnCost(_columns, N).columns,
        {"nodes": torch.tensor([0, 5])},
    ),
    "transport.ColumnCost.factor": lambda: (transport.ColumnCost(_columns, N).factor, {}),
    "transport.CommuteCost": lambda: (transport.CommuteCost, {}),
    "transport.CommuteCost.__call__": lambda: (
        transport.CommuteCost(),
        {"source": _path(), "edge_weight": torch.ones(10), "num_nodes": N},
    ),
    "transport.Factor": lambda: (
        transport.Factor,
        {"x": _x(), "kind": "kernel", "sign": torch.ones(D), "edge_index": _edges()},
    ),
    "transport.Factor.columns": lambda: (
        transport.Factor(_x()).columns,
        {"nodes": torch.tensor([0, 5])},
    ),
    "transport.FeatureCost": lambda: (transport.FeatureCost, {}),
    "transport.FeatureCost.__call__": lambda: (transport.FeatureCost(), {"source": _x()}),
    "transport.GeodesicCost": lambda: (transport.GeodesicCost, {}),
    "transport.GeodesicCost.__call__": lambda: (
        transport.GeodesicCost(),
        {"source": _path(), "edge_length": torch.ones(10), "num_nodes": N},
    ),
    "transport.GromovWassersteinLoss": lambda: (
        transport.GromovWassersteinLoss,
        {"starts": ["axes"]},
    ),
    "transport.GromovWassersteinLoss.forward": lambda: (
        transport.GromovWassersteinLoss(epsilon=0.3, starts=["axes"], max_iter=3).forward,
        _fused(),
    ),
    "transport.HeatCost": lambda: (transport.HeatCost, {}),
    "transport.HeatCost.__call__": lambda: (
        transport.HeatCost(),
        {"source": _graph(), "num_nodes": N},
    ),
    "transport.MatrixCost": lambda: (transport.MatrixCost, {}),
    "transport.MatrixCost.__call__": lambda: (
        transport.MatrixCost(),
        {"matrix": torch.cdist(_x(), _x())},
    ),
    "transport.Plan.apply": lambda: (_aligned().apply, {"y": _x(5)}),
    "transport.Plan.joint_embedding": lambda: (_aligned().joint_embedding, {"dim": 1}),
    "transport.Plan.topk": lambda: (_aligned().topk, {"k": 2}),
    "transport.batch_gromov_wasserstein": lambda: (
        transport.batch_gromov_wasserstein,
        {**_pair(source=[_x()], target=[_x(5, 2)]), "max_iter": 3},
    ),
    "transport.batch_gw_distance": lambda: (
        transport.batch_gw_distance,
        _pair(source=[_x()], target=[_x(5, 2)]),
    ),
    "transport.comparable": lambda: (
        transport.comparable,
        {"source": _x(), "target": _x(5)},
    ),
    "transport.geodesic_columns": lambda: (
        transport.geodesic_columns,
        {"edge_index": _path(), "num_nodes": N, "edge_length": torch.ones(10)},
    ),
    "transport.gromov_wasserstein": lambda: (
        transport.gromov_wasserstein,
        _fused(epsilon=0.3, starts=["axes"], progress=False),
    ),
    "transport.gw_barycenter": lambda: (
        transport.gw_barycenter,
        {
            "sources": [_x(4), _x(3, 2)],
            "size": 3,
            "weights": torch.tensor([0.4, 0.6]),
            "masses": [torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.tensor([0.5, 0.2, 0.3])],
            "p": torch.tensor([0.2, 0.3, 0.5]),
            "epsilon": 0.5,
            "tol": 0.5,
            "max_iter": 1,
            "progress": False,
        },
    ),
    "transport.gw_distance": lambda: (
        transport.gw_distance,
        _fused(epsilon=0.3, starts=["axes"], progress=False, max_iter=3),
    ),
    "transport.transfer_attributes": lambda: (
        transport.transfer_attributes,
        {"source": Data(x=_x(), y=_x(N, 1)), "target": Data(x=_x(5, 2)), "plan": _aligned()},
    ),
    "transport.heat_profiles": lambda: _made(transport.heat_profiles, _ON_EDGES),
    "transport.match_graphs": lambda: (
        transport.match_graphs,
        {
            "source": _edges(),
            "target": _edges().flip(0),
            "p": torch.arange(1.0, N + 1),
            "q": torch.arange(2.0, N + 2),
            "max_iter": 3,
        },
    ),
    "transport.sampled_gromov_wasserstein": lambda: (
        transport.sampled_gromov_wasserstein,
        _matrices(epsilon=1.0, num_anchors=4, max_iter=3),
    ),
    # 7. layers
    "nn.AgreementConductance": lambda: (nn.AgreementConductance, {}),
    "nn.AgreementConductance.forward": lambda: (
        nn.AgreementConductance().forward,
        {"edge_attr": None, "x_i": _x().softmax(-1), "x_j": _x().softmax(-1)},
    ),
    "nn.AgreementConductance.project": lambda: (
        nn.AgreementConductance().project,
        {"x": _x().softmax(-1)},
    ),
    "nn.AnisotropicChebConv": lambda: (
        nn.AnisotropicChebConv,
        {"in_channels": D, "out_channels": 4},
    ),
    "nn.AnisotropicChebConv.forward": lambda: (
        nn.AnisotropicChebConv(D, 4).forward,
        _on_graph(edge_attr=_attr()),
    ),
    "nn.AnisotropicDiffusion": lambda: (nn.AnisotropicDiffusion, {}),
    "nn.AnisotropicDiffusion.forward": lambda: (
        nn.AnisotropicDiffusion().forward,
        _on_graph(edge_attr=_attr()),
    ),
    "nn.DiffusionClassifier": lambda: (
        nn.DiffusionClassifier,
        {"in_channels": D, "num_classes": 2},
    ),
    "nn.DiffusionClassifier.forward": lambda: (_classifier().forward, _on_graph()),
    "nn.DiffusionClassifier.classify": lambda: (_classifier().classify, {"x": _x()}),
    "nn.DiffusionClassifier.conductances": lambda: (_classifier().conductances, _on_graph()),
    "nn.DiffusionClassifier.diffuse": lambda: (
        _classifier().diffuse,
        {"q": _x(N, 2).softmax(-1), "edge_index": _edges(), "edge_weight": _per_edge()},
    ),
    "nn.DiffusionClassifier.set_num_classes": lambda: (
        nn.DiffusionClassifier(D).set_num_classes,
        {"num_classes": 2},
    ),
    "nn.DiffusionTime": lambda: (nn.DiffusionTime, {"t": 1.0}),
    "nn.DiffusionTime.set": lambda: (nn.DiffusionTime(1.0).set, {"t": 2.0}),
    "nn.EndpointConductance": lambda: (nn.EndpointConductance, {}),
    "nn.EndpointConductance.forward": lambda: (
        nn.EndpointConductance(D).forward,
        {"edge_attr": None, "x_i": _x(), "x_j": _x()},
    ),
    "nn.EndpointConductance.project": lambda: (nn.EndpointConductance(D).project, {"x": _x()}),
    "nn.HyperedgeWeight": lambda: (nn.HyperedgeWeight, {"num_hyperedges": 3}),
    "nn.HypergraphChebConv": lambda: (
        nn.HypergraphChebConv,
        {"in_channels": D, "out_channels": 4, "num_hyperedges": 10},
    ),
    "nn.HypergraphChebConv.forward": lambda: (
        nn.HypergraphChebConv(D, 4, hyperedge_dim=1).forward,
        _on_hypergraph(hyperedge_attr=_attr(10), num_hyperedges=10),
    ),
    "nn.HypergraphDiffusion": lambda: (nn.HypergraphDiffusion, {"num_hyperedges": 10}),
    "nn.HypergraphDiffusion.forward": lambda: (
        nn.HypergraphDiffusion(hyperedge_dim=1).forward,
        _on_hypergraph(hyperedge_attr=_attr(10), num_hyperedges=10),
    ),
    "nn.MLPConductance": lambda: (nn.MLPConductance, {}),
    "nn.MLPConductance.forward": lambda: (nn.MLPConductance().forward, {"edge_attr": _attr()}),
    "nn.SigmoidConductance": lambda: (nn.SigmoidConductance, {}),
    "nn.SigmoidConductance.forward": lambda: (
        nn.SigmoidConductance().forward,
        {"edge_attr": _attr()},
    ),
    "nn.SimplicialDiffusion": lambda: (nn.SimplicialDiffusion, {}),
    "nn.SimplicialDiffusion.forward": lambda: (nn.SimplicialDiffusion().forward, _on_complex()),
    # 8. evaluation
    "evaluation.clustering_scores": lambda: (
        evaluation.clustering_scores,
        {"x": _x(), "y": _labels(), "num_clusters": 2, "seeds": [0]},
    ),
    "evaluation.dirichlet_energy": lambda: (evaluation.dirichlet_energy, _on_graph()),
    "evaluation.modularity": lambda: (
        evaluation.modularity,
        {"edge_index": _edges(), "edge_weight": _per_edge(), "labels": _labels()},
    ),
    "evaluation.neighbour_purity": lambda: (
        evaluation.neighbour_purity,
        {"edge_index": _edges(), "y": _labels(), "edge_weight": _per_edge()},
    ),
    "evaluation.partition_scores": lambda: (
        evaluation.partition_scores,
        {"clusters": _labels(), "y": _labels()},
    ),
    # 9. training
    "training.GraphTriplets": lambda: _made(training.GraphTriplets, _ON_EDGES),
    "training.GraphTriplets.sample": lambda: (
        training.GraphTriplets(_edges(), None, N).sample,
        {"num_triplets": 4, "generator": _generator()},
    ),
    "training.LabelTriplets": lambda: (
        training.LabelTriplets,
        {"y": _labels(), "mask": torch.ones(N, dtype=torch.bool)},
    ),
    "training.LabelTriplets.sample": lambda: (
        training.LabelTriplets(_labels()).sample,
        {"num_triplets": 4, "generator": _generator()},
    ),
    "training.PruneEdges": lambda: (training.PruneEdges, {}),
    "training.TripletLoss": lambda: (training.TripletLoss, {}),
    "training.TripletLoss.forward": lambda: (
        training.TripletLoss().forward,
        {"z": _x(), "triplets": _triplets()},
    ),
    "training.choose_num_classes": lambda: (
        training.choose_num_classes,
        {"data": _unlabelled(), "largest": 3, "times": [1.0]},
    ),
    "training.fit": lambda: (
        _fit_with_options_of(fit_triplets),
        {
            "model": SmoothingStub(),
            "data": _labelled(),
            "sampler": "labels",
            "epochs": 1,
            "batch_size": 8,
        },
    ),
    "training.fit:self_training": lambda: (
        _fit_with_options_of(self_train),
        {
            "model": nn.DiffusionClassifier(6, 2),
            "data": _unlabelled(),
            "epochs": 1,
            "times": [1.0],
            "labels": two_clusters(num_nodes=12, seed=_seed).y,
        },
    ),
    "training.classify_by_heat": lambda: (
        training.classify_by_heat,
        {"data": _unlabelled(), "labels": _few_labels(), "t": 2.0},
    ),
    "training.outlier_probability": lambda: (
        training.outlier_probability,
        {"data": _unlabelled(), "t": 2.0, "num_probes": 8},
    ),
    "training.propagate_labels": lambda: (
        training.propagate_labels,
        {"data": _unlabelled(), "labels": _few_labels(), "steps": 1, "folds": 1},
    ),
    "training.select_time": lambda: (
        training.select_time,
        {"data": _unlabelled(), "times": [1.0, 2.0], "num_triplets": 8},
    ),
    # Report
    "report.report": lambda: (
        report.report,
        {
            "data": _graph(y=_labels()),
            "result": report.Findings(_labels(), _per_edge() / 2, t=2.0),
            "path": f"{_FOLDER.name}/{_seed}.html",
            "text": [f"text {i}" for i in range(N)],
            "cluster_names": ["one", "other"],
            "label_names": {0: "a", 1: "b"},
            "scores": {"ARI": 0.5},
            "settings": {"seed": 0},
            "title": "Map",
            "times": [0.0, 1.0],
            "layout": "pca",
            "random_state": 0,
            "progress": False,
        },
    ),
    # Transforms
    "transforms.EdgeGeometry": lambda: (transforms.EdgeGeometry, {}),
    "transforms.EdgeGeometry.fit": lambda: (transforms.EdgeGeometry().fit, {"data": _graph()}),
    "transforms.EdgeGeometry.forward": lambda: (
        transforms.EdgeGeometry(),
        {"data": _graph(edge_attr=_attr())},
    ),
    "transforms.FaissKNNGraph": lambda: (transforms.FaissKNNGraph, {}),
    "transforms.FaissKNNGraph.fit": lambda: (
        transforms.FaissKNNGraph(2).fit,
        {"data": _points()},
    ),
    "transforms.FaissKNNGraph.forward": lambda: (
        transforms.FaissKNNGraph(2),
        {"data": _points()},
    ),
    "transforms.FaissKNNGraph.extend": lambda: (
        transforms.FaissKNNGraph(2).fit(_points()).extend,
        {"new": _points()},
    ),
    "transforms.FaissKNNGraph.query": lambda: (
        transforms.FaissKNNGraph(2).fit(_points()).query,
        {"x_new": _x(2), "k": 2},
    ),
    "transforms.FormanCurvature": lambda: (transforms.FormanCurvature, {}),
    "transforms.FormanCurvature.fit": lambda: (
        transforms.FormanCurvature().fit,
        {"data": _graph()},
    ),
    "transforms.FormanCurvature.forward": lambda: (
        transforms.FormanCurvature(),
        {"data": _graph(edge_attr=_attr())},
    ),
    "transforms.LocalityOrder": lambda: (transforms.LocalityOrder, {}),
    "transforms.LocalityOrder.forward": lambda: (
        transforms.LocalityOrder("bandwidth"),
        {"data": _graph(edge_attr=_attr())},
    ),
    "transforms.LocalityOrder.restore": lambda: (
        transforms.LocalityOrder().restore,
        {"out": _x(), "data": transforms.LocalityOrder("bandwidth")(_graph())},
    ),
}


def _by_jax(name: str, **given: Any) -> Call:
    from jsem_pyg import jax

    return getattr(jax, name), given


if find_spec("jax") is not None:
    GOOD |= {
        "jax.heat_coefficients": lambda: _by_jax("heat_coefficients", t=1.0, degree=3),
        "jax.heat_diffusion": lambda: _by_jax(
            "heat_diffusion",
            x=_x().numpy(),
            edge_index=_edges().numpy(),
            edge_weight=_per_edge().numpy(),
            degree=5,
            backend="xla",
        ),
        "jax.prepare_graph": lambda: _by_jax(
            "prepare_graph", edge_index=_edges().numpy(), num_nodes=N
        ),
    }


# Every filter, made, and called on a graph.
_FILTERS: dict[str, dict[str, Any]] = {
    "FilterBank": {},
    "FromFunction": {"function": torch.cos},
    "Heat": {"t": 2.0},
    "Learned": {"degree": 4},
    "LowPass": {"cutoff": 0.5, "order": 2},
    "PersonalizedPageRank": {"alpha": 0.2},
    "Resolvent": {"t": 2.0},
    "Wavelets": {"scales": [2.0, 1.0]},
}


def _filter(name: str) -> filters.Filter:
    parts = (filters.Heat(), filters.Learned(4)) if name == "FilterBank" else ()
    made: filters.Filter = getattr(filters, name)(*parts, **_FILTERS[name])
    return made


for _name, _given in _FILTERS.items():
    if _given:
        GOOD[f"diffusion.filters.{_name}"] = lambda name=_name, given=_given: (
            getattr(filters, name),
            dict(given),
        )
    GOOD[f"diffusion.filters.{_name}.forward"] = lambda name=_name: (
        _filter(name),
        _on_graph(degree=5),
    )
GOOD["diffusion.filters.Wavelets.synthesize"] = lambda: (
    _filter("Wavelets").synthesize,
    {
        "y": _x(3 * N).view(3, N, D),
        "operator": operators.laplacian_operator(_structure(), _per_edge()),
    },
)
