"""One use of every public object: how to make it, and what a thread that shares it does with it."""

import copy
from importlib import import_module
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import numpy as np
import pandas as pd
import torch
from layer_cases import CHANNELS, NUM_NODES, bend, call, make_data
from torch_geometric.data import Data
from training.training_cases import SmoothingStub

import jsem_pyg
from jsem_pyg.curvature import (
    Standardizer,
    degree_contrast,
    distance_rank,
    forman_curvature,
    jaccard_overlap,
    node_curvature,
    rank_standardize,
    robust_standardize,
)
from jsem_pyg.diffusion import (
    dense_laplacian,
    diffuse,
    diffusion_cosine,
    exact_heat_diffusion,
    heat_coefficients,
    heat_degree,
    heat_diffusion,
    heat_kernel_columns,
    hypergraph_diffusion,
    simplicial_diffusion,
    truncation_bound,
)
from jsem_pyg.diffusion.registered_op import heat_diffusion_op
from jsem_pyg.estimators import DiffusionClusterer, DiffusionLabelSpreading, HeatDiffusion
from jsem_pyg.evaluation import (
    clustering_scores,
    dirichlet_energy,
    holm_correction,
    modularity,
    neighbour_purity,
    paired_comparisons,
    partition_scores,
)
from jsem_pyg.graph import (
    GraphStructure,
    HypergraphStructure,
    NeighborIndex,
    SimplicialStructure,
    affinity,
    clique_hyperedges,
    cluster_hyperedges,
    dual_hypergraph,
    edge_hyperedges,
    knn_graph,
    knn_hyperedges,
    knn_search,
    node_width,
    patch_graph,
    random_hyperedges,
    undirected_edges,
)
from jsem_pyg.nn import (
    AgreementConductance,
    AnisotropicChebConv,
    AnisotropicDiffusion,
    DiffusionClassifier,
    DiffusionTime,
    EndpointConductance,
    ExpertCoupler,
    HyperedgeWeight,
    HypergraphChebConv,
    HypergraphDiffusion,
    MLPConductance,
    SigmoidConductance,
    SimplicialDiffusion,
)
from jsem_pyg.operators import hodge_operator, hypergraph_operator, laplacian_operator
from jsem_pyg.partition import (
    Speed,
    diffuse_file,
    distribute,
    measured_cost,
    perturbation_bound,
    plan,
    prune_edges,
    rebuild_pays,
    recursive_partition,
)
from jsem_pyg.report import Findings, report
from jsem_pyg.training import (
    GraphTriplets,
    LabelTriplets,
    PruneEdges,
    TripletLoss,
    choose_num_classes,
    fit,
    fit_triplets,
    probability_of_none,
    propagate_labels,
    select_time,
    self_train,
)
from jsem_pyg.transforms import (
    CliqueHyperedges,
    ClusterHyperedges,
    DualHypergraph,
    EdgeGeometry,
    FaissKNNGraph,
    FormanCurvature,
    KNNHyperedges,
    LocalityOrder,
)
from jsem_pyg.transport import (
    AdjacencyCost,
    ColumnOracle,
    CommuteCost,
    Factor,
    FeatureCost,
    GeodesicCost,
    GromovWassersteinLoss,
    HeatCost,
    MatrixCost,
    OracleCost,
    batch_costs,
    batch_gromov_wasserstein,
    batch_gw_distance,
    comparable,
    geodesic_columns,
    gromov_wasserstein,
    gw_barycenter,
    gw_distance,
    heat_profiles,
    match_graphs,
    sampled_gromov_wasserstein,
    transfer_attributes,
)

NUM_HYPEREDGES = 5


def make_input(seed):
    """What one thread works on: a graph, a hypergraph and flows of its own."""
    data = make_data(seed)
    once = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    # A hyperedge for every node: itself and its neighbours' numbers, as far as there are five.
    hyperedges = data.edge_index.remainder(torch.tensor([[NUM_NODES], [NUM_HYPEREDGES]]))
    labels = torch.arange(NUM_NODES).remainder(3).roll(seed)
    return SimpleNamespace(
        x=data.x, data=data, edges=data.edge_index, weight=data.edge_weight, attr=data.edge_attr,
        once=once, hyperedges=hyperedges, labels=labels, seed=seed,
    )  # fmt: skip


SHARED = make_input(0)  # the graph of structures that all threads share


