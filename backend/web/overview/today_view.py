"""Events of the last day: a line for each subject, with counts that lead to the timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from sqlalchemy import Connection

from backend.queries.overview.recent_events import MOST_COUNTED, RecentEvents
from backend.web.frame.timeline_view import TimelineItem, timeline_items

SPAN = timedelta(hours=24)

_SUBJECTS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Losses": {
        "RecordsLost": ("record range lost", "record ranges lost"),
        "SourceReplaced": ("topic created anew", "topics created anew"),
        "StreamTailLost": ("log truncated", "logs truncated"),
        "RecordSetAside": ("record dead-lettered", "records dead-lettered"),
        "SetAsideReplayed": ("record replayed", "records replayed"),
        "LossesAcknowledged": ("acknowledgement", "acknowledgements"),
    },
    "Clusters": {
        "ClusterWentOffline": ("went offline", "times offline"),
        "ClusterCameOnline": ("came online", "times online"),
        "ClusterAdded": ("cluster added", "clusters added"),
        "ClusterRemoved": ("cluster removed", "clusters removed"),
        "ClusterChanged": ("cluster changed", "clusters changed"),
    },
    "Switches": {
        "SwitchStarted": ("switch started", "switches started"),
        "SwitchCompleted": ("completed", "completed"),
        "SwitchAborted": ("aborted", "aborted"),
        "SwitchFailed": ("failed", "failed"),
    },
    "Tree": {
        "TreeReplaced": ("tree set", "trees set"),
        "DistributorTargetSwitched": ("target changed", "targets changed"),
        "PrimaryMoved": ("primary moved", "primaries moved"),
        "DistributorPaused": ("distributor paused", "distributors paused"),
        "DistributorResumed": ("distributor resumed", "distributors resumed"),
        "DistributorLimitChanged": ("limit changed", "limits changed"),
    },
    "Placements": {
        "PlacementRunStarted": ("run started", "runs started"),
        "PlacementRunEnded": ("run ended", "runs ended"),
        "PlacementProposed": ("proposed", "proposed"),
        "PreferredLeadersElected": ("leader election", "leader elections"),
    },
    "Streams": {
        "StreamDeclared": ("stream declared", "streams declared"),
        "StreamChanged": ("stream changed", "streams changed"),
        "StreamDeleted": ("stream deleted", "streams deleted"),
        "StreamApplyFailed": ("could not be applied", "could not be applied"),
        "StreamDrifted": ("drift set back", "drifts set back"),
        "AdoptionEnded": ("adoption", "adoptions"),
    },
    "Access": {
        "AccessRequested": ("access requested", "times access requested"),
        "AccessGranted": ("access granted", "times access granted"),
        "AccessRefused": ("access refused", "times access refused"),
        "AccessWithdrawn": ("access withdrawn", "times access withdrawn"),
        "CredentialsIssued": ("password issued", "passwords issued"),
    },
    "Offsets and messages": {
        "GroupOffsetsReset": ("offset reset", "offset resets"),
        "MessageProduced": ("message produced", "messages produced"),
    },
}
"""Subject -> name of an event -> words for one and for many of them; in the order of the page."""
NAMES = frozenset(name for names in _SUBJECTS.values() for name in names)
"""Names of the events that the page counts."""


@dataclass(frozen=True)
class Part:
    """Number of events of one kind, and the timeline's page with them."""

    text: str
    address: str


@dataclass(frozen=True)
class Happened:
    """Line of one subject, with its newest event."""

    subject: str
    parts: Sequence[Part]
    newest: TimelineItem


def since(now: datetime) -> datetime:
    """Return the begin of the day that ends now, to the minute: polls within a minute read the same."""
    return (now - SPAN).replace(second=0, microsecond=0)


def happened(connection: Connection, found: RecentEvents) -> list[Happened]:
    """Return the lines of subjects in which anything happened."""
    newest = {
        subject: max(
            (found.newest[name] for name in names if name in found.newest), key=lambda each: each.position
        )
        for subject, names in _SUBJECTS.items()
        if not found.newest.keys().isdisjoint(names)
    }
    items = dict(zip(newest, timeline_items(connection, newest.values()), strict=True))
    return [
        Happened(
            subject,
            [_part(name, found, words) for name, words in _SUBJECTS[subject].items() if name in found.counts],
            item,
        )
        for subject, item in items.items()
    ]


def _part(name: str, found: RecentEvents, words: tuple[str, str]) -> Part:
    count = found.counts[name]
    may_be_more = found.is_partial or count >= MOST_COUNTED
    number = f"{count:,}{'+' if may_be_more else ''}"
    return Part(f"{number} {words[may_be_more or count != 1]}", timeline_since(found.since, name=name))


def timeline_since(since: datetime, **filters: str) -> str:
    """Return the address of the timeline's events since a moment."""
    moment = since.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds")
    return f"/timeline?{urlencode({**filters, 'since': moment}, safe=':')}"
