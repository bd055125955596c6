"""Messages of errors as sentences: those of REST and the command line begin with a small letter."""

from __future__ import annotations


def as_sentence(message: str, *names: str) -> str:
    """Return a message with a capital letter and a full stop; names, such as those given, begin as they are."""
    first = message.partition(" ")[0]
    is_word = first.isalpha() and first not in names
    begun = message[:1].upper() + message[1:] if is_word else message
    return begun if begun.endswith((".", "!", "?")) else f"{begun}."