def flow(each, once=None):
    """A signal on edges that depends on x."""
    tail, head = each.once if once is None else once
    return each.x[head] - each.x[tail]


def data_of(each):
    return Data(x=each.x.detach(), edge_index=each.edges, edge_weight=each.weight,
                edge_attr=each.attr, y=each.labels)  # fmt: skip


def page_of(each):
    """The bytes of a report's page, but for plotly.js."""
    found = Findings(each.labels, torch.ones(len(each.weight)), t=1.0)
    with TemporaryDirectory() as folder:
        page = report(data_of(each), found, f"{folder}/map.html", layout="pca").read_bytes()
    return torch.frombuffer(bytearray(page[:50_000]), dtype=torch.uint8)


def generator(each):
    return torch.Generator().manual_seed(each.seed)


def tensors(data):
    return [value for _, value in sorted(data.to_dict().items()) if torch.is_tensor(value)]


def trained(train):
    """Train a copy of the shared model; its weights, and what it has learned to say."""

    def use(model, each):
        result = train(copy.deepcopy(model), data_of(each))
        return [value for value in result.model.state_dict().values() if value.is_floating_point()]

    return use


def sample(sampler, each):
    return list(sampler.sample(20, generator(each)))


def op(_, each):
    ends = each.edges.flip(0).unbind()
    return heat_diffusion_op(
        each.x, torch.tensor([2.0]), each.weight, None, None, *ends,
        None, 1e-6, "sym", "auto", 0.0, True,
    )[0]  # fmt: skip


def columns(each):
    return torch.stack([each.attr.flatten(), each.weight], dim=1)


def runs(each):
    scores = torch.rand(6, generator=generator(each)).double().tolist()
    return pd.DataFrame(
        {"dataset": "toy", "method": list("aaabbb"), "seed": [0, 1, 2] * 2, "ari": scores}
    )


def operators(structure, each):
    return laplacian_operator(structure, SHARED.weight).apply_laplacian(each.x)


def hodge(structure, each):
    x = flow(each, SHARED.once)
    return [hodge_operator(structure, part).apply_laplacian(x) for part in ("down", "up")]


def graph():
    return GraphStructure(SHARED.edges, NUM_NODES)


def complex_():
    return SimplicialStructure(SHARED.once, NUM_NODES)


def on_graph(structure, each):
    out = heat_diffusion(each.x, structure, t=2.0)
    return [out, structure.reverse, *structure.edges, forman_curvature(structure)]


def no_object(use):
    return (lambda: None), lambda _, each: use(each)


def searched(each):
    return knn_search(each.x.detach(), 3)


def weighted_neighbors(each):
    neighbor, distance = searched(each)
    i = torch.arange(NUM_NODES)[:, None].expand_as(neighbor)
    width = node_width(distance, "gaussian")
    return neighbor, affinity(distance, i, neighbor, width), width


def from_file_to_file(each):
    with TemporaryDirectory() as folder:
        np.save(f"{folder}/x.npy", each.x.detach().numpy())
        files = f"{folder}/x.npy", each.edges, f"{folder}/y.npy"
        path = diffuse_file(*files, 2.0, edge_weight=each.weight, memory="64GB")
        return torch.from_numpy(np.load(path))


def flows(layer, each):
    return layer(flow(each), each.once)


def frozen(layer, each):
    return layer(each.x, each.edges, each.weight)


def pruned(each):
    found = prune_edges(data_of(each), torch.sigmoid(each.attr), 0.5, max_share=0.5)
    return [found.kept, torch.tensor(found.perturbation[:2]), *tensors(found.data)]


def neighbors(index, each):
    return [*index.query(each.x.detach()), *index.extend(each.x.detach())]


def distances(x):
    return torch.cdist(x, x.detach())


def line(nodes):
    position = torch.arange(NUM_NODES).float()
    return (position[:, None] - position[nodes]).abs()


def walk():
    return torch.stack([torch.arange(NUM_NODES - 1), torch.arange(1, NUM_NODES)])


def aligned(each, **options):
    """To the shared points."""
    options = {"epsilon": 0.3, "progress": False, "seed": each.seed, **options}
    return gromov_wasserstein(each.x[:, :2], SHARED.x[:, :2], **options)


def said(plan):
    """What a plan answers."""
    marginals = plan.marginals()
    return [plan.dense(), plan.argmax(), *marginals, plan.topk(2).to_dense(), plan.perplexity()]


