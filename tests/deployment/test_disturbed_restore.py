"""Restoring after somebody else was at work on the host: the service is gone, the lease was edited, or nobody wants to wait."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.deployment.lease import find_folder
from autotune.deployment.leftovers import Interruptible
from autotune.deployment.systemd import SystemdDeployment
from autotune.deployment.systemd_unit import trial_drop_in_path
from autotune.deployment.unit_record import UnitRecord, load_record, save_record
from autotune.errors import HostBusyError, RestoreError
from autotune.servers.base import LaunchSpec
from autotune.settings import DeploymentSettings, ServerSettings
from tests.deployment.processes import free_port
from tests.deployment.small_systemd import SmallSystemd
from tests.fake_clock import FakeClock
from tests.records import make_settings

NAME = "llm.service"
DROP_IN = trial_drop_in_path(NAME)
LEASE = f"{find_folder(NAME)}/lease"
TRIAL = LaunchSpec((), {}, ("--budget", "8"))


def open_deployment(
    host: SmallSystemd,
    folder: Path,
    interruptible: Interruptible = contextlib.nullcontext,
    clock: FakeClock | None = None,
) -> SystemdDeployment:
    return SystemdDeployment(
        host,
        settings=make_settings(
            name="kimi",
            deployment=DeploymentSettings(kind="systemd", unit=NAME),
            server=ServerSettings(port=free_port()),
        ),
        baseline=LaunchSpec((), {}, ()),
        tuned_flags={},
        folder=folder,
        clock=clock or FakeClock(),
        interruptible=interruptible,
    )


@pytest.fixture
def host(tmp_path: Path) -> SmallSystemd:
    """A host on which a trial of a tuner that was cut off runs, and its record."""
    host = SmallSystemd(NAME, invocation="i5")
    host.files[DROP_IN] = b"ours\n"
    record = UnitRecord(
        host.name, "boot", NAME, str(tmp_path), "t", was_up=True, made_folder=True, baselines=("i1",), host_id="machine"
    )
    save_record(
        tmp_path / "host.json", replace(record, drop_in="ours\n", launch=TRIAL, invocation="i5", is_stopped=True)
    )
    return host


def remove_service(host: SmallSystemd) -> None:
    host.is_there = host.is_up = False


def interrupted() -> contextlib.AbstractContextManager[None]:
    raise KeyboardInterrupt


def test_a_trial_that_was_left_is_put_back(host: SmallSystemd, tmp_path: Path):
    with open_deployment(host, tmp_path) as opened:
        opened.restore()

    assert (host.is_up, host.invocation != "i5", DROP_IN in host.files, LEASE in host.files) == (
        True,
        True,
        False,
        False,
    )
    assert load_record(tmp_path / "host.json") is None


def test_what_is_left_of_a_service_that_somebody_has_removed_is_taken_away_once(host: SmallSystemd, tmp_path: Path):
    remove_service(host)

    with (
        pytest.raises(RestoreError, match=r"was removed by somebody: there is no unit llm\.service"),
        open_deployment(host, tmp_path),
    ):
        pass

    assert not [path for path in host.files if path == DROP_IN or path.startswith("/run/autotune")]
    assert load_record(tmp_path / "host.json") is None


def test_a_service_that_is_removed_during_the_night_leaves_no_record(host: SmallSystemd, tmp_path: Path):
    with open_deployment(host, tmp_path) as opened:
        remove_service(host)
        with pytest.raises(RestoreError, match="was removed by somebody"):
            opened.restore()

    assert not [path for path in host.files if path == DROP_IN or path.startswith("/run/autotune")]
    assert load_record(tmp_path / "host.json") is None


def test_a_changed_drop_in_of_a_service_that_is_gone_is_left_and_asked_about(host: SmallSystemd, tmp_path: Path):
    remove_service(host)
    host.files[DROP_IN] = b"theirs\n"

    with pytest.raises(RestoreError, match="changed by somebody else") as caught, open_deployment(host, tmp_path):
        pass

    assert "run autotune restore" in (caught.value.hint or "")
    assert host.files[DROP_IN] == b"theirs\n"
    assert load_record(tmp_path / "host.json") is not None


def test_a_lease_whose_token_was_edited_is_taken_anew(host: SmallSystemd, tmp_path: Path):
    with open_deployment(host, tmp_path) as opened:
        host.files[LEASE] = host.files[LEASE].replace(b"token=", b"token=x", 1)
        opened.restore()
        findings = opened.findings

    assert "our lease had been changed on the host" in findings[-1]
    assert (host.is_up, host.invocation != "i5", DROP_IN in host.files, LEASE in host.files) == (
        True,
        True,
        False,
        False,
    )
    assert load_record(tmp_path / "host.json") is None


@pytest.mark.parametrize("drop_in", [b"ours\n", b"edited\n", None])
def test_while_our_trial_is_in_place_nobody_has_put_the_service_back(
    host: SmallSystemd, tmp_path: Path, drop_in: bytes | None
):
    with open_deployment(host, tmp_path) as opened:
        host.files[LEASE] = b"token=somebody\nholder=somebody\n"
        if drop_in is None:
            del host.files[DROP_IN]
        else:
            host.files[DROP_IN] = drop_in
        with pytest.raises(RestoreError, match="the trial that we wrote is still in place: somebody holds it"):
            opened.restore()

    assert load_record(tmp_path / "host.json") is not None
    assert host.invocation == "i5"


def test_another_tuner_that_has_taken_over_has_put_the_service_back(host: SmallSystemd, tmp_path: Path):
    with open_deployment(host, tmp_path) as opened:
        host.files[LEASE] = b"token=somebody\nholder=somebody\n"
        host.files[DROP_IN] = b"its own trial\n"
        host.invocation = "i9"
        opened.restore()
        findings = opened.findings

    assert "another tuner has taken over" in findings[-1]
    assert (host.files[DROP_IN], host.invocation) == (b"its own trial\n", "i9")
    assert load_record(tmp_path / "host.json") is None


def test_a_signal_ends_the_wait_for_a_host_that_restores_itself_before_the_night(host: SmallSystemd, tmp_path: Path):
    host.files[LEASE] = b"token=host-other\nunit=llm.service\ntimer=autotune-llm-other.timer\n"
    host.restoring = "autotune-llm-other.service"
    clock = FakeClock()

    with pytest.raises(KeyboardInterrupt), open_deployment(host, tmp_path, interrupted, clock):
        pass
    assert clock.seconds == 0

    with pytest.raises(HostBusyError, match="for 900 s"), open_deployment(host, tmp_path, clock=clock):
        pass
    assert clock.seconds > 900


def test_a_signal_ends_the_wait_for_a_tuner_that_the_host_puts_back_at_once(host: SmallSystemd, tmp_path: Path):
    host.files[LEASE] = b"token=other\nunit=llm.service\ntimer=autotune-llm-other.timer\n"

    with pytest.raises(KeyboardInterrupt), open_deployment(host, tmp_path, interrupted):
        pass

    assert not [command for command in host.commands if "--wait" in command]


def test_a_signal_ends_the_wait_for_a_host_that_restores_itself_after_the_night(host: SmallSystemd, tmp_path: Path):
    clock = FakeClock()
    with open_deployment(host, tmp_path, interrupted, clock) as opened:
        host.files[LEASE] = host.files[LEASE].replace(b"token=", b"token=host-", 1)
        host.restoring = opened._lease.timer.replace(".timer", ".service")
        with pytest.raises(RestoreError, match="still putting the service back") as caught:
            opened.restore()

    assert clock.seconds == 0
    assert "autotune restore looks again" in (caught.value.hint or "")
    assert load_record(tmp_path / "host.json") is not None
