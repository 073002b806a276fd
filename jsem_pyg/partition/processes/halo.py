"""The halo of some rows: their neighbours on other processes, and the slots of these edges."""

import torch
from torch import Tensor

from .ranks import Ranks
from .routes import Routes, linear


class Halo(Routes):
    """Routes of the rows of the halo, and of slots that cross to the process of their reverse.

    The halo is at ascending places `outside` [h] in the order of the partition, in which the rows
    of each process begin at `begin` [P + 1]. Crossing slots [nx] have a row and a column in
    `outside`, and ascend by both.
    """

    def __init__(
        self,
        ranks: Ranks,
        num_rows: int,
        outside: Tensor,
        begin: Tensor,
        row: Tensor,
        col: Tensor,
    ) -> None:
        owner = torch.searchsorted(begin, outside, right=True) - 1
        owner_of_slot, size = owner[col], max(num_rows, 1)
        # The graph is undirected: the process that holds a neighbour of a row also needs the row.
        wanted = torch.unique(owner_of_slot * size + row)
        send, receive, crossing = (
            torch.bincount(each, minlength=ranks.size).tolist()
            for each in (wanted // size, owner, owner_of_slot)
        )
        super().__init__(ranks, num_rows, wanted % size, send, receive)
        self.rows = torch.unique(row)  # those with a neighbour elsewhere
        # Slots are sent in the order of the slots of the other side: by its rows first.
        self._crossing = crossing
        self._swap_send = (col * size + row).argsort()
        self._swap_receive = owner_of_slot.argsort(stable=True)

    def swap(self, values: Tensor) -> Tensor:
        """[nx] values in the crossing slots (i, j) -> the values of the slots (j, i) elsewhere."""
        sent = values.index_select(0, self._swap_send)
        found = self.ranks.exchange(sent, self._crossing, self._crossing).wait()
        return torch.empty_like(values).scatter_(0, self._swap_receive, found)

    def mirror(self, values: Tensor) -> Tensor:
        """The same, differentiable: the map is its own transpose."""
        return linear(values, self.swap, self.swap)