def many(x):
    """Points as graphs of several sizes."""
    return [x[:4], x[4:9], x[9:]]


def by_jax(name, *arguments, **options):
    """Call what the door to JAX has by this name, which is loaded where it is first asked for."""
    return getattr(import_module("jsem_pyg.jax"), name)(*arguments, **options)


def from_jax(array):
    return torch.from_numpy(np.array(array))


# By the public name, and what is particular after a space: how to make it, and how it is used.
CASES = {
    "nn.AgreementConductance": (
        AgreementConductance,
        lambda shared, each: shared(None, *(each.x.softmax(1)[end] for end in each.edges)),
    ),
    "nn.AnisotropicChebConv narrow": (
        lambda: bend(AnisotropicChebConv(CHANNELS, 1, t=[1.0, 2.0])),
        lambda shared, each: call(shared, each.data, each.x),
    ),
    "nn.AnisotropicChebConv wide": (
        lambda: bend(AnisotropicChebConv(CHANNELS, 9)),
        lambda shared, each: call(shared, each.data, each.x),
    ),
    "nn.AnisotropicDiffusion": (
        lambda: bend(AnisotropicDiffusion(t=[1.0, 2.0])),
        lambda shared, each: call(shared, each.data, each.x),
    ),
    "nn.AnisotropicDiffusion watched": (
        lambda: bend(AnisotropicDiffusion(degree=2, fuse=False)),
        lambda shared, each: call(shared, each.data, each.x),
    ),
    "nn.DiffusionClassifier": (lambda: DiffusionClassifier(CHANNELS, 3).eval(), frozen),
    "nn.DiffusionTime": (lambda: DiffusionTime([1.0, 2.0]), lambda shared, each: shared()),
    "nn.EndpointConductance": (
        lambda: bend(AnisotropicDiffusion(conductance=EndpointConductance(CHANNELS))).conductance,
        lambda shared, each: shared(None, *(each.x[end] for end in each.edges)),
    ),
    "nn.ExpertCoupler": (
        lambda: ExpertCoupler(NUM_NODES, CHANNELS),
        lambda shared, each: shared(each.x),
    ),
    "nn.HyperedgeWeight": (lambda: HyperedgeWeight(4), lambda shared, each: shared()),
    "nn.HypergraphChebConv": (
        lambda: HypergraphChebConv(CHANNELS, 2, t=[1.0, 2.0]),
        lambda shared, each: shared(each.x, each.hyperedges),
    ),
    "nn.HypergraphDiffusion": (
        lambda: HypergraphDiffusion(t=2.0),
        lambda shared, each: shared(each.x, each.hyperedges),
    ),
    "nn.MLPConductance": (
        lambda: MLPConductance(1),
        lambda shared, each: shared(each.attr + each.x[each.edges[0], :1]),
    ),
    "nn.SigmoidConductance": (
        lambda: SigmoidConductance(1),
        lambda shared, each: shared(each.attr + each.x[each.edges[0], :1]),
    ),
    "nn.SimplicialDiffusion": (lambda: SimplicialDiffusion(t=0.5), flows),
    "graph.GraphStructure": (graph, on_graph),
    "graph.HypergraphStructure": (
        lambda: HypergraphStructure(SHARED.hyperedges, NUM_NODES),
        lambda shared, each: [
            hypergraph_diffusion(each.x, shared, t=2.0, method=method)
            for method in ("dense", "csr", "incidence", "auto")
        ],
    ),
    "graph.SimplicialStructure": (
        complex_,
        lambda shared, each: simplicial_diffusion(flow(each, SHARED.once), shared),
    ),
    "estimators.HeatDiffusion": (
        lambda: HeatDiffusion(3, t=1.0).fit(SHARED.x),
        lambda shared, each: torch.from_numpy(shared.transform(each.x.detach())),
    ),
    "estimators.DiffusionClusterer": (
        lambda: DiffusionClusterer(2, n_neighbors=3, t=1.0, random_state=0).fit(SHARED.x),
        lambda shared, each: torch.from_numpy(shared.predict_proba(each.x.detach())),
    ),
    "estimators.DiffusionLabelSpreading": (
        lambda: DiffusionLabelSpreading(3, t=1.0, random_state=0).fit(SHARED.x, SHARED.labels),
        lambda shared, each: torch.from_numpy(shared.predict_proba(each.x.detach())),
    ),
    "jax.heat_coefficients": no_object(
        lambda each: from_jax(by_jax("heat_coefficients", 1.0 + each.seed, 5))
    ),
    "jax.heat_diffusion": (
        lambda: by_jax("prepare_graph", SHARED.edges, NUM_NODES),
        lambda shared, each: from_jax(
            by_jax("heat_diffusion", each.x.detach().numpy(), shared, t=2.0)
        ),
    ),
    "jax.prepare_graph": no_object(
        lambda each: from_jax(by_jax("prepare_graph", each.edges, NUM_NODES).reverse)
    ),
    "report.report": no_object(lambda each: page_of(each)),
    "graph.NeighborIndex": (lambda: NeighborIndex(SHARED.x, 3), neighbors),
    "graph.NeighborIndex hnsw": (lambda: NeighborIndex(SHARED.x, 3, index="hnsw"), neighbors),
    "graph.affinity": no_object(lambda each: weighted_neighbors(each)[1]),
    "graph.node_width": no_object(lambda each: weighted_neighbors(each)[2]),
    "graph.undirected_edges": no_object(
        lambda each: undirected_edges(*weighted_neighbors(each)[:2], "max")
    ),
    "graph.random_hyperedges": no_object(lambda each: random_hyperedges(9, 3, 5, seed=each.seed)),
    "graph.clique_hyperedges": no_object(lambda each: clique_hyperedges(each.edges, NUM_NODES)),
    "graph.cluster_hyperedges": no_object(lambda each: cluster_hyperedges(each.labels)),
    "graph.dual_hypergraph": no_object(lambda each: dual_hypergraph(each.hyperedges)),
    "graph.edge_hyperedges": no_object(lambda each: edge_hyperedges(each.edges)),
    "graph.knn_graph": no_object(lambda each: knn_graph(each.x.detach(), 3)),
    "graph.knn_hyperedges": no_object(lambda each: knn_hyperedges(each.x.detach(), 3)),
    "graph.knn_search": no_object(searched),
    "graph.patch_graph": no_object(lambda each: patch_graph(each.x.detach(), 0.5, 3)),
    "curvature.Standardizer": (
        lambda: Standardizer().fit(columns(SHARED)),
        lambda shared, each: shared.transform(columns(each)),
    ),
    "curvature.Standardizer rank": (
        lambda: Standardizer("rank").fit(columns(SHARED)),
        lambda shared, each: shared.transform(columns(each)),
    ),
    "curvature.degree_contrast": no_object(lambda each: degree_contrast(each.edges, each.weight)),
    "curvature.distance_rank": no_object(lambda each: distance_rank(each.edges, each.weight)),
    "curvature.forman_curvature": no_object(lambda each: forman_curvature(each.edges, each.weight)),
    "curvature.jaccard_overlap": no_object(lambda each: jaccard_overlap(each.edges)),
    "curvature.node_curvature": no_object(
        lambda each: node_curvature(each.edges, forman_curvature(each.edges))
    ),
    "curvature.rank_standardize": no_object(lambda each: rank_standardize(each.weight)),
    "curvature.robust_standardize": no_object(lambda each: robust_standardize(each.weight)),
    "operators.laplacian_operator": (graph, operators),
    "operators.hodge_operator": (complex_, hodge),
    "operators.hypergraph_operator": (
        lambda: HypergraphStructure(SHARED.hyperedges, NUM_NODES, NUM_HYPEREDGES),
        lambda shared, each: hypergraph_operator(shared, torch.ones(NUM_HYPEREDGES)).matmul(each.x),
    ),
    "diffusion.dense_laplacian": no_object(
        lambda each: dense_laplacian(each.edges, each.weight, NUM_NODES)
    ),
    "diffusion.diffuse": (
        lambda: laplacian_operator(graph(), SHARED.weight),
        lambda shared, each: diffuse(each.x, shared, t=2.0),
    ),
    "diffusion.diffusion_cosine": no_object(
        lambda each: diffusion_cosine(each.x, each.edges, each.weight)
    ),
    "diffusion.exact_heat_diffusion": no_object(
        lambda each: exact_heat_diffusion(each.x, each.edges, each.weight)
    ),
    "diffusion.heat_coefficients": no_object(
        lambda each: heat_coefficients(each.x[:, 0].exp().double(), 9)
    ),
    "diffusion.heat_degree": no_object(
        lambda each: torch.tensor(heat_degree(1.0 + each.seed, 1e-6))
    ),
    "diffusion.heat_diffusion": no_object(
        lambda each: heat_diffusion(each.x, each.edges, each.weight, t=2.0)
    ),
    "diffusion.heat_diffusion registered": ((lambda: None), op),
    "diffusion.heat_diffusion torch": no_object(
        lambda each: heat_diffusion(each.x, each.edges, each.weight, t=2.0, backend="torch")
    ),
    "diffusion.heat_kernel_columns": no_object(
        lambda each: heat_kernel_columns(
            each.edges, torch.arange(3), each.weight, num_nodes=NUM_NODES
        )
    ),
    "diffusion.hypergraph_diffusion": no_object(
        lambda each: hypergraph_diffusion(each.x, each.hyperedges)
    ),
    "diffusion.simplicial_diffusion": no_object(
        lambda each: simplicial_diffusion(flow(each), each.once)
    ),
    "diffusion.truncation_bound": no_object(
        lambda each: torch.tensor(truncation_bound(1.0 + each.seed, 9))
    ),
    "partition.Partition": (
        lambda: recursive_partition(SHARED.edges, 3, method="bandwidth"),
        lambda shared, each: [shared.place, shared.part, *shared.parts()],
    ),
    "partition.diffuse_file": no_object(from_file_to_file),
    "partition.measured_cost": no_object(
        lambda each: measured_cost(
            each.edges, recursive_partition(each.edges, 2, method="bandwidth"), torch.ones(2)
        )
    ),
    "partition.recursive_partition": no_object(
        lambda each: [
            recursive_partition(each.edges, 3, method=method).order
            for method in ("metis", "hilbert", "bandwidth")
        ]
    ),
    "transport.AdjacencyCost": (
        lambda: AdjacencyCost(SHARED.edges, SHARED.weight),
        lambda shared, each: [
            shared.columns(each.labels),
            match_graphs(shared, AdjacencyCost(each.edges, each.weight)).dense(),
        ],
    ),
    "transport.BatchPlan": (
        lambda: batch_gromov_wasserstein(many(SHARED.x), many(SHARED.x.roll(1, 0))),
        lambda shared, each: [shared.apply(each.x), shared.argmax(), shared.plan(1).dense()],
    ),
    "transport.ColumnOracle": (
        lambda: ColumnOracle(line, NUM_NODES),
        lambda shared, each: shared.read(each.labels),
    ),
    "transport.CommuteCost": (CommuteCost, lambda shared, each: shared(each.x.detach()).dense()),
    "transport.Factor": (
        lambda: Factor(SHARED.x, "kernel"),
        lambda shared, each: [shared.columns(each.labels), shared.dense()],
    ),
    "transport.FeatureCost": (
        lambda: FeatureCost(normalize=True),
        lambda shared, each: shared(each.x).dense(),
    ),
    "transport.GeodesicCost": (GeodesicCost, lambda shared, each: shared(each.x.detach()).dense()),
    "transport.HeatCost": (
        lambda: HeatCost([1.0, 4.0]),
        lambda shared, each: shared(each.edges, each.weight).dense(),
    ),
    "transport.HeatCost anchors": (
        lambda: HeatCost(8.0, num_anchors=8),
        lambda shared, each: shared(each.edges, each.weight).dense(),
    ),
    "transport.MatrixCost": (MatrixCost, lambda shared, each: shared(distances(each.x)).dense()),
    "transport.OracleCost": (
        lambda: OracleCost(rank=4, num_columns=8),
        lambda shared, each: shared(lambda nodes: each.x @ each.x[nodes].T, NUM_NODES).dense(),
    ),
    "transport.Plan": (
        lambda: aligned(make_input(1)),
        lambda shared, each: [shared.apply(each.x), *said(shared), *shared.joint_embedding()],
    ),
    "transport.batch_costs": no_object(
        lambda each: batch_costs(data_of(each), "heat", t=1.0 + each.seed).matrix
    ),
    "transport.batch_gromov_wasserstein": no_object(
        lambda each: batch_gromov_wasserstein(many(each.x.detach()), many(SHARED.x)).dense()
    ),
    "transport.batch_gw_distance": no_object(
        lambda each: batch_gw_distance(many(each.x), many(SHARED.x))
    ),
    "transport.comparable": no_object(lambda each: comparable(each.x.detach(), SHARED.x)),
    "transport.geodesic_columns": (
        lambda: geodesic_columns(walk(), NUM_NODES),
        lambda shared, each: [
            shared.read(each.labels),
            geodesic_columns(walk(), NUM_NODES, each.weight[: NUM_NODES - 1]).read(each.labels),
        ],
    ),
    "transport.gromov_wasserstein": no_object(lambda each: said(aligned(each, starts=["costs"]))),
    "transport.gromov_wasserstein coarse": no_object(
        lambda each: said(aligned(each, coarse=6, starts=["heat"], marginals="unbalanced"))
    ),
    "transport.GromovWassersteinLoss": (
        lambda: GromovWassersteinLoss(epsilon=0.3, starts=["axes"], warm_start=False),
        lambda shared, each: shared(each.x[:, :2], SHARED.x[:, :2]),
    ),
    "transport.gw_barycenter": no_object(
        lambda each: gw_barycenter(
            [each.x.detach()[:, :2], SHARED.x[:, :2]], 5, epsilon=0.5, max_iter=1, progress=False
        ).factor.dense()
    ),
    "transport.gw_distance": no_object(
        lambda each: gw_distance(
            each.x[:, :2], SHARED.x[:, :2], epsilon=0.3, starts=["axes"], progress=False
        )
    ),
    "transport.heat_profiles": no_object(
        lambda each: heat_profiles(each.edges, NUM_NODES, each.weight)
    ),
    "transport.match_graphs": no_object(
        lambda each: match_graphs(each.edges, SHARED.edges).dense()
    ),
    "transport.transfer_attributes": (
        lambda: aligned(make_input(1)),
        lambda shared, each: tensors(
            transfer_attributes(data_of(each), data_of(each), shared, ["x", "y"], prefix="got_")
        ),
    ),
    "transport.sampled_gromov_wasserstein": no_object(
        lambda each: sampled_gromov_wasserstein(
            distances(each.x.detach()),
            distances(SHARED.x),
            epsilon=1.0,
            num_anchors=8,
            max_steps=5,
            seed=each.seed,
        ).dense()
    ),
    "evaluation.clustering_scores": no_object(
        lambda each: torch.tensor(
            clustering_scores(each.x.detach(), each.labels, seeds=1, n_init=1).nmi
        )
    ),
    "evaluation.dirichlet_energy": no_object(
        lambda each: dirichlet_energy(each.x, each.edges, each.weight)
    ),
    "evaluation.holm_correction": no_object(
        lambda each: torch.from_numpy(holm_correction([0.01 * each.seed, 0.02, 0.03]))
    ),
    "evaluation.modularity": no_object(
        lambda each: torch.tensor(modularity(each.edges, each.weight, each.labels))
    ),
    "evaluation.neighbour_purity": no_object(
        lambda each: torch.tensor(neighbour_purity(each.edges, each.labels))
    ),
    "evaluation.paired_comparisons": no_object(
        lambda each: torch.tensor(paired_comparisons(runs(each), "a")["p"].to_numpy())
    ),
    "evaluation.partition_scores": no_object(
        lambda each: torch.tensor(partition_scores(each.labels, each.labels.roll(each.seed)))
    ),
    "partition.distribute": (
        lambda: distribute(data_of(SHARED)),
        lambda shared, each: heat_diffusion(each.x[shared.nodes], shared, t=1.0 + each.seed),
    ),
    "partition.plan": no_object(
        lambda each: plan(each.edges, 2, 4, 1e9, speed=Speed(1e-9, 1e-9, 1e-9)).seconds
    ),
    "training.GraphTriplets": (
        lambda: GraphTriplets(SHARED.edges, SHARED.weight, NUM_NODES),
        sample,
    ),
    "training.LabelTriplets": (lambda: LabelTriplets(SHARED.labels), sample),
    "partition.perturbation_bound": no_object(
        lambda each: torch.tensor(perturbation_bound(data_of(each), each.weight > 0.5)[:2])
    ),
    "partition.prune_edges": no_object(pruned),
    "partition.rebuild_pays": no_object(
        lambda each: torch.tensor(
            rebuild_pays(each.edges.size(1), each.seed, channels=4, terms=9, epochs_left=5)
        )
    ),
    "training.PruneEdges": (
        lambda: bend(AnisotropicDiffusion(degree=60)),  # so many terms that pruning pays
        trained(
            lambda model, data: fit(
                model,
                data,
                epochs=4,
                callbacks=[PruneEdges(0.4, every=1, patience=1, max_share=0.5)],
                progress=False,
            )
        ),
    ),
    "training.TripletLoss": (
        TripletLoss,
        lambda shared, each: shared(each.x, LabelTriplets(each.labels).sample(20, generator(each))),
    ),
    "training.fit": (
        lambda: AnisotropicDiffusion(),
        trained(lambda model, data: fit(model, data, epochs=2, progress=False)),
    ),
    "training.fit_triplets": (
        lambda: SmoothingStub(CHANNELS, dropout=0.5),
        trained(lambda model, data: fit_triplets(model, data, epochs=2, progress=False)),
    ),
    "training.modularity": no_object(
        lambda each: torch.tensor(
            jsem_pyg.training.modularity(each.edges, each.weight, each.labels)
        )
    ),
    "training.choose_num_classes": no_object(
        lambda each: torch.tensor(list(choose_num_classes(data_of(each), largest=4).curve.values()))
    ),
    "training.probability_of_none": no_object(lambda each: probability_of_none(data_of(each))),
    "training.propagate_labels": no_object(
        lambda each: propagate_labels(data_of(each), each.labels, steps=2, folds=2)[:2]
    ),
    "training.select_time": no_object(
        lambda each: torch.tensor(select_time(data_of(each), (1.0, 2.0), num_triplets=50).t)
    ),
    "training.self_train": (
        lambda: DiffusionClassifier(CHANNELS, 3),
        trained(lambda model, data: self_train(model, data, rounds=1, times=(1.0,))),
    ),
    **{
        f"transforms.{name}": (make, lambda shared, each: tensors(shared(data_of(each))))
        for name, make in {
            "CliqueHyperedges": CliqueHyperedges,
            "ClusterHyperedges": lambda: ClusterHyperedges(3),
            "DualHypergraph": DualHypergraph,
            "EdgeGeometry": lambda: EdgeGeometry(["jaccard", "degree_contrast"]),
            "FaissKNNGraph": lambda: FaissKNNGraph(3),
            "FormanCurvature": FormanCurvature,
            "FormanCurvature fitted": lambda: FormanCurvature(norm="rank").fit(data_of(SHARED)),
            "KNNHyperedges": lambda: KNNHyperedges(3),
            "LocalityOrder": lambda: LocalityOrder("bandwidth", num_parts=3),
        }.items()
    },
    "transforms.FaissKNNGraph extended": (
        lambda: FaissKNNGraph(3).fit(data_of(SHARED)),
        lambda shared, each: tensors(shared.extend(each.x.detach())),
    ),
}

