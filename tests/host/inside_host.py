"""A test host as a tuner that runs on it sees it: commands enter its namespaces, so the cable does not matter."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.deployment.host import CommandOutput
from autotune.deployment.local_host import LocalHost
from tests.host.container import Container


class InsideHost(LocalHost):
    """Commands as root, inside a container."""

    def __init__(self, container: Container) -> None:
        self.name = container.name
        self._container = container

    def run(
        self, command: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, is_idempotent: bool = False
    ) -> CommandOutput:
        enter = ("nsenter", "--target", str(self._container.init_pid), "--all", "--wdns=/", "--")
        clean = ("env", "-i", "LC_ALL=C", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        return super().run([*enter, *clean, *command], stdin=stdin, timeout_s=timeout_s, is_idempotent=is_idempotent)
