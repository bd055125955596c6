"""Faults of brokers in a drill, with their times."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tests.support.drills.clock import Clock
from tests.support.drills.cluster import Cluster

Kind = Literal["crash", "restart", "pause", "resume"]

# State before -> state after; other faults make no sense.
_THEN: dict[tuple[str, Kind], str] = {
    ("up", "crash"): "down",
    ("paused", "crash"): "down",
    ("down", "restart"): "up",
    ("up", "pause"): "paused",
    ("paused", "resume"): "up",
}


@dataclass(frozen=True)
class Fault:
    """A fault: `crash` is SIGKILL, `pause` SIGSTOP, `resume` SIGCONT; `at_ms` counts from the drill's start."""

    at_ms: int
    kind: Kind
    broker: int


@dataclass(frozen=True)
class Done:
    """A fault as it was carried out; a busy machine may be late."""

    fault: Fault
    began_ms: float
    ended_ms: float


def in_order(faults: Iterable[Fault]) -> list[Fault]:
    """Sort faults by time, equal times in the given order; brokers are up at first.

    Raises ValueError for an impossible fault, such as a restart of a broker that is up.
    """
    found = sorted(faults, key=lambda fault: fault.at_ms)
    states: dict[int, str] = {}
    for fault in found:
        state = states.get(fault.broker, "up")
        if (state, fault.kind) not in _THEN:
            raise ValueError(f"{fault}: the broker is {state}")
        states[fault.broker] = _THEN[state, fault.kind]
    return found


def carry_out(faults: Iterable[Fault], cluster: Cluster, clock: Clock) -> list[Done]:
    """Carry out each fault at its time, in the main thread (see Cluster). Brokers may stay down or paused."""
    ways = {"crash": cluster.kill, "restart": cluster.restart, "pause": cluster.pause, "resume": cluster.resume}
    done = []
    for fault in in_order(faults):
        clock.wait_until(fault.at_ms)
        began = clock.now()
        ways[fault.kind](fault.broker)
        done.append(Done(fault, began, clock.now()))
    return done
