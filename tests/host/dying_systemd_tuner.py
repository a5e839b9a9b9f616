"""A tuner that stops, starts and restores a service and is killed before one of the commands that change its host.

Arguments: a container's first process, the folder of the study, the length of the lease in seconds, how many changing
commands run before the end (a large number: all), and the last step: ``trial`` (then it waits) or ``restore``.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from autotune.deployment.host import CommandOutput
from autotune.servers.base import load_hook
from tests.host.container import Container
from tests.host.inside_host import InsideHost
from tests.host.systemd_study import BASELINE_LAUNCH, TRIAL, open_systemd


@dataclass
class Entrance:
    """All that is needed of a container to enter it."""

    init_pid: int
    name: str = "gpu1"


class DeadlyHost(InsideHost):
    """Kills its process before the nth fenced command, of those that name something."""

    def __init__(self, container: Container, limit: int, named: str) -> None:
        super().__init__(container)
        self.limit = limit
        self.named = named
        self.changes = 0

    def run(
        self, command: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, is_idempotent: bool = False
    ) -> CommandOutput:
        if "fence" in command[:4] and "restart" not in command and self.named in " ".join(command):
            if self.changes == self.limit:
                os.kill(os.getpid(), signal.SIGKILL)
            self.changes += 1
        return super().run(command, stdin=stdin, timeout_s=timeout_s, is_idempotent=is_idempotent)


def main() -> None:
    init_pid, folder, lease_s, limit, last = sys.argv[1:]
    named = "draft-hook" if limit.startswith("hook:") else ""
    host = DeadlyHost(cast("Container", Entrance(int(init_pid))), int(limit.removeprefix("hook:")), named)
    with open_systemd(host, Path(folder), lease_s=float(lease_s)) as deployment:
        launch = BASELINE_LAUNCH if last == "baseline" else TRIAL
        if last == "profile":
            launch = load_hook(TRIAL, deployment.find_draft_log(Path(folder) / "drafts.jsonl"), 4)
        deployment.stop()
        deployment.start(launch, Path(folder) / "boot.log")
        print("started", flush=True)
        if last in {"baseline", "profile", "trial"}:
            time.sleep(1000)
        deployment.restore()
    print(host.changes, flush=True)


if __name__ == "__main__":
    main()
