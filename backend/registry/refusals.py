"""Errors of a registry, with the error codes of Confluent's API, which clients rely on.

The first three digits of a code are the HTTP status, except for temporary failures, which are 503. The codes are
those of Confluent's documentation (`Schema Registry API Reference`, errors) and of its clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_SHOWN_CHARACTERS = 200


class RegistryError(Exception):
    """An error response: HTTP status, error code, a message, and more fields if any."""

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
        """Return whether the same request may succeed later: the failure is not about its content."""
        return self.status == 503

    def body(self) -> dict[str, Any]:
        """Return the JSON object of the response."""
        return {"error_code": self.code, "message": self.message, **self.more}


def _named(subject: str) -> str:
    return f"'{subject[:_SHOWN_CHARACTERS]}'"


# --- unknown


def subject_unknown(subject: str) -> RegistryError:
    return RegistryError(40401, f"Subject {_named(subject)} not found.")


def version_unknown(version: int) -> RegistryError:
    return RegistryError(40402, f"Version {version} not found.")


SCHEMA_UNKNOWN = 40403


def schema_unknown(schema_id: int | None = None) -> RegistryError:
    return RegistryError(
        SCHEMA_UNKNOWN, "Schema not found" if schema_id is None else f"Schema {schema_id} not found"
    )


def subject_deleted_already(subject: str) -> RegistryError:
    return RegistryError(
        40404, f"Subject {_named(subject)} was soft deleted. Set permanent=true to delete permanently"
    )


def subject_not_deleted_first(subject: str) -> RegistryError:
    return RegistryError(
        40405, f"Subject {_named(subject)} was not deleted first before being permanently deleted"
    )


def version_deleted_already(subject: str, version: int) -> RegistryError:
    return RegistryError(
        40406,
        f"Subject {_named(subject)} Version {version} was soft deleted. Set permanent=true to delete permanently",
    )


def version_not_deleted_first(subject: str, version: int) -> RegistryError:
    return RegistryError(
        40407,
        f"Subject {_named(subject)} Version {version} was not deleted first before being permanently deleted",
    )


def no_level_of_its_own(subject: str) -> RegistryError:
    return RegistryError(40408, f"Subject {_named(subject)} does not have subject-level compatibility configured")


def no_mode_of_its_own(subject: str) -> RegistryError:
    return RegistryError(40409, f"Subject {_named(subject)} does not have subject-level mode configured")


# --- wrong content


INCOMPATIBLE = 409


def incompatible(subject: str, level: str, problems: Iterable[str]) -> RegistryError:
    listed = ", ".join([*problems, f"{{compatibility: '{level}'}}"])
    return RegistryError(
        INCOMPATIBLE,
        f'Schema being registered is incompatible with an earlier schema for subject "{subject}", '
        f"details: [{listed}]",
    )


SCHEMA_INVALID = 42201


def schema_invalid(why: str) -> RegistryError:
    return RegistryError(SCHEMA_INVALID, f"Invalid schema: {why}")


def version_invalid(version: str) -> RegistryError:
    return RegistryError(
        42202,
        f"The specified version '{version[:_SHOWN_CHARACTERS]}' is not a valid version id. Allowed values are "
        'between [1, 2^31-1] and the string "latest"',
    )


def level_invalid(why: str) -> RegistryError:
    return RegistryError(42203, why)


def mode_invalid(why: str) -> RegistryError:
    return RegistryError(42204, why)


def not_permitted(why: str) -> RegistryError:
    return RegistryError(42205, why)


def referred_to(subject: str, version: int) -> RegistryError:
    return RegistryError(42206, f"One or more references exist to version {version} of subject {_named(subject)}.")


def subject_invalid(subject: str, why: str) -> RegistryError:
    return RegistryError(42208, f"The specified subject {_named(subject)} is not a valid subject: {why}.")


def too_large(why: str) -> RegistryError:
    return RegistryError(42209, why)


def unprocessable(why: str) -> RegistryError:
    """Return the error for a body or parameter of the wrong shape."""
    return RegistryError(422, why)


def no_record_names(subject: str) -> RegistryError:
    return RegistryError(
        422,
        f"{_named(subject)} is not the subject of a stream of yours, and no environment of yours allows subjects "
        "by record name (record_name_subjects).",
    )


def kept_for_a_stream(subject: str) -> RegistryError:
    return RegistryError(
        42208,
        f"{_named(subject)} follows no stream on this cluster, and cannot be a subject by record name: on another "
        "cluster of the tree a stream's subjects have, or had, this name.",
    )


# --- not by this caller


def no_token() -> RegistryError:
    return RegistryError(
        401,
        "A token is required: Authorization: Bearer <token>, or basic authentication with the token as password",
        headers={"WWW-Authenticate": 'Bearer realm="treeline", Basic realm="treeline"'},
    )


def too_many_tokens(seconds: float) -> RegistryError:
    return RegistryError(
        429,
        "Too many invalid tokens from this address: wait a minute, and check the client's token",
        headers={"Retry-After": str(int(seconds))},
    )


NOT_ALLOWED = 40302


def not_allowed(why: str) -> RegistryError:
    return RegistryError(NOT_ALLOWED, why)


# --- not now, not here


def cluster_unknown(cluster: str) -> RegistryError:
    return RegistryError(404, f"Unknown cluster {cluster[:60]!r}")


_TRY_AGAIN: Mapping[str, Any] = {"status": 503, "headers": {"Retry-After": "2"}}
"""Status and headers of temporary failures: stock clients, proxies and load balancers retry after 503."""


def store_unfit(why: str) -> RegistryError:
    """Return the error for a write that fails until somebody changes the topic, the cluster or its permissions."""
    return RegistryError(50001, f"The schemas topic could not be used: {why}")


def store_failed(why: str) -> RegistryError:
    """Return the error for a request that the cluster or the database cannot serve now."""
    return RegistryError(50001, f"The schemas topic could not be used: {why}", **_TRY_AGAIN)


def timed_out(why: str) -> RegistryError:
    """Return the error for a request that was not done in time, mostly because others are before it."""
    return RegistryError(50002, why, **_TRY_AGAIN)


def not_checked(why: str) -> RegistryError:
    """Return the error for a request whose schema could not be checked, and that therefore gets no verdict."""
    return RegistryError(50002, f"The schema was not checked: {why}. Try again.", **_TRY_AGAIN)


def not_read_yet(cluster: str, why: str) -> RegistryError:
    """Return the error for a registry whose topic was not read to its end yet."""
    return RegistryError(
        50002,
        f"The schemas topic of {cluster} has not been read to its end yet: {why}. Try again.",
        **_TRY_AGAIN,
    )


def not_the_primary(cluster: str, primary: str, address: str) -> RegistryError:
    """Return the error for a write on another cluster than the primary."""
    return RegistryError(
        40301,
        f"{cluster} is not the primary of its tree: schemas are written on {primary}, at {address}",
        more={"primary_cluster": primary, "primary_registry": address},
    )
