"""Refuse passwords that are common, or that are soon found by who tries what people choose."""

from __future__ import annotations

from zxcvbn import zxcvbn

from backend.domain.base.errors import FieldError, ValueInvalid

LEAST_GUESSES = 1e8
"""Below it a password is among those that are tried first: lists of leaked ones, dates, rows of keys, names."""
_MOST_CHARACTERS = 72
"""What zxcvbn looks at; a password that begins so is no easier to guess."""


def check_not_guessable(user: str, password: str) -> None:
    """Raise ValueInvalid for a password that is easy to guess; the password itself stands in no message."""
    found = zxcvbn(password[:_MOST_CHARACTERS], user_inputs=[user, "treeline", "kafka"])
    if found["guesses"] >= LEAST_GUESSES:
        return
    common = any(part.get("dictionary_name") == "passwords" for part in found["sequence"])
    why = "is, or is made of, one that many people use" if common else "follows a pattern that is tried soon"
    detail = f"a password must not be easy to guess: this one {why}; take words that have nothing in common"
    raise ValueInvalid(detail, (FieldError("/password", detail),))
