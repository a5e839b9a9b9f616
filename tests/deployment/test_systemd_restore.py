"""Restoring over a link that drops: what is repeated, what is said, and what does not spoil a host that was put back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.deployment.host import CommandOutput
from autotune.deployment.systemd import SystemdDeployment
from autotune.deployment.unit_record import UnitRecord, save_record
from autotune.errors import ConnectionLostError, LeaseLostError, RestoreError
from autotune.servers.base import LaunchSpec
from autotune.settings import DeploymentSettings
from tests.deployment.scripted_host import ScriptedHost
from tests.fake_clock import FakeClock
from tests.records import make_settings

NAME = "llm.service"
RECORD = UnitRecord("gpu1", "boot", NAME, "/s", "t", was_up=True, made_folder=True, baselines=("i1",), drop_in="ours")


class Failing:
    """A step of restoring that meets these errors, one a call, and then succeeds."""

    def __init__(self, *errors: Exception, then: Callable[[], None] = lambda: None) -> None:
        self.errors = list(errors)
        self.calls = 0
        self._then = then

    def __call__(self, *_: object) -> None:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        self._then()


def lost() -> ConnectionLostError:
    return ConnectionLostError("10.0.0.2:22 did not answer within 10 s", where="gpu1")


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SystemdDeployment:
    """Return a deployment that has changed its host and has to put it back; nothing else is there."""
    deployment = SystemdDeployment(
        ScriptedHost(lambda _command, _stdin: CommandOutput(0, b"", b"")),
        settings=make_settings(name="kimi", deployment=DeploymentSettings(kind="systemd", unit=NAME, lease_s=60)),
        baseline=LaunchSpec((), {}, ()),
        tuned_flags={},
        folder=tmp_path,
        clock=FakeClock(),
    )
    save_record(tmp_path / "host.json", RECORD)
    monkeypatch.setattr(deployment, "_record", replace(RECORD, is_stopped=True))
    monkeypatch.setattr(deployment, "_tell_changes", lambda: None)
    return deployment


def put_back(deployment: SystemdDeployment) -> Callable[[], None]:
    def forget() -> None:
        assert deployment._record is not None
        deployment._record = replace(deployment._record, drop_in="")

    return forget


def test_a_link_that_drops_while_a_lost_lease_is_looked_into_is_waited_for(
    deployment: SystemdDeployment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    def lose_lease() -> None:
        raise LeaseLostError("the lease is not ours any more")

    learn = Failing(lost(), lost(), then=put_back(deployment))
    monkeypatch.setattr(deployment, "_put_back", lose_lease)
    monkeypatch.setattr(deployment, "_take_again", lambda: False)
    monkeypatch.setattr(deployment, "_learn_from_host", learn)

    deployment.restore()

    assert learn.calls == 3
    assert not (tmp_path / "host.json").exists()


def test_a_link_that_drops_while_the_restored_server_loads_is_waited_for(
    deployment: SystemdDeployment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(deployment, "_put_back", put_back(deployment))
    check = Failing(lost(), lost(), lost())

    deployment.restore(check)

    assert check.calls == 4
    assert not (tmp_path / "host.json").exists()


def test_a_host_that_stays_away_after_it_was_put_back_is_not_called_unrestored(
    deployment: SystemdDeployment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(deployment, "_put_back", put_back(deployment))

    with pytest.raises(RestoreError, match=r"llm\.service was put back, but nobody could see whether it serves"):
        deployment.restore(Failing(*(lost() for _ in range(100))))

    assert (tmp_path / "host.json").exists(), "the next command looks whether it serves"


def test_a_link_that_drops_at_the_last_look_leaves_nothing_to_restore(
    deployment: SystemdDeployment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(deployment, "_put_back", put_back(deployment))
    monkeypatch.setattr(deployment, "_tell_changes", Failing(lost()))

    deployment.restore()

    assert not (tmp_path / "host.json").exists()
    assert any("did not answer" in finding for finding in deployment.findings)


def test_a_host_that_stays_away_says_when_it_puts_itself_back(
    deployment: SystemdDeployment, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(type(deployment._lease), "left_s", 3.0)
    monkeypatch.setattr(deployment, "_put_back", Failing(lost()))

    with pytest.raises(RestoreError, match=r"it puts llm\.service back by itself at"):
        deployment.restore()
