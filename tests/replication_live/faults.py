"""What befalls brokers in a drill, and when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tests.replication_live.clock import Clock
from tests.replication_live.cluster import Cluster

Kind = Literal["crash", "restart", "pause", "resume"]

# From what a broker is to what it is then; what is not here makes no sense.
_THEN: dict[tuple[str, Kind], str] = {
    ("up", "crash"): "down",
    ("paused", "crash"): "down",
    ("down", "restart"): "up",
    ("up", "pause"): "paused",
    ("paused", "resume"): "up",
}


@dataclass(frozen=True)
class Fault:
    """`crash` is kill -9, `pause` SIGSTOP, `resume` SIGCONT; `at_ms` since the drill began."""

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
    """By their time, those of one time as they were given; brokers are up at first.

    Raises ValueError if one makes no sense, such as a restart of a broker that is up.
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
    """Each at its time, in the main thread (see Cluster). What they leave down or paused stays so."""
    ways = {"crash": cluster.kill, "restart": cluster.restart, "pause": cluster.pause, "resume": cluster.resume}
    done = []
    for fault in in_order(faults):
        clock.wait_until(fault.at_ms)
        began = clock.now()
        ways[fault.kind](fault.broker)
        done.append(Done(fault, began, clock.now()))
    return done
