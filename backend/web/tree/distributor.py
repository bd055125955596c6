"""Distributors as the drawing, the tables and the drawer show them: their facts in words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote

from backend.domain.distribution.distributor_states import UNOBSERVED
from backend.domain.records import copy_flags
from backend.domain.tree.distributor_settings import DEFAULTS
from backend.queries.distribution.distributors import DistributorRow
from backend.web.tree.tree_trends import lag_chart, rate_chart
from backend.web.words.figures import compact, full

TROUBLED = frozenset({"blocked", "degraded"})
IN_TIME = {True: "in time", False: "late", None: "unknown"}


@dataclass(frozen=True)
class Distributor:
    """A distributor as its arrow and its table row show it."""

    row: DistributorRow
    offline: tuple[str, ...] = ()
    """Ends that are offline, of which the notices have the reasons."""

    @cached_property
    def key(self) -> str:
        return f"{self.row.cluster}:{self.row.level}"

    @property
    def address(self) -> str:
        """Return the last parts of its forms' addresses."""
        return f"{quote(self.row.cluster, safe='')}/{self.row.level}"

    @cached_property
    def state(self) -> str:
        return self.row.observed.state if self.row.observed else UNOBSERVED

    @property
    def reason(self) -> str | None:
        return self.row.observed.reason if self.row.observed else None

    @property
    def brief_reason(self) -> str | None:
        """Return the reason without those of clusters that are offline, for the many rows of a table."""
        if self.reason is None or not self.offline:
            return self.reason
        return "; ".join(f"{name} is offline" for name in self.offline)

    @property
    def epoch(self) -> int | None:
        """Return the fencing epoch; None while it is unobserved."""
        return self.row.observed.fencing_epoch if self.row.observed else None

    @property
    def holder(self) -> str | None:
        """Return the worker that runs it."""
        return self.row.observed.holder if self.row.observed else None

    @property
    def rate_chart(self) -> str:
        """Return the address of its chart of rates."""
        return rate_chart(self.key)

    @property
    def lag_chart(self) -> str:
        """Return the address of its chart of lags."""
        return lag_chart(self.key)

    @property
    def rate(self) -> float | None:
        return self.row.observed.records_per_second if self.row.observed else None

    @property
    def lag(self) -> int | None:
        return self.row.observed.lag_records if self.row.observed else None

    @property
    def is_late(self) -> bool:
        """Return whether records wait longer than the objective; False while that is unknown."""
        return self.row.observed is not None and self.row.observed.in_time is False

    @property
    def is_problem(self) -> bool:
        """Return whether it is late, or cannot copy all records."""
        return self.is_late or self.state in TROUBLED

    @property
    def in_time(self) -> str:
        """Return the same in words."""
        return IN_TIME[self.row.observed.in_time if self.row.observed else None]

    @property
    def wait(self) -> str:
        """Return the wait of records, and whether it is within the objective."""
        seconds = self.row.observed.wait_seconds if self.row.observed else None
        return self.in_time if seconds is None else f"{seconds:g} s, {self.in_time}"

    @property
    def flow(self) -> str:
        """Return the speed of the line's dots."""
        rate = self.rate or 0
        return "none" if rate < 0.05 else "slow" if rate < 100 else "brisk" if rate < 2000 else "fast"

    @property
    def mask(self) -> str:
        return copy_flags.text(copy_flags.mask(self.row.level))

    @property
    def flag(self) -> str:
        return copy_flags.text(copy_flags.flag(self.row.level))

    @cached_property
    def settings(self) -> tuple[str, ...]:
        """Return the settings that differ from the defaults, in words."""
        chosen = self.row.settings
        words = (
            "paused" if chosen.paused else None,
            chosen.bytes_per_second and f"at most {compact(chosen.bytes_per_second)}B/s",
            chosen.compression if chosen.compression != DEFAULTS.compression else None,
        )
        return tuple(word for word in words if word)

    @property
    def read(self) -> str:
        """Return the description, then the arrow's text in its order, so that voice control finds what is seen."""
        state = f"{self.state} late" if self.is_late else self.state
        return f"{self.spoken} L{self.row.level} {state} {compact(self.rate)}/s lag {compact(self.lag)}"

    @property
    def read_without_state(self) -> str:
        """Return the same for an earlier position, of which no states are known."""
        return f"{self.spoken} L{self.row.level} to {self.row.target}"

    @cached_property
    def spoken(self) -> str:
        """Return the whole arrow in words."""
        base = self._ends_and_settings
        if self.row.observed is None:
            return base
        in_time = f"wait {self.in_time}" if self.row.observed.in_time is None else self.in_time
        said = f"{base}: {self.state}, {compact(self.rate)} records per second, lag {full(self.lag)}, {in_time}"
        return f"{said}. {self.reason}" if self.reason else said

    @property
    def summary(self) -> str:
        """Return the arrow in words as far as it is known, without the reason."""
        base = self._ends_and_settings
        if self.row.observed is None:
            return base
        facts = (
            None if self.rate is None else f"{compact(self.rate)} records per second",
            None if self.lag is None else f"lag {full(self.lag)}",
            None if self.row.observed.in_time is None else self.in_time,
        )
        return f"{base}: {', '.join((self.state, *(fact for fact in facts if fact)))}"

    @property
    def _ends_and_settings(self) -> str:
        return ", ".join((f"{self.row.cluster} level {self.row.level} to {self.row.target}", *self.settings))
