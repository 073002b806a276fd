"""Every number that tunes the matching of graphs, in the order in which the search uses them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """How much is tried, and from which size on; units are edges, pairs of nodes and shares."""

    # Copies, by the refinement of colours.
    most_refining: int = 1 << 26  # edges that all refinements visit

    # Features of nodes, and the nodes that look most alike.
    ridge: float = 0.03  # of :func:`.comparable`, for local profiles: small components count more
    hops: tuple[int, int] = (2, 6)  # of means along all edges, and along overlaps
    deviation_hops: int = 2  # hops of which standard deviations count, too
    nearest: int = 30  # nodes that features suggest to each
    least_nearest: int = 1 << 16  # and in all, at least
    exact_nearest: int = 20_000  # nodes up to which all pairs of features are compared
    cells_searched: int = 24  # of an inverted file
    cell_training: int = 40  # points a cell
    likeness: float = 0.1  # what features count, in edges
    likeness_levels: int = 512

    # First candidates.
    candidates: int = 12  # partners of each node in a soft assignment
    partners: int = 30  # the same in the last one, and in annealing
    likeness_temperature: float = 0.005
    start_temperature: float = 0.01  # the same, of later starts from features
    unmatched: float = 1.0  # edges that count as much as having no partner
    cold: float = 2.0  # inverse temperature, per edge
    colder: tuple[float, ...] = (3.0, 4.0, 6.0, 10.0)
    support_gain: float = 2e-3  # relative gain of a step that is worth more of them
    patience: int = 3  # steps without such a gain
    finishing: int = 4  # rounds in which nodes that are left are matched by their neighbours

    # Moves.
    percolations: int = 6
    sweeps: int = 50  # of swaps, at most
    least_mass: float = 1e-3  # of a pair that says something about its neighbours
    least_gain: float = 1e-6  # of a swap
    block: int = 1 << 24  # products of edges at a time
    dense_speed: int = 64  # products of dense matrices in the time of one of sparse matrices
    soft_steps: int = 15  # at the temperature `cold`, from features
    anneal: tuple[float, float, int] = (1.0, 6.0, 16)  # inverse temperatures: first, last, number
    balancing: int = 16  # scalings of a soft assignment

    # The search: what graphs of a size get, by pairs of nodes.
    most_pairs: int = 1 << 30  # beyond, candidates are the answer
    most_branched: int = 1 << 28  # up to which branches are compared
    most_heat: int = 1 << 22  # up to which heat profiles take a second or two
    most_relaxed: int = 1 << 17  # up to which a convex relaxation takes tenths of a second
    copy: float = 1 - 1e-6  # of the most that could be kept: there is nothing to find
    nearly: float = 0.99  # of the most that could be kept: there is little to find
    gain: float = 1e-4  # of what is kept, for another round to be worth it
    confident: tuple[float, ...] = (0.0, 0.5, 0.3, 0.7)  # pairs that an annealing begins with
    unrelated: float = 0.01  # mean confidence of partners; related graphs have 0.04 and more

    # Branches of sparse graphs.
    mean_degree: float = 4.0
    largest_degree: int = 64
    depth: int = 3  # hops in the first round
    most_kinds: int = 2  # pairs of kinds of branches, per pair of nodes: else one hop less
    first_pairs: int = 1 << 23  # in the first rounds
    later_pairs: int = 600  # of a node in later rounds
    unlikely: float = 1e-7  # the least probability of a pair
    alone: int = 3  # rounds without competition
    rounds: int = 48
    dropped_every: int = 3  # rounds
    likely: float = 0.3  # the probability of a pair whose neighbours come back
    missing: float = 0.05  # chance of a missing edge, besides those that the numbers show

    # Beliefs from known pairs and features.
    prior_kept: float = 0.7  # share of the edges of the smaller graph that the other one has
    prior_edges: float = 2.0  # edges that this counts as
    most_kept: float = 0.98
    belief_steps: int = 16
    belief_cold: float = 0.7  # what evidence counts, since that of neighbours is not independent
    belief_damping: float = 0.2  # share of the step before
    least_belief: float = 1e-4
    least_believed: int = 1 << 17  # pairs of nodes in all, at least
    few_known: float = 0.03  # share of nodes below which edges alone are searched, too
    most_heated: int = 128  # known pairs, beyond which their heat has nothing to add
    known_times: tuple[float, float] = (1.0, 4.0)  # of this heat
    random_pairs: int = 1 << 18  # whose distances are compared
    distance_steps: int = 16
    least_bits: float = 0.5  # of features, beside known pairs
    prior_pairs: float = 10.0  # pairs that features which say nothing count as
    least_learned: float = 0.01  # probability of a pair from which the ratio is learned

    # Confidence.
    few_pairs: float = 10.0  # known pairs that say as much about the sides as their edges do
    splits: int = 3  # into nodes that are kept, and nodes to predict


SCHEDULE = Schedule()
