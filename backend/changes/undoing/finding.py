"""How an event is undone, or why it is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from backend.changes.undoing import of_estate, of_tenants
from backend.changes.undoing.undo import Asked, CannotBeUndone, ConfirmationNeeded, Undo
from backend.domain.access.access import Caller, refusal
from backend.domain.base.errors import FieldError
from backend.eventlog.recorded import StoredEvent

FINDERS = {**of_estate.FINDERS, **of_tenants.FINDERS}

_SECRET = "what was valid before is kept nowhere. Give a new one"
_STAYS = "what was made stays, as there may be others that count on it; nothing is in the way of what is not used"
_SWITCH = "clients have been told. Abort the switch before it moves them, or reverse it afterwards"
_PLACEMENT = "replicas are moved by rounds. Cancel the placement, or take it back on its page"
REASONS = {
    "PasswordSet": _SECRET,
    "CredentialsIssued": _SECRET,
    "CredentialsRevoked": _SECRET,
    "TokenRevoked": _SECRET,
    "TenantCreated": _STAYS,
    "InstanceCreated": _STAYS,
    "EnvironmentCreated": _STAYS,
    "ClusterRemoved": "its number is never used again. Add the cluster anew, as another one",
    "ApplicationDeleted": "its password and its grants are gone. Declare it anew",
    "GroupOffsetsReset": "groups may have read on since. Reset them to where they are to read on",
    "SwitchStarted": _SWITCH,
    "SwitchForced": _SWITCH,
    "ClientsMoved": _SWITCH,
    "SwitchCompleted": _SWITCH,
    "PlacementRunStarted": _PLACEMENT,
    "PlacementRequested": _PLACEMENT,
    "PlacementGiven": _PLACEMENT,
    "LossesAcknowledged": "what was acknowledged is lost, whoever knows of it",
}
"""Why what people do is not undone here, and what they do instead."""
_SEEN = "it says what Treeline has seen or done by itself, and nothing that anybody has set"


def undoing(
    connection: Connection, event: StoredEvent, caller: Caller, confirm: str = "", *, only_tried: bool = False
) -> Undo:
    """How to take an event back now; its change looks again under the append lock, so that what somebody changes
    meanwhile stays. `confirm`: what whoever asks has said in full, which is needed unless it is `only_tried`.

    Raises what `undo_of` does, and ConfirmationNeeded.
    """
    found = undo_of(connection, event, caller, confirm)
    if only_tried:
        confirm = found.confirm
    elif found.confirm and found.confirm != confirm:
        detail = f"this cannot be taken back: confirm it by the name in full, {found.confirm}"
        raise ConfirmationNeeded(detail, (FieldError("/confirm", detail),))

    def build(locked: Connection) -> Any:
        return undo_of(locked, event, caller, confirm).change.build(locked)

    return replace(found, change=replace(found.change, build=build))


def undo_of(connection: Connection, event: StoredEvent, caller: Caller, confirm: str = "") -> Undo:
    """How to take an event back now. `confirm`: what whoever asks has said in full.

    Raises CannotBeUndone with what to do instead, StateConflict if it was changed since, NotAllowed or NotFound if
    the caller may not do it.
    """
    find = FINDERS.get(event.name)
    if find is None:
        raise CannotBeUndone(f"{event.name} cannot be undone: {REASONS.get(event.name, _SEEN)}.")
    undo = find(Asked(connection, event, caller, confirm))
    refused = refusal(caller, undo.action, undo.tenant)
    if refused is not None:
        raise refused
    return undo
