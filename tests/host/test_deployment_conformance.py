"""What every deployment promises, checked on a systemd service of a real host."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from autotune.deployment.base import Occupant
from autotune.deployment.systemd import SystemdDeployment
from autotune.servers.base import LaunchSpec
from tests.conformance.test_deployment import (  # noqa: F401  # the suite, run here too
    Host,
    leave_nothing,
    test_a_failed_check_leaves_the_restore_to_the_next_tuner,
    test_a_foreign_server_is_never_stopped_nor_started_over,
    test_a_second_start_is_refused_while_a_server_runs,
    test_a_server_can_be_started_with_the_hook_and_its_log_is_brought_here,
    test_a_started_server_is_ours_and_lives_until_it_is_stopped,
    test_an_empty_host_is_seen_as_empty_and_stays_empty,
    test_one_configuration_follows_the_other,
    test_the_baseline_found_is_recognised_and_left_alone_when_nothing_changes,
    test_the_baseline_found_runs_again_after_other_configurations,
)
from tests.host.container import Container
from tests.host.inside_host import InsideHost
from tests.host.service import PORT, UNIT, start_stand_in
from tests.host.systemd_study import TUNED_FLAGS, study


class ServiceHost(Host):
    def __init__(self, container: Container, folder: Path) -> None:
        self.container = container
        self.folder = folder

    def deployment(self) -> SystemdDeployment:
        return SystemdDeployment(
            InsideHost(self.container),
            settings=study(),
            baseline=self.launch("--budget", "1"),
            tuned_flags=TUNED_FLAGS,
            folder=self.folder / "study",
        )

    def launch(self, *flags: str) -> LaunchSpec:
        arguments = tuple(flag.replace("--budget", "--speculative-ddtree-budget") for flag in flags)
        return LaunchSpec(("server", *arguments), {}, arguments)

    @contextlib.contextmanager
    def arrange(self, occupant: Occupant) -> Iterator[None]:
        if occupant is not Occupant.NOBODY:
            self.container.shell(f"systemctl stop {UNIT}")
        if occupant is Occupant.BASELINE:
            self.container.shell(f"systemctl start {UNIT}")
            self.wait_for_listener()
        elif occupant is Occupant.FOREIGN:
            self.container.shell(f"systemd-run --quiet --unit=stranger python3 -m http.server {PORT}")
            self.wait_for_listener()
        yield
        self.container.shell("systemctl stop stranger", check=False)

    def wait_for_listener(self) -> None:
        self.container.wait_for_port(PORT)

    def write(self, path: str, data: bytes) -> None:
        self.container.run(["sh", "-c", f"cat >{path}"], stdin=data)

    def end_baseline(self) -> None:
        self.container.shell(f"systemctl stop {UNIT}", check=False)


@pytest.fixture
def host(host: Container, tmp_path: Path) -> Host:
    start_stand_in(host)
    host.shell(f"systemctl stop {UNIT}")
    return ServiceHost(host, tmp_path)
