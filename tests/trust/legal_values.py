"""What looks bad, but is not: patterns of "call argument: value", each with its reason."""

import re

LEGAL: dict[str, str] = {
    # Times
    r".* t: (a list|an array)": "several times are several scales",
    r"\S+heat_coefficients t: (a scalar|of no entries|with .*)": "of any shape",
    # JAX
    r"jax\.heat_diffusion edge_weight: None": "ones",
    r"jax\.heat_diffusion x: with a dimension in front": "leading dimensions are batches",
    r"jax\.heat_coefficients t: a tensor": "of any shape",
    # Files
    r"partition\.diffuse_file source: a string": "a path, and an OSError where there is no file",
    r"report\.report path: another string": "a path",
    r"report\.report title: (another|an empty) string": "any title",
    r"report\.report (scores: None|(scores|settings): a dict)": "nothing to show",
    r"diffusion\.expm_multiply t: -1\.0": "a matrix has an exponential for either sign",
    r"diffusion\.expm_multiply A: sparse": "matrices may be sparse",
    r"diffusion\.expm_multiply x: an array": "of NumPy's",
    # Shapes
    r"(nn|diffusion)\.\S+ x: with a dimension in front": "leading dimensions are batches",
    r"\S+\.check_flow x: with a dimension in front": "leading dimensions are batches",
    r"\S+dirichlet_energy x: with a dimension in front": "leading dimensions are batches",
    r"\S+Conductance\.forward edge_attr: of no entries": "a graph may have no edges",
    r"\S+modularity labels: with an entry too many": "an isolated node",
    r"\S+heat_kernel_columns nodes: (of no entries|with an entry too many)": "any number of nodes",
    r"transport\.\S+ nodes: (of no entries|with an entry too many)": "any number of columns",
    # Numbers
    r".* (label|labels|y|clusters|data: y):? with a (large|negative) entry": "only equality counts",
    r"\S+knn_graph batch: with a (large|negative) entry": "graphs are told apart by any number",
    r"\S+check_weight_shape \w+: with (NaN|infinity)": "it looks at the shape alone",
    r"nn\.\S+Conductance\.(forward|project|between) \w+: with (NaN|infinity)": "a graph is checked",
    r"\S+TripletLoss\.forward z: with (NaN|infinity)": "`fit` says it, where a GPU waits anyway",
    r"transport\.heat_profiles (times|averaging): an array": "times are numbers in any form",
    r"partition\.sum_gradients parameters: no entry": "a model may have nothing to learn",
    # Types
    r".* (hyper)?edge_attr: of (integers|booleans)": "features that are numbers will do",
    r"nn\.(Agreement|Endpoint)Conductance\.forward edge_attr: .*": "it is not looked at",
    r"\S+read_symmetric name: .*": "the name of what is read, for messages",
    r"partition\.prune_edges data: x .*": "features are not looked at",
    r"training\.fit\S* data: x sparse": "some models take sparse features",
    r"training\.fit\S* data: edge_attr .*(complex|sparse|of integers|of booleans)": (
        "what a model makes of them is its own affair"
    ),
    r"operators\.\S+ \w+: with (NaN|infinity)": "checked where a graph is read, not at every step",
    r"diffusion\.diffuse x: with (NaN|infinity)": "checked by those who know the operator",
    r"diffusion\.filters\.Wavelets\.synthesize y: with (NaN|infinity)": "as of diffuse",
    r"diffusion\.filters\.Wavelets\.synthesize y: with a dimension in front": "a batch",
    r"transforms\.(Forman|EdgeG)\S* data: edge_attr (complex|of integers|of booleans|with .*)": (
        "what is there already is kept as it is, beside the new columns"
    ),
    # Of a Data, what there is no use for
    r"\S+LocalityOrder.restore data: (x|edge_index|edge_weight) .*": "only its order is looked at",
    r"\S+LocalityOrder.restore out: (?!sparse).*": "rows of anything",
    r"\S+LocalityOrder.forward data: (x|edge_attr|edge_weight) .*": "rows of anything are moved",
    r"transport\.HeatCost.__call__ source: x .*": "only edges are looked at",
    r"transforms\.FormanCurvature\S* data: x .*": "only its rows are counted",
}

_PATTERNS = [re.compile(pattern) for pattern in LEGAL]


def is_legal(case: str) -> bool:
    """Whether a case is one of the exceptions."""
    return any(pattern.fullmatch(case) for pattern in _PATTERNS)
