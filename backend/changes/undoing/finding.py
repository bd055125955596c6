"""Find the command that undoes an event, or the reason why there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from backend.changes.undoing import of_estate, of_tenants
from backend.changes.undoing.undo import CannotBeUndone, ConfirmationNeeded, Undo, UndoRequest
from backend.domain.access.access import Caller, refusal
from backend.domain.base.errors import FieldError
from backend.eventlog.recorded import StoredEvent

FINDERS = {**of_estate.FINDERS, **of_tenants.FINDERS}

_SECRET = "the old value is not stored. Set a new one"
_STAYS = "a new resource stays, as others may rely on it by now; an unused one does no harm"
_SWITCH = "clients have been notified. Abort the switch before it moves them, or reverse it afterwards"
_PLACEMENT = "replicas are moved in batches. Cancel the placement, or roll it back on its page"
REASONS = {
    "PasswordSet": _SECRET,
    "CredentialsIssued": _SECRET,
    "CredentialsRevoked": _SECRET,
    "TokenRevoked": _SECRET,
    "TenantCreated": _STAYS,
    "InstanceCreated": _STAYS,
    "EnvironmentCreated": _STAYS,
    "ClusterRemoved": "its number is never used again. Add the cluster again; it becomes another one",
    "ApplicationDeleted": "its password and its grants are gone. Declare it again",
    "GroupOffsetsReset": "groups may have read on since. Reset their offsets to where they should continue",
    "MessageProduced": "consumers may have read it. Produce a message that corrects it",
    "SwitchStarted": _SWITCH,
    "SwitchForced": _SWITCH,
    "ClientsMoved": _SWITCH,
    "SwitchCompleted": _SWITCH,
    "PlacementRunStarted": _PLACEMENT,
    "PlacementRequested": _PLACEMENT,
    "PlacementGiven": _PLACEMENT,
    "LossesAcknowledged": "the records are lost, acknowledged or not",
}
"""Reasons why events of people cannot be undone here, and what to do instead."""
_SEEN = "it records what Treeline observed or did by itself, and nothing that a user set"


def undoing(
    connection: Connection, event: StoredEvent, caller: Caller, confirm: str = "", *, only_tried: bool = False
) -> Undo:
    """Return the undo of an event; its change checks again under the append lock, so that later changes stay.

    `confirm` is the name that the user typed to confirm, required unless `only_tried`.

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
    """Return the undo of an event. `confirm` is the name that the user typed to confirm.

    Raises CannotBeUndone with what to do instead, StateConflict if the state was changed since, NotAllowed or
    NotFound if the caller may not undo it.
    """
    find = FINDERS.get(event.name)
    if find is None:
        raise CannotBeUndone(f"{event.name} cannot be undone: {REASONS.get(event.name, _SEEN)}.")
    undo = find(UndoRequest(connection, event, caller, confirm))
    refused = refusal(caller, undo.action, undo.tenant)
    if refused is not None:
        raise refused
    return undo
