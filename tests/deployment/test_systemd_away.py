"""A systemd that starts itself anew is asked again; what it then says counts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from autotune.deployment.host import CommandOutput
from autotune.deployment.lease_holder import read_remaining_s
from autotune.deployment.systemd_away import insist
from autotune.deployment.unit_reader import read_state
from autotune.errors import HostError
from tests.deployment.scripted_host import ScriptedHost

AWAY = CommandOutput(
    1, b"", b"Failed to get properties: Message recipient disconnected from message bus without replying\n"
)
STATE = (
    b"LoadState=loaded\nActiveState=active\nSubState=running\nResult=success\nNRestarts=0\nMainPID=7\n"
    b"ExecMainCode=0\nExecMainStatus=0\nInvocationID=i1\nControlGroup=/system.slice/llm.service\n"
)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waited: list[float] = []
    monkeypatch.setattr("autotune.deployment.systemd_away.time.sleep", waited.append)
    return waited


def answer_with(*answers: CommandOutput) -> ScriptedHost:
    """Return a host that gives these answers, the last one for ever."""
    left = list(answers)

    def answer(_command: Sequence[str], _stdin: bytes) -> CommandOutput:
        return left.pop(0) if len(left) > 1 else left[0]

    return ScriptedHost(answer)


def test_a_service_is_asked_for_again_while_systemd_is_away(pauses: list[float]):
    state = read_state(answer_with(AWAY, AWAY, CommandOutput(0, STATE, b"")), "llm.service")

    assert state.main_pid == 7
    assert len(pauses) == 2


def test_a_systemd_that_stays_away_is_an_error_after_some_seconds(pauses: list[float]):
    with pytest.raises(HostError, match="without replying"):
        read_state(answer_with(AWAY), "llm.service")

    assert 5 < sum(pauses) < 15


def test_any_other_failure_counts_at_once(pauses: list[float]):
    refused = CommandOutput(4, b"", b"Failed to stop x: Access denied\n")

    assert insist(lambda: refused) is refused
    assert pauses == []


def test_a_lease_of_which_nobody_says_how_it_stands_is_not_over(pauses: list[float]):
    with pytest.raises(HostError, match="without replying"):
        read_remaining_s(answer_with(AWAY), "autotune-llm-5d0e7a41.timer")

    assert pauses
