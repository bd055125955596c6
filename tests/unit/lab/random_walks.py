"""Random walks without a clock: any possible step may come next, messages one by one, faults now and then."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from backend.replication_lab.model.actions import perform
from backend.replication_lab.model.configuration import Configuration
from backend.replication_lab.model.messages import NOBODY
from backend.replication_lab.model.rules import Rules
from backend.replication_lab.model.start_states import established
from backend.replication_lab.model.world import Action, World
from backend.replication_lab.runs.search import Bounds, possible

STEPS = 120
BOUNDS = Bounds(crashes=3, power_losses=2, expiries=3, attempts=4, checkpoints=True)
FAULTS = (
    *("crash", "power_loss", "session_expiry", "restart", "expire", "shrink", "late", "timeout", "cut", "heal"),
    "reassign",
)
DOWN = ("crash", "power_loss")


@dataclass(frozen=True)
class Walked:
    """Result of a walk."""

    start: World
    world: World
    steps: tuple[Action, ...]

    @property
    def crashed(self) -> frozenset[int]:
        """Return the brokers that were down at some time."""
        return frozenset(int(each[1]) for each in self.steps if each[0] in DOWN)  # type: ignore[call-overload]


def beginning(random: Random, rules: Rules) -> World:
    """Draw a small partition, led by any of its replicas, of which one may lag."""
    brokers = random.choice((2, 3, 3, 3, 4))
    factor = min(brokers, random.choice((2, 3)))
    min_isr = random.randint(1, min(2, factor))
    configuration = Configuration(
        brokers=brokers,
        replication_factor=factor,
        min_isr=min_isr,
        producers=random.randint(1, 2),
        records=3,
        most_fetched=random.choice((1, 100)),
    )
    behind = random.choice((0, 0, factor))
    isr = frozenset(configuration.assigned) - {behind}
    leader = random.choice(sorted(isr)) if len(isr) >= min_isr else 1
    direct = random.random() < 0.3
    return established(
        configuration,
        rules,
        records=2,
        leader=leader,
        isr=isr,
        direct=direct,
        prompt=direct and random.random() < 0.5,
    )


def following(world: World, spent: tuple[int, int, int]) -> list[tuple[Action, tuple[int, int, int]]]:
    """Return the possible next actions, including deliveries of messages and lost connections to the store."""
    arriving: list[Action] = [("deliver", *connection) for connection in world.channels]
    reaching: list[Action] = [
        ("cut" if world.sees_store(each) else "heal", NOBODY, each.id) for each in world.brokers.values()
    ]
    silent: list[Action] = [("expire", each) for _, each in world.cuts]
    return [*possible(world, BOUNDS, spent), *((each, spent) for each in (*arriving, *reaching, *silent))]


def moved(random: Random, world: World) -> list[Action]:
    """Draw other replicas, at least min.insync.replicas of them; none while a reassignment is under way."""
    if world.store.reassigned:
        return []
    configuration = world.configuration
    some = random.randint(configuration.min_isr, configuration.brokers)
    return [("reassign", *random.sample(range(1, configuration.brokers + 1), some))]


def walk(seed: int, rules: Rules, *, moves: bool = False) -> Walked:
    """Walk to the first violation, or for a number of steps; the probability of faults is drawn as well.

    With `moves`, an administrator reassigns the partition to other brokers again and again.
    """
    random = Random(f"{seed}, which moves" if moves else seed)
    world = beginning(random, rules)
    start = world.copy()
    steps: list[Action] = []
    spent = (0, 0, 0)
    likely = random.choice((0.03, 0.1, 0.3))
    while len(steps) < STEPS and world.history.violated is None:
        options = following(world, spent)
        if moves:
            options += [(each, spent) for each in moved(random, world)]
        wanted = random.random() < likely
        some = [each for each in options if (each[0][0] in FAULTS) is wanted] or options
        kind = random.choice(sorted({str(each[0][0]) for each in some}))
        action, then = random.choice([each for each in some if each[0][0] == kind])
        if perform(world, action):
            steps.append(action)
            spent = then
    return Walked(start, world, tuple(steps))
