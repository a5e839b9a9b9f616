"""What every deployment promises, checked on the imaginary host and on this one."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

import pytest

from autotune.deployment.base import Deployment, Occupant
from autotune.deployment.found_server import end_found
from autotune.deployment.local import LocalDeployment
from autotune.errors import HostError, PortTakenError, RestoreError
from autotune.servers.base import LaunchSpec, load_hook
from tests.deployment.fake import FakeDeployment
from tests.deployment.processes import free_port, running, small_server, wait_for_port
from tests.fake_clock import FakeClock


class Host(ABC):
    """A host that a test can arrange."""

    @abstractmethod
    def deployment(self) -> Deployment: ...

    @abstractmethod
    def launch(self, *flags: str) -> LaunchSpec: ...

    @abstractmethod
    def arrange(self, occupant: Occupant) -> contextlib.AbstractContextManager[object]: ...

    @abstractmethod
    def wait_for_listener(self) -> None: ...

    def write(self, path: str, data: bytes) -> None:
        """Write into a file of the host, as its server would."""
        Path(path).write_bytes(data)

    @abstractmethod
    def end_baseline(self) -> None:
        """End the server that is the baseline, as its user would."""


class ImaginaryHost(Host):
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.found = Occupant.NOBODY

    def deployment(self) -> Deployment:
        self.last = FakeDeployment(self.clock, self.launch("--budget", "1"), found=self.found)
        return self.last

    def launch(self, *flags: str) -> LaunchSpec:
        return LaunchSpec(("server", *flags), {})

    @contextlib.contextmanager
    def arrange(self, occupant: Occupant) -> Iterator[None]:
        self.found = occupant
        yield

    def wait_for_listener(self) -> None:
        self.clock.sleep(1)

    def end_baseline(self) -> None:
        if self.last.occupant is Occupant.BASELINE:
            self.last.occupant = Occupant.NOBODY


class ThisHost(Host):
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()

    def deployment(self) -> LocalDeployment:
        return LocalDeployment(
            baseline=self.launch("--budget", "1"),
            host="127.0.0.1",
            port=self.port,
            folder=self.folder / "study",
            stop_timeout_s=5,
            orphan_patience_s=0.2,
        )

    def launch(self, *flags: str) -> LaunchSpec:
        return small_server(self.port, *flags)

    @contextlib.contextmanager
    def arrange(self, occupant: Occupant) -> Iterator[None]:
        if occupant is Occupant.NOBODY:
            yield
            return
        flags = ("--budget", "1") if occupant is Occupant.BASELINE else ("--budget", "99")
        with running(self.launch(*flags), self.folder, listens=self.port):
            yield

    def wait_for_listener(self) -> None:
        wait_for_port(self.port)

    def end_baseline(self) -> None:
        observation = self.deployment().observe()
        if observation.occupant is Occupant.BASELINE and observation.pid is not None:
            end_found(observation.pid, 5)


@pytest.fixture(params=["imaginary host", "this host"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    return ImaginaryHost() if request.param == "imaginary host" else ThisHost(tmp_path)


@pytest.fixture(autouse=True)
def leave_nothing(host: Host) -> Iterator[None]:
    """End what a test leaves running; detached servers outlive their deployment on purpose."""
    yield
    host.end_baseline()


def test_an_empty_host_is_seen_as_empty_and_stays_empty(host: Host):
    with host.deployment() as deployment:
        before = deployment.observe().occupant
        deployment.start(host.launch("--budget", "3"), Path("/dev/null"))
        deployment.restore()

        assert before is Occupant.NOBODY
        assert deployment.observe().occupant is Occupant.NOBODY


def test_a_started_server_is_ours_and_lives_until_it_is_stopped(host: Host, tmp_path: Path):
    launch = host.launch("--budget", "3")
    with host.deployment() as deployment:
        pid = deployment.start(launch, tmp_path / "boot.log")
        host.wait_for_listener()
        observation = deployment.observe()
        alive = deployment.poll()
        deployment.stop()

        assert (observation.occupant, observation.pid, observation.launch) == (Occupant.OURS, pid, launch)
        assert observation.is_listening
        assert alive is None
        assert deployment.observe().occupant is Occupant.NOBODY


def test_a_server_can_be_started_with_the_hook_and_its_log_is_brought_here(host: Host, tmp_path: Path):
    log = tmp_path / "drafts.jsonl"
    with host.deployment() as deployment:
        place = deployment.find_draft_log(log)
        hooked = load_hook(host.launch("--budget", "3"), place, 4)
        looked = deployment.observe().occupant
        deployment.start(hooked, tmp_path / "boot.log")
        host.wait_for_listener()
        started = deployment.observe()
        empty = deployment.fetch_draft_log(log)
        host.write(place.log_path, b"line\n")
        one = deployment.fetch_draft_log(log)
        host.write(place.log_path, b"line\nand line\n")
        two = deployment.fetch_draft_log(log)
        deployment.stop()

        assert looked is Occupant.NOBODY
        assert started.launch == hooked
        assert (empty, one, two) == (0, 5, 14)
        assert log.read_bytes() == b"line\nand line\n"


def test_a_second_start_is_refused_while_a_server_runs(host: Host, tmp_path: Path):
    with host.deployment() as deployment:
        deployment.start(host.launch(), tmp_path / "boot.log")

        with pytest.raises(HostError):
            deployment.start(host.launch(), tmp_path / "boot.log")


def test_one_configuration_follows_the_other(host: Host, tmp_path: Path):
    with host.deployment() as deployment:
        pids = []
        for budget in ("3", "4"):
            pids.append(deployment.start(host.launch("--budget", budget), tmp_path / "boot.log"))
            host.wait_for_listener()
            deployment.stop()

        assert len(set(pids)) == 2


def test_a_foreign_server_is_never_stopped_nor_started_over(host: Host, tmp_path: Path):
    with host.arrange(Occupant.FOREIGN):
        with host.deployment() as deployment:
            seen = deployment.observe()

            assert seen.occupant is Occupant.FOREIGN
            with pytest.raises(PortTakenError):
                deployment.stop()
            with pytest.raises(PortTakenError):
                deployment.start(host.launch(), tmp_path / "boot.log")
        with host.deployment() as deployment:
            assert deployment.observe().pid == seen.pid


def test_the_baseline_found_is_recognised_and_left_alone_when_nothing_changes(host: Host):
    with host.arrange(Occupant.BASELINE):
        with host.deployment() as deployment:
            seen = deployment.observe()
        with host.deployment() as deployment:
            after = deployment.observe()

        assert seen.occupant is Occupant.BASELINE
        assert seen.launch == host.launch("--budget", "1")
        assert after.pid == seen.pid


def test_the_baseline_found_runs_again_after_other_configurations(host: Host, tmp_path: Path):
    """Case 70: leave the host as it was."""
    checks: list[str] = []
    with host.arrange(Occupant.BASELINE):
        with host.deployment() as deployment:
            deployment.stop()
            during = deployment.observe().occupant
            deployment.start(host.launch("--budget", "3"), tmp_path / "boot.log")
            deployment.restore(lambda: checks.append("checked"))
            host.wait_for_listener()
            after = deployment.observe()
            deployment.restore(lambda: checks.append("checked again"))

        assert during is Occupant.NOBODY
        assert after.occupant is Occupant.BASELINE
        assert deployment.poll() is None
        assert checks == ["checked"]


def test_a_failed_check_leaves_the_restore_to_the_next_tuner(host: Host):
    def refuse() -> None:
        raise RestoreError("it does not serve")

    checks: list[str] = []
    with host.arrange(Occupant.BASELINE):
        deployment = host.deployment()
        with deployment:
            deployment.stop()
            with pytest.raises(RestoreError):
                deployment.restore(refuse)
        host.end_baseline()
        after = host.deployment() if isinstance(host, ThisHost) else deployment
        with after:
            after.restore(lambda: checks.append("checked"))
            host.wait_for_listener()

            assert after.observe().occupant is Occupant.BASELINE
        assert checks == ["checked"]
