"""The form that deletes a stream: its preview asks the clusters for records, as the REST API does.

If records would be deleted, or a cluster could not be checked, the stream's full name must be typed to confirm.
"""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from backend.changes import streams as changes
from backend.domain.access.access import Action
from backend.domain.base.errors import FieldError, StateConflict
from backend.domain.names.names import StreamName
from backend.kafka.copy.records import TopicPlace, clusters_with_records
from backend.queries.tenants.streams import StreamRow, find_stream
from backend.web.forms.change_request import ChangeRequest
from backend.web.forms.effect import Effect, NameOn, listed
from backend.web.forms.form_page import FormPage, answer_form, show_form, version_seen
from backend.web.forms.same_change import SameChange, api_path, curl
from backend.web.frame.forms import Fields, Form
from backend.web.frame.pages import PageRoute, enter
from backend.web.frame.services import Shared, Viewer
from backend.web.tenants.stream_forms import existing_stream, trail_of
from backend.web.tenants.stream_page import STREAM, Named
from backend.web.words.figures import counted

_HELD = "has records, or could not be checked"

router = APIRouter(include_in_schema=False, route_class=PageRoute)


@dataclass(frozen=True)
class Deleting:
    """Act of this form."""

    row: StreamRow
    timeout_seconds: float
    """Seconds for each cluster to answer whether there are records."""

    @property
    def _name(self) -> StreamName:
        return StreamName(*self._place)

    @property
    def _place(self) -> tuple[str, str, str, str]:
        return self.row.tenant, self.row.instance, self.row.environment, self.row.name

    def preview(self, change_request: ChangeRequest, given: Fields) -> Effect:
        """Preview the deletion by a dry run, and by asking the clusters for records."""
        row, name = self.row, str(self._name)
        # First the check that takes no time: somebody else may have been faster.
        rehearsed = changes.delete_stream(self._name, confirm=name, match=version_seen(given))
        change_request.dry_run(rehearsed, lambda connection, outcome: None)
        places, held = self._look(change_request)
        confirmation = f" --confirm {name}" if held else ""
        path = f"{api_path(self._place)}?confirm={name}" if held else api_path(self._place)
        topics = [
            NameOn(place.cluster, place.topic, "", _HELD if place.cluster in held else None)
            for place in places
            if place.recorded or place.cluster in held
        ]
        records = f"with all records on {listed(held)}" if held else "and have no records"
        about = "It has no topics yet"
        if topics:
            about = f"Its topics on {counted(len(topics), 'cluster')} are deleted, {records}"
        return Effect(
            sentence=f"{name} will be deleted. {about}; this cannot be undone.",
            same=SameChange(
                None, f"treeline delete stream {name}{confirmation}", curl("DELETE", path, version=row.version)
            ),
            names=tuple(topics),
            confirm=name if held else "",
        )

    def carry_out(self, change_request: ChangeRequest, given: Fields, once: str) -> Response:
        """Delete the stream. Without confirmation the clusters are asked again: new records may have arrived."""
        confirm, name = given.get("confirm", "").strip() or None, self._name
        held = () if confirm else self._look(change_request)[1]
        if held:
            detail = (
                f"{name} has, or may have, records on {listed(held)}; all of them would be deleted. "
                "Check the preview, and type the stream's full name to confirm"
            )
            raise StateConflict(detail, (FieldError("/confirm", detail),))
        change_request.carry_out_once(
            changes.delete_stream(name, confirm=confirm, match=version_seen(given)), once, given
        )
        return RedirectResponse("/tenants/" + "/".join(self._place[:3]), 303)

    def _look(self, change_request: ChangeRequest) -> tuple[list[TopicPlace], tuple[str, ...]]:
        """Return where its topics may be, and clusters that have records or could not be checked."""
        with change_request.services.reading() as connection:
            places = changes.topic_locations(connection, find_stream(connection, self._name))
        return places, clusters_with_records(places, self.timeout_seconds)


def _page(services: Shared, name: StreamName) -> FormPage:
    row = existing_stream(services, name)
    above = f"/tenants/{name.tenant}/{name.instance}/{name.environment}"
    here = f"{above}/{name.stream}"
    return FormPage(
        template="stream_delete.html",
        address=f"{here}/-delete",
        heading=f"Delete {row.name}",
        trail=[*trail_of(name.tenant, name.instance, name.environment), (row.name, here)],
        verb="Delete stream and its records",
        act=Deleting(row, services.config.probe_timeout_seconds),
        usual=lambda connection: {"version": str(find_stream(connection, name).version)},
        choices={"stream": row},
    )


@router.get(STREAM + "/-delete")
def delete_form(name: Named, request: Request, services: Shared, viewer: Viewer) -> Response:
    """Show the form that deletes a stream."""
    caller = enter(viewer, Action.MANAGE_TENANT, name.tenant)
    return show_form(request, services, caller, _page(services, name))


@router.post(STREAM + "/-delete")
def delete_stream(name: Named, request: Request, services: Shared, viewer: Viewer, fields: Form) -> Response:
    """Preview the deletion of a stream, or delete it."""
    caller = enter(viewer, Action.MANAGE_TENANT, name.tenant)
    return answer_form(request, services, caller, _page(services, name), fields)
