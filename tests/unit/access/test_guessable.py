"""Common and guessable passwords are refused; the message does not contain them."""

from __future__ import annotations

import pytest

from backend.changes.password_strength import check_not_guessable
from backend.domain.base.errors import ValueInvalid


@pytest.mark.parametrize(
    "password",
    [
        "password1234",
        "Password123!",
        "P@ssw0rd2026",
        "administrator",
        "qwertyuiop12",
        "letmeinletmein",
        "iloveyou1234",
        "123456789012345",
        "ada.lovelace1ada.lovelace1",
        "treelinekafka",
    ],
)
def test_common_passwords_are_refused(password: str) -> None:
    with pytest.raises(ValueInvalid, match="easy to guess") as refused:
        check_not_guessable("ada.lovelace", password)
    assert password not in refused.value.detail
    assert [error.pointer for error in refused.value.errors] == ["/password"]


@pytest.mark.parametrize("password", ["correct horse battery staple", "x7#kQ!m2vL9p", "words of a sentence " * 9])
def test_others_are_not(password: str) -> None:
    check_not_guessable("ada", password)
