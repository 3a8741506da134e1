"""A layered layout: everything below what it depends on, with few crossings."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

GAP_X, GAP_Y, HEIGHT = 24.0, 34.0, 46.0
SWEEPS = 6


class Layout:
    """Where the boxes of a graph lie, and the points that its edges go through.

    Parameters
    ----------
    widths : sequence of float
        Of the boxes; each comes after those that it depends on.
    edges : sequence of (int, int)

    Attributes
    ----------
    x, y : list of float
        Centers of the boxes.
    lines : list of list of (float, float)
        Per edge: the points from box to box, between them in the layers that it passes.
    width, height : float
    """

    def __init__(self, widths: Sequence[float], edges: Sequence[tuple[int, int]]):
        n = len(widths)
        self._widths = [*widths]
        self._layer = [0] * n
        for a, b in sorted(edges, key=lambda edge: edge[1]):
            self._layer[b] = max(self._layer[b], self._layer[a] + 1)
        chains = [self._chain(a, b) for a, b in edges]
        self._below: list[list[int]] = [[] for _ in self._widths]
        self._above: list[list[int]] = [[] for _ in self._widths]
        for chain in chains:
            for a, b in itertools.pairwise(chain):
                self._below[a].append(b)
                self._above[b].append(a)
        self._rows: list[list[int]] = [[] for _ in range(max(self._layer, default=-1) + 1)]
        for k, layer in enumerate(self._layer):
            self._rows[layer].append(k)
        self._order()
        self._place()
        self.lines = [[(self.x[k], self.y[k]) for k in chain] for chain in chains]

    def _chain(self, a: int, b: int) -> list[int]:
        """The ends of an edge, and between them a place in each layer that it passes."""
        chain = [a]
        for layer in range(self._layer[a] + 1, self._layer[b]):
            chain.append(len(self._widths))
            self._widths.append(4.0)
            self._layer.append(layer)
        return [*chain, b]

    def _order(self) -> None:
        """Sort each layer by where the neighbours above, then those below, lie."""
        for sweep in range(SWEEPS):
            down = sweep % 2 == 0
            near = self._above if down else self._below
            rows = self._rows if down else self._rows[::-1]
            for before, row in itertools.pairwise(rows):
                place = {k: i for i, k in enumerate(before)}
                own = {k: i for i, k in enumerate(row)}
                row.sort(key=lambda k: (_mean([place[j] for j in near[k]], own[k]), own[k]))

    def _place(self) -> None:
        n = len(self._widths)
        self.x, self.y = [0.0] * n, [0.0] * n
        lengths = [sum(self._widths[k] + GAP_X for k in row) for row in self._rows]
        self.width = max(lengths, default=0.0) + GAP_X
        self.height = len(self._rows) * (HEIGHT + GAP_Y) + GAP_Y
        for layer, row in enumerate(self._rows):
            left = (self.width - lengths[layer]) / 2
            for k in row:
                self.x[k] = left + (self._widths[k] + GAP_X) / 2
                self.y[k] = GAP_Y + layer * (HEIGHT + GAP_Y) + HEIGHT / 2
                left += self._widths[k] + GAP_X


def _mean(places: list[int], otherwise: int) -> float:
    return sum(places) / len(places) if places else float(otherwise)
