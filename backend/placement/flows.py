"""Minimum-cost and maximum flows by OR-tools: arcs are collected as arrays and solved at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from ortools.graph.python.max_flow import SimpleMaxFlow
from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

from backend.placement.problem import Bools, Ints


class NoFlow(Exception):
    """No flow uses up all supplies."""


class Network:
    """A flow network whose nodes the caller numbers; `add` returns the slice that identifies a group of arcs."""

    def __init__(self) -> None:
        self._parts: list[tuple[Ints, Ints, Ints, Ints]] = []
        self._at = 0
        self._supplies: list[tuple[Ints, Ints]] = []
        self._flows: Ints = np.zeros(0, dtype=np.int64)

    def add(self, tails: ArrayLike, heads: ArrayLike, capacities: ArrayLike, costs: ArrayLike) -> slice:
        """Add arcs from `tails` to `heads`; scalars are broadcast."""
        found = np.broadcast_arrays(*(np.asarray(each, np.int64) for each in (tails, heads, capacities, costs)))
        tail, head, capacity, cost = (each.ravel() for each in found)
        self._parts.append((tail, head, capacity, cost))
        self._at += len(tail)
        return slice(self._at - len(tail), self._at)

    def supply(self, nodes: ArrayLike, amounts: ArrayLike) -> None:
        """Add supplies at nodes; negative amounts are demands."""
        found = np.broadcast_arrays(np.asarray(nodes, np.int64), np.asarray(amounts, np.int64))
        self._supplies.append((found[0].ravel(), found[1].ravel()))

    def solve(self) -> None:
        """Find the cheapest flow. Raises NoFlow."""
        tail, head, capacity, cost = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        solver = SimpleMinCostFlow()
        solver.add_arcs_with_capacity_and_unit_cost(tail, head, capacity, cost)
        if self._supplies:
            nodes, amounts = (np.concatenate(column) for column in zip(*self._supplies, strict=True))
            sums = np.bincount(nodes, amounts).astype(np.int64)
            solver.set_nodes_supplies(np.flatnonzero(sums), sums[sums != 0])
        status = solver.solve()
        if status == solver.INFEASIBLE:
            raise NoFlow
        if status != solver.OPTIMAL:
            raise ArithmeticError(f"the flow solver failed with status {status}")
        self._flows = np.asarray(solver.flows(np.arange(len(tail))), np.int64)

    def flow(self, arcs: slice) -> Ints:
        """Return the flow on the arcs that `add` returned; valid after `solve`."""
        return self._flows[arcs]


def matched(
    left: Ints, right: Ints, left_limits: Ints, right_limits: Ints, more: int = 0, whose: Bools | None = None
) -> Bools:
    """Return a mask of a maximum set of pairs in which no node exceeds its limit.

    `left` and `right` are the pairs' nodes, both numbered from 0. Up to `more` of the left nodes in `whose` may
    exceed their limits by one.
    """
    solver = SimpleMaxFlow()
    source, sink, spare = 0, 1, 2
    lefts = 3 + np.arange(len(left_limits))
    rights = 3 + len(left_limits) + np.arange(len(right_limits))
    solver.add_arcs_with_capacity(np.full(len(lefts), source), lefts, left_limits)
    solver.add_arcs_with_capacity(rights, np.full(len(rights), sink), right_limits)
    if whose is not None:
        some = lefts[whose]
        solver.add_arcs_with_capacity(np.full(1, source), np.full(1, spare), np.full(1, more))
        solver.add_arcs_with_capacity(np.full(len(some), spare), some, np.ones(len(some), np.int64))
    pairs = solver.add_arcs_with_capacity(lefts[left], rights[right], np.ones(len(left), np.int64))
    status = solver.solve(source, sink)
    if status != solver.OPTIMAL:
        raise ArithmeticError(f"the flow solver failed with status {status}")
    found: Bools = np.asarray(solver.flows(pairs)) > 0
    return found
