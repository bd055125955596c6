"""What a registry refuses, by the error codes of Confluent's API: clients know failures by them.

The first three digits of a code are the HTTP status, but for what passes by itself, which is 503. The codes are
those of Confluent's documentation (`Schema Registry API Reference`, errors) and of its clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_SHOWN_CHARACTERS = 200


class Refusal(Exception):
    """An answer that is not what was asked for: HTTP status, error code, a sentence, and more fields if any."""

    def __init__(
        self,
        code: int,
        message: str,
        *,
        more: Mapping[str, Any] | None = None,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status or int(str(code)[:3])
        self.more = dict(more or {})
        self.headers = dict(headers or {})

    @property
    def is_for_now(self) -> bool:
        """Whether the same request may be answered later: it says nothing of what was asked."""
        return self.status == 503

    def body(self) -> dict[str, Any]:
        """The JSON object that tells it."""
        return {"error_code": self.code, "message": self.message, **self.more}


def _named(subject: str) -> str:
    return f"'{subject[:_SHOWN_CHARACTERS]}'"


# --- unknown


def subject_unknown(subject: str) -> Refusal:
    return Refusal(40401, f"Subject {_named(subject)} not found.")


def version_unknown(version: int) -> Refusal:
    return Refusal(40402, f"Version {version} not found.")


SCHEMA_UNKNOWN = 40403


def schema_unknown(schema_id: int | None = None) -> Refusal:
    return Refusal(SCHEMA_UNKNOWN, "Schema not found" if schema_id is None else f"Schema {schema_id} not found")


def subject_deleted_already(subject: str) -> Refusal:
    return Refusal(40404, f"Subject {_named(subject)} was soft deleted. permanent=true deletes it for good.")


def subject_not_deleted_first(subject: str) -> Refusal:
    return Refusal(
        40405, f"Subject {_named(subject)} was not soft deleted before it was to be deleted permanently."
    )


def version_deleted_already(subject: str, version: int) -> Refusal:
    return Refusal(
        40406,
        f"Version {version} of subject {_named(subject)} was soft deleted. permanent=true deletes it for good.",
    )


def version_not_deleted_first(subject: str, version: int) -> Refusal:
    return Refusal(
        40407,
        f"Version {version} of subject {_named(subject)} was not soft deleted before it was to be deleted "
        "permanently.",
    )


def no_level_of_its_own(subject: str) -> Refusal:
    return Refusal(40408, f"Subject {_named(subject)} has no compatibility level of its own; defaultToGlobal=true")


def no_mode_of_its_own(subject: str) -> Refusal:
    return Refusal(40409, f"Subject {_named(subject)} has no mode of its own; defaultToGlobal=true")


# --- wrong content


INCOMPATIBLE = 409


def incompatible(subject: str, level: str, problems: Iterable[str]) -> Refusal:
    listed = ", ".join([*problems, f"{{compatibility: '{level}'}}"])
    return Refusal(
        INCOMPATIBLE,
        f'Schema being registered is incompatible with an earlier schema for subject "{subject}", '
        f"details: [{listed}]",
    )


SCHEMA_INVALID = 42201


def schema_invalid(why: str) -> Refusal:
    return Refusal(SCHEMA_INVALID, f"Invalid schema: {why}")


def version_invalid(version: str) -> Refusal:
    return Refusal(
        42202,
        f"'{version[:_SHOWN_CHARACTERS]}' is no version: a number from 1 to 2^31-1, or \"latest\".",
    )


def level_invalid(why: str) -> Refusal:
    return Refusal(42203, why)


def mode_invalid(why: str) -> Refusal:
    return Refusal(42204, why)


def not_permitted(why: str) -> Refusal:
    return Refusal(42205, why)


def referred_to(subject: str, version: int) -> Refusal:
    return Refusal(42206, f"One or more references exist to version {version} of subject {_named(subject)}.")


def subject_invalid(subject: str, why: str) -> Refusal:
    return Refusal(42208, f"{_named(subject)} is no subject: {why}.")


def too_large(why: str) -> Refusal:
    return Refusal(42209, why)


def not_as_it_should_be(why: str) -> Refusal:
    """A body or parameter of the wrong shape."""
    return Refusal(422, why)


def no_record_names(subject: str) -> Refusal:
    return Refusal(
        422,
        f"{_named(subject)} is the subject of no stream of yours, and no environment of yours allows subjects by "
        "record name (record_name_subjects).",
    )


def kept_for_a_stream(subject: str) -> Refusal:
    return Refusal(
        42208,
        f"{_named(subject)} follows no stream on this cluster, and cannot be a subject by record name: on another "
        "cluster of the tree subjects of a stream are, or were, called so.",
    )


# --- not by this caller


def no_token() -> Refusal:
    return Refusal(
        401,
        "A token is needed: Authorization: Bearer <token>, or basic authentication with it as password",
        headers={"WWW-Authenticate": 'Bearer realm="treeline", Basic realm="treeline"'},
    )


def too_many_tokens(seconds: float) -> Refusal:
    return Refusal(
        429,
        "Too many wrong tokens came from this address: wait a minute, and check the token that is sent",
        headers={"Retry-After": str(int(seconds))},
    )


NOT_ALLOWED = 40302


def not_allowed(why: str) -> Refusal:
    return Refusal(NOT_ALLOWED, why)


# --- not now, not here


def cluster_unknown(cluster: str) -> Refusal:
    return Refusal(404, f"There is no cluster {cluster[:60]!r}")


_TRY_AGAIN: Mapping[str, Any] = {"status": 503, "headers": {"Retry-After": "2"}}
"""Of what passes by itself: stock clients, proxies and load balancers try again after 503."""


def store_unfit(why: str) -> Refusal:
    """Return the refusal of a write that fails until somebody changes the topic, the cluster or its rights."""
    return Refusal(50001, f"The schemas topic could not be used: {why}")


def store_failed(why: str) -> Refusal:
    """Return the refusal of a request that the cluster or the database cannot serve now."""
    return Refusal(50001, f"The schemas topic could not be used: {why}", **_TRY_AGAIN)


def timed_out(why: str) -> Refusal:
    """Return the refusal of a request that was not done in time, mostly since others are before it."""
    return Refusal(50002, why, **_TRY_AGAIN)


def not_checked(why: str) -> Refusal:
    """Return the refusal of a request whose schema could not be checked, and that therefore gets no verdict."""
    return Refusal(50002, f"The schema was not checked: {why}. Try again.", **_TRY_AGAIN)


def not_read_yet(cluster: str, why: str) -> Refusal:
    """Nothing can be answered before the topic was read to its end once."""
    return Refusal(
        50002,
        f"The schemas topic of {cluster} was not read to its end yet: {why}. Try again.",
        **_TRY_AGAIN,
    )


def not_the_primary(cluster: str, primary: str, address: str) -> Refusal:
    """Schemas are written on one cluster of a tree only."""
    return Refusal(
        40301,
        f"{cluster} is not the primary of its tree: schemas are written on {primary}, at {address}",
        more={"primary_cluster": primary, "primary_registry": address},
    )
