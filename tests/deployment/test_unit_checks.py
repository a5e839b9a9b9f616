"""Does a study ask where its service listens?"""

from __future__ import annotations

import pytest

from autotune.deployment.unit_checks import check_address
from autotune.errors import UserError


@pytest.mark.parametrize(
    ("words", "host"),
    [
        ("--host 0.0.0.0 --port 30000", "127.0.0.1"),
        ("--host :: --port=30000", "::1"),
        ("--host 127.0.0.1 --port 30000", "0.0.0.0"),
        ("--host localhost --port 30000", "127.0.0.1"),
        ("--host 10.0.0.1", "gpu1.example"),
        ("--port ${PORT}", "127.0.0.1"),
        ("", "127.0.0.1"),
    ],
)
def test_what_may_be_the_same_address_is_accepted(words: str, host: str):
    check_address(("srv", *words.split()), host, 30000, "x.service")


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("--host 0.0.0.0 --port 30001", "write port = 30001 into"),
        ("--port=30001", "write port = 30001 into"),
        ("--host 10.0.0.1 --port 30000", 'write host = "10.0.0.1" and port = 30000 into'),
    ],
)
def test_another_address_or_port_is_refused_before_a_server_is_stopped_for_it(words: str, advice: str):
    with pytest.raises(UserError, match=r"and the study asks 127\.0\.0\.1:30000") as caught:
        check_address(("srv", *words.split()), "127.0.0.1", 30000, "x.service")

    assert advice in str(caught.value.hint)
