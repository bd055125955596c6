"""Random schedules of faults from a seed: a configuration, faults with their times, and the run.

Each fault is healed after a while, so that the partition must recover at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from backend.replication_lab.model.configuration import Configuration, Times
from backend.replication_lab.model.messages import NOBODY
from backend.replication_lab.model.rules import Rules
from backend.replication_lab.model.start_states import established, wake_all
from backend.replication_lab.model.world import Action, World
from backend.replication_lab.runs.recovery import settles
from backend.replication_lab.runs.timed import Clock

HEALED_BY = {
    "crash": "restart",
    "power_loss": "restart",
    "pause": "resume",
    "cut": "heal",
    "slow": "fast",
    "slow_disk": "fast",
    "session_expiry": "",
}
"""Faults with their heals; a session comes back by itself."""
KINDS = tuple(HEALED_BY)
DOWN = ("crash", "power_loss")
FIRST_MS = 30.0
BEYOND_THE_LAST_MS = 300.0
WITHOUT_END = 1 << 30
"""Number of records: producers send until the schedule is over."""


@dataclass(frozen=True)
class Schedule:
    """Faults, with the simulated milliseconds at which they happen."""

    configuration: Configuration
    steps: tuple[tuple[float, Action], ...]

    @property
    def end(self) -> float:
        """Return the time after which nothing fails any more."""
        return max((at for at, _ in self.steps), default=0.0) + BEYOND_THE_LAST_MS


@dataclass(frozen=True)
class Ran:
    """A run of a schedule, with observations."""

    world: World
    steps: tuple[Action, ...]
    settled: bool
    had_nobody: bool
    """Tells whether no in-sync or eligible replica was alive at some moment."""

    @property
    def crashed(self) -> frozenset[int]:
        """Return the brokers that were down at some time."""
        return frozenset(int(each[1]) for each in self.steps if each[0] in DOWN)  # type: ignore[call-overload]


def random_configuration(random: Random) -> Configuration:
    """Draw two to five brokers, any possible replicas and min.insync.replicas, and one to three producers."""
    brokers = random.randint(2, 5)
    factor = random.randint(2, min(brokers, 4))
    return Configuration(
        brokers=brokers,
        replication_factor=factor,
        min_isr=random.randint(1, factor),
        producers=random.randint(1, 3),
        acks_all=random.random() < 0.8,
        records=WITHOUT_END,
        most_fetched=random.choice((1, 2, 100)),
        times=Times(
            produce=random.choice((2, 20, 100)),
            checkpoint=random.choice((20, 250, 2_000)),
            request=random.choice((30, 400)),
            keep_in_sync=random.choice((100, 1_000)),
            session=random.choice((60, 600)),
        ),
    )


def random_schedule(
    seed: int, configuration: Configuration | None = None, kinds: tuple[str, ...] = KINDS
) -> Schedule:
    """Draw one to ten faults, which may overlap; sometimes a replica is reassigned."""
    random = Random(seed)
    drawn = random_configuration(random) if configuration is None else configuration
    steps: list[tuple[float, Action]] = []
    at = FIRST_MS
    for _ in range(random.randint(1, 10)):
        steps += _fault(random, drawn, at, kinds)
        at += random.choice((0.0, random.uniform(0, 30), random.uniform(0, 300), random.uniform(0, 1_500)))
    if configuration is None and random.random() < 0.25:
        factor = random.randint(drawn.min_isr, drawn.brokers)
        replicas = random.sample(range(1, drawn.brokers + 1), factor)
        steps.append((random.uniform(0, at), ("reassign", *replicas)))
    return Schedule(drawn, tuple(sorted(steps, key=lambda each: each[0])))


def _fault(
    random: Random, configuration: Configuration, at: float, kinds: tuple[str, ...]
) -> list[tuple[float, Action]]:
    kind, broker = random.choice(kinds), random.randint(1, configuration.brokers)
    whom: tuple[int, ...] = (broker,)
    if kind == "cut":
        whom = (
            random.choice([each for each in range(NOBODY, configuration.brokers + 1) if each != broker]),
            broker,
        )
    begins: list[tuple[float, Action]] = [(at, (kind, *whom))]
    if not HEALED_BY[kind]:
        return begins
    return [*begins, (at + random.uniform(1, random.choice((50, 300, 2_000))), (HEALED_BY[kind], *whom))]


def run(schedule: Schedule, rules: Rules, seed: int) -> Ran:
    """Run on an established partition, to the first violation or until it has recovered."""
    world = established(schedule.configuration, replace(rules), records=2)
    clock = Clock(world, seed)
    wake_all(world)
    for at, action in schedule.steps:
        clock.at(at, action)
    had_nobody = False
    while (next_at := clock.next_at()) is not None and next_at <= schedule.end and world.history.violated is None:
        if clock.step():
            had_nobody = had_nobody or nobody_lives(world)
    world.now = max(world.now, schedule.end)
    for producer in world.producers:
        producer.left = 1 if producer.waits else 0
    settled = world.history.violated is None and settles(clock)
    return Ran(world, tuple(clock.steps), settled, had_nobody)


def nobody_lives(world: World) -> bool:
    """Tell whether no broker in ISR or ELR is alive."""
    in_sync = world.store.isr | world.store.elr
    return bool(in_sync) and not any(world.brokers[each].started for each in in_sync)
