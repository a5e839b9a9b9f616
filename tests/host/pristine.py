"""How a test host becomes again what it was when it had just booted, quicker than by booting."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.host.container import Container
from tests.host.written_files import WrittenFiles

_OURS: Final = ("/run/autotune", "/run/fake-gpu", "/run/stand-in-server")
_RUN_UNITS: Final = ("/run/systemd/system", "/run/systemd/system.control", "/run/systemd/transient")


class Pristine:
    """A host that has just booted, and what it has to look like again before the next test.

    Attributes:
        container: the host.
    """

    def __init__(self, container: Container) -> None:
        self.container = container
        container.shell("systemctl is-system-running --wait || true")
        self._files = WrittenFiles(container.disk)
        self._units = self._list_units()

    def put_back(self) -> None:
        """Undo whatever a test did: cable, power, units, files, processes, sudo rules, journal."""
        container = self.container
        container.link(is_up=True)
        if not container.is_running:
            container.boot()
        else:
            container.wait_for_port(22)
        foreign = sorted(self._list_units() - self._units)
        if foreign:
            container.run(["systemctl", "kill", "--kill-whom=all", "--signal=KILL", "--", *foreign], check=False)
            container.run(["systemctl", "stop", "--", *foreign], check=False)
        self._end_strays()
        self._files.put_back()
        for folder in _OURS:
            shutil.rmtree(container.inside(folder), ignore_errors=True)
        for folder in _RUN_UNITS:  # they stay: without /run/systemd/system nobody believes that systemd runs
            if (path := container.inside(folder)).is_dir():
                _empty(path)
        shutil.rmtree(container.root / "var/lib/autotune", ignore_errors=True)
        container.run(["systemctl", "daemon-reload"])
        container.run(["systemctl", "reset-failed"])
        container.run(["journalctl", "--quiet", "--rotate", "--vacuum-size=1"])

    def _list_units(self) -> set[str]:
        """Return the services, timers and scopes that systemd knows to be up, failed ones too."""
        text = self.container.shell(
            "systemctl list-units --all --plain --no-legend --type=service,timer,scope | awk '$3 != \"inactive\" { print $1 }'"
        )
        return {name for name in text.split() if not name.startswith(("session-", "user"))}

    def _end_strays(self) -> None:
        """Kill what left the control group of its unit, and users' sessions."""
        groups = self.container.inside("/sys/fs/cgroup")
        deadline = time.monotonic() + 5
        while pids := list(_list_strays(groups)):
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                raise RuntimeError(f"processes {pids} of {self.container.name} do not end")
            time.sleep(0.02)


def _list_strays(groups: Path) -> Iterator[int]:
    """Yield the processes, as this machine numbers them, in control groups that systemd did not make."""
    for folder in groups.iterdir():
        if folder.is_dir() and not folder.name.endswith((".slice", ".scope", ".mount", ".service")):
            yield from (int(pid) for pid in (folder / "cgroup.procs").read_text().split())


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
