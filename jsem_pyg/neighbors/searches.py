"""The table of k-NN searches: a word of `index=` and a class, one file each.

`index="auto"` takes the first that suits the points, from the top.
"""

from .flat_search import FlatSearch
from .hnsw_search import HNSWSearch
from .ivf_search import IVFSearch
from .search import Search
from .tree_search import TreeSearch

SEARCHES: dict[str, type[Search]] = {
    "tree": TreeSearch,
    "flat": FlatSearch,
    "ivf": IVFSearch,
    "hnsw": HNSWSearch,
}
