"""What is opened is the service itself, whatever name of it was said."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from autotune.apply.opening import find_own_name
from autotune.deployment.host import CommandOutput
from tests.deployment.scripted_host import ScriptedHost


def answer(command: Sequence[str], _: bytes) -> CommandOutput:
    own = {"llm.service": "sglang-ddtree.service"}.get(command[-1], command[-1])
    return CommandOutput(0, f"{own}\n".encode(), b"")


@pytest.mark.parametrize("said", ["llm.service", "sglang-ddtree.service"])
def test_another_name_of_a_service_leads_to_the_history_of_its_own(said):
    assert find_own_name(ScriptedHost(answer), said) == "sglang-ddtree.service"