# Nothing that threads could get wrong together.
EXCUSED = {
    "command.main": "a process",
    "evaluation.ClusteringScores": "a record",
    "evaluation.PartitionScores": "a record",
    "evaluation.SeedScores": "a record",
    "graph.MIN_WEIGHT": "a number",
    "jax.Graph": "a record; see jax.prepare_graph",
    "operators.AdjointOperator": "abstract",
    "operators.GraphStructure": "of jsem_pyg.graph",
    "operators.HeatOperator": "a record; see operators.laplacian_operator",
    "operators.HypergraphOperator": "see operators.hypergraph_operator",
    "operators.HypergraphStructure": "of jsem_pyg.graph",
    "operators.Operator": "abstract",
    "operators.Scaling": "a record",
    "operators.SeriesOperator": "abstract",
    "operators.SimplicialStructure": "of jsem_pyg.graph",
    "partition.Perturbation": "a record",
    "report.Findings": "a record",
    "partition.PrunedGraph": "a record",
    "partition.ColumnShare": "a GraphStructure",
    "partition.DistributedGraph": "see partition.distribute",
    "partition.DistributionPlan": "a record",
    "partition.Speed": "a record",
    "partition.load_part": "a file",
    "partition.measure_speed": "of whatever runs",
    "partition.save_parts": "a file",
    "partition.sum_gradients": "called by processes, not by threads",
    "transport.Barycenter": "a record",
    "transport.BatchCosts": "a record",
    "transport.Step": "a record",
    "training.EpochEnd": "a record",
    "training.EpochRow": "a record",
    "training.FitResult": "a record",
    "training.PruningStep": "a record",
    "training.ChosenClasses": "a record",
    "training.PropagatedLabels": "a record",
    "training.SelectedTime": "a record",
    "training.StatefulCallback": "a protocol",
    "training.TripletSampler": "a protocol",
    "training.Triplets": "a record",
}
