"""Hypothesis draws faults, and shrinks what it finds: in fixed mode it finds nothing, in faithful mode it does."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from backend.replication_lab.model.actions import perform
from backend.replication_lab.model.configuration import Configuration
from backend.replication_lab.model.history import Invariant
from backend.replication_lab.model.messages import NOBODY
from backend.replication_lab.model.rules import FAITHFUL, FIXED, Rules
from backend.replication_lab.model.start_states import established, wake_all
from backend.replication_lab.model.world import World
from backend.replication_lab.runs.recovery import settles, unsettled
from backend.replication_lab.runs.timed import Clock
from tests.nightly import some_now
from tests.unit.lab.healing import heal
from tests.unit.lab.random_walks import following

BROKERS, MOST_ADDED = 4, 1 << 30
BROKER, SEED = st.integers(1, BROKERS), st.integers(0, 2**32 - 1)
OF_A_BROKER = (
    "crash", "power_loss", "restart", "pause", "resume", "slow", "slow_disk", "fast", "session_expiry",
    "checkpoint",
)  # fmt: skip
FEW = settings(
    max_examples=150,
    stateful_step_count=30,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
MANY = settings(FEW, max_examples=2_000, stateful_step_count=60)
TO_FIND = settings(FEW, max_examples=400, phases=(Phase.generate,))
SOME_OR_MANY = pytest.mark.parametrize(
    "profile", [FEW, pytest.param(MANY, marks=pytest.mark.nightly)], ids=["few", "many"]
)


class Holds(RuleBasedStateMachine):
    """Common part of all machines: the invariants, and recovery once all is healed."""

    protocol: Rules = FIXED
    clock: Clock

    def begin(self, configuration: Configuration, *, direct: bool = False) -> World:
        """Return an established world."""
        return established(configuration, self.protocol, records=2, direct=direct)

    @invariant()
    def nothing_is_violated(self) -> None:
        """Check the invariants after every step."""
        if hasattr(self, "clock"):
            history = self.clock.world.history
            assert history.violated is None, f"{history.violated}: {history.what}"

    def teardown(self) -> None:
        """Heal everything."""
        if hasattr(self, "clock") and self.clock.world.history.violated is None:
            heal(self.clock)
            assert settles(self.clock), unsettled(self.clock.world)
            self.nothing_is_violated()


class Timed(Holds):
    """Faults at any time, while everything else runs by the clock."""

    @initialize(seed=SEED, factor=st.integers(2, BROKERS), producers=st.integers(1, 3), data=st.data())
    def begins(self, seed: int, factor: int, producers: int, data: st.DataObject) -> None:
        configuration = Configuration(
            brokers=BROKERS,
            replication_factor=factor,
            min_isr=data.draw(st.integers(1, factor), "min_isr"),
            producers=producers,
            records=MOST_ADDED,
        )
        self.clock = Clock(self.begin(configuration), seed)
        wake_all(self.clock.world)

    @rule(kind=st.sampled_from(OF_A_BROKER), broker=BROKER)
    def fault(self, kind: str, broker: int) -> None:
        self.clock.take((kind, broker))

    @rule(kind=st.sampled_from(("cut", "heal")), one=st.integers(NOBODY, BROKERS), other=BROKER)
    def connection(self, kind: str, one: int, other: int) -> None:
        if one != other:
            self.clock.take((kind, one, other))

    @rule(producer=st.integers(0, 2), kind=st.sampled_from(("produce", "timeout", "begin_anew")))
    def producer(self, producer: int, kind: str) -> None:
        producers = self.clock.world.producers
        known = producers[producer % len(producers)]
        self.clock.take((kind, known.id, known.number, known.attempt) if kind == "timeout" else (kind, known.id))

    @rule(replicas=st.lists(BROKER, min_size=1, max_size=BROKERS, unique=True))
    def reassign(self, replicas: list[int]) -> None:
        world = self.clock.world
        if len(replicas) >= world.configuration.min_isr and not world.store.reassigned:
            self.clock.take(("reassign", *replicas))

    @rule(steps=st.integers(1, 40))
    def steps(self, steps: int) -> None:
        for _ in range(steps):
            self.clock.step()

    @rule(ms=st.floats(1, 2_000))
    def time(self, ms: float) -> None:
        self.clock.run(self.clock.world.now + ms)


class Deleted(Timed):
    """The topic is deleted during the run: at the end no broker has its log, even one that was down."""

    @precondition(lambda self: not self.clock.world.store.deleted)
    @rule()
    def delete_topic(self) -> None:
        self.clock.take(("delete_topic",))


class Untimed(Holds):
    """Any possible step comes next; at the end a clock takes over."""

    spent = (0, 0, 0)

    @initialize(
        brokers=st.integers(2, 3), min_isr=st.integers(1, 2), producers=st.integers(1, 2), direct=st.booleans()
    )
    def begins(self, brokers: int, min_isr: int, producers: int, direct: bool) -> None:
        configuration = Configuration(
            brokers=brokers, replication_factor=brokers, min_isr=min_isr, producers=producers, records=MOST_ADDED
        )
        self.world = self.begin(configuration, direct=direct)

    @rule(data=st.data())
    def any_possible_step(self, data: st.DataObject) -> None:
        options = following(self.world, self.spent)
        action, then = data.draw(st.sampled_from(options), "step")
        if perform(self.world, action):
            self.spent = then
        history = self.world.history
        assert history.violated is None, f"{history.violated}: {history.what}"

    def teardown(self) -> None:
        if hasattr(self, "world") and self.world.history.violated is None:
            self.clock = Clock(self.world, 0)
            super().teardown()


class FaithfulTimed(Timed):
    """The invariants alone, without recovery."""

    protocol = FAITHFUL

    def teardown(self) -> None:
        pass


class FaithfulUntimed(Untimed):
    """The invariants alone."""

    protocol = FAITHFUL

    def teardown(self) -> None:
        pass


@SOME_OR_MANY
@some_now("machine", [Timed, Deleted, Untimed], now=(0,))
def test_fixed_mode_holds_and_settles_whatever_hypothesis_draws(machine, profile):
    run_state_machine_as_test(machine, settings=profile)


@pytest.mark.parametrize("machine", [FaithfulTimed, FaithfulUntimed])
def test_the_same_machines_find_violations_in_faithful_mode(machine):
    with pytest.raises(
        AssertionError, match="|".join(each for each in Invariant if each is not Invariant.NEVER_SETTLES)
    ):
        run_state_machine_as_test(machine, settings=TO_FIND)
