"""Units that go down with a service: found through others too, and only what ran and does not run is started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from autotune.deployment.dependants import STOPPED_BY, find_dependants, find_missing, start_dependants
from autotune.deployment.host import CommandOutput
from autotune.errors import HostError, SystemdError
from tests.deployment.scripted_host import ScriptedHost

UNITS: Mapping[str, Mapping[str, str]] = {
    "x.service": {"ActiveState": "active", "RequiredBy": "all.target off.service", "BoundBy": "router.service"},
    "router.service": {"ActiveState": "activating", "ConsistsOf": "probe.service x.service"},
    "probe.service": {"ActiveState": "active"},
    "off.service": {"ActiveState": "inactive", "PropagatesStopTo": "behind.service"},
    "behind.service": {"ActiveState": "active"},
    "all.target": {"ActiveState": "active"},
}


def systemd(units: Mapping[str, Mapping[str, str]]) -> ScriptedHost:
    def answer(command: Sequence[str], _stdin: bytes) -> CommandOutput:
        if command[1] != "show":
            return CommandOutput(0, b"", b"")
        names = command[command.index("--") + 1 :]
        keys = [word.removeprefix("--property=") for word in command if word.startswith("--property=")]
        blocks = ("\n".join(f"{key}={units[name].get(key, '')}" for key in ("Id", *keys)) for name in names)
        return CommandOutput(0, ("\n\n".join(blocks) + "\n").encode(), b"")

    return ScriptedHost(answer)


def started(host: ScriptedHost) -> list[tuple[str, ...]]:
    return [command[5:] for command in host.commands if command[1] == "start"]


def test_units_that_go_down_are_found_through_others_nearest_first():
    assert find_dependants(systemd(UNITS), "x.service") == (
        "all.target",
        "router.service",
        "behind.service",
        "probe.service",
    )


@pytest.mark.parametrize("key", STOPPED_BY)
def test_every_way_in_which_a_stop_spreads_counts(key: str):
    units = {"x.service": {"ActiveState": "active", key: "y.service"}, "y.service": {"ActiveState": "active"}}

    assert find_dependants(systemd(units), "x.service") == ("y.service",)


def test_only_what_does_not_run_is_started_and_a_target_without_all_that_it_wants():
    units = {**UNITS, "router.service": {"ActiveState": "failed"}, "all.target": {"ActiveState": "inactive"}}
    host = systemd(units)
    start_dependants(host, host.run_as_root, ("all.target", "router.service", "probe.service"), is_service_up=True)

    assert find_missing(host, ("router.service", "probe.service")) == ("router.service",)
    assert [(command[0], command[-1]) for command in started(host)] == [
        ("--", "router.service"),
        ("--", "all.target"),
    ]
    assert [command[4] for command in host.commands if command[1] == "start"] == [
        "--job-mode=replace",
        "--job-mode=ignore-dependencies",
    ]


def test_nothing_pulls_up_a_service_that_is_to_stay_down():
    host = systemd({"router.service": {"ActiveState": "inactive"}})
    start_dependants(host, host.run_as_root, ("router.service",), is_service_up=False)

    assert [command[4] for command in host.commands if command[1] == "start"] == ["--job-mode=ignore-dependencies"]


def test_without_dependants_nothing_is_asked():
    host = systemd({})
    start_dependants(host, host.run_as_root, (), is_service_up=True)

    assert find_missing(host, ()) == ()
    assert host.commands == []


def test_a_systemd_that_does_not_answer_is_an_error():
    with pytest.raises(SystemdError, match="does not say how x"):
        find_dependants(ScriptedHost(lambda *_: CommandOutput(0, b"", b"")), "x.service")
    with pytest.raises(HostError, match="failed: no bus"):
        find_dependants(ScriptedHost(lambda *_: CommandOutput(1, b"", b"no bus")), "x.service")
