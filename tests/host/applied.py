"""A finished study of the host's service, and the command line over it, for tests of apply and rollback."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any, Final

from click.testing import CliRunner, Result

from autotune.cli import main
from autotune.settings import StudySettings
from tests.host.container import Container
from tests.host.lab import Lab
from tests.host.service import PORT, UNIT
from tests.stored_study import sample_settings, write_study

DROP_IN: Final = f"/etc/systemd/system/{UNIT}.d/50-autotune.conf"
ARCHIVE: Final = f"/var/lib/autotune/{UNIT}"
HISTORY: Final = f"{ARCHIVE}/history.json"
RECOMMENDED: Final = ("--speculative-algorithm", "DDTREE", "--speculative-ddtree-budget", "8")
"""What trial 3, the recommended one, runs with."""

ON_HOST: Final = Path("/root/work")
"""Where a study lies on the host itself."""


def finished_study(
    folder: Path, lab: Lab, host: Container, user: str = "root", *, is_forwarded: bool = True, **server: Any
) -> Path:
    """Write the sample study as if it had tuned the host's service, and return the folder to work in.

    Args:
        folder: an empty one.
        lab: the network.
        host: where the service is.
        user: who connects to it.
        is_forwarded: from this process; False for a program that runs inside the lab.
        server: settings of the server instead of the usual ones.
    """
    where = {"host": host.alias(user), "ssh_config": str(lab.ssh_config(host, is_forwarded=is_forwarded))}
    _copy_study(host, _settings(where, server), folder)
    return folder


def finished_study_on_host(folder: Path, host: Container, **server: Any) -> None:
    """Write the same study onto the host, below :data:`ON_HOST`; its tuner is to run there."""
    _copy_study(host, _settings({}, server), folder)
    target = host.root / ON_HOST.relative_to("/")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target)


def run_autotune(folder: Path, *words: str) -> Result:
    """Run the command line in a folder, in this process; nobody can be asked."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        return CliRunner().invoke(main, list(words))
    finally:
        os.chdir(before)


def run_command(host: Container) -> list[str]:
    """Return the command line of the service's main process; empty when none runs."""
    line = f'pid=$(systemctl show -p MainPID --value {UNIT}); [ "$pid" = 0 ] || cat /proc/$pid/cmdline'
    return host.shell(line, check=False).split("\0")[:-1]


def active_state(host: Container) -> str:
    """Return how the service stands."""
    return host.shell(f"systemctl show -p ActiveState --value {UNIT}").strip()


def _copy_study(host: Container, settings: StudySettings, folder: Path) -> None:
    """Put a copy of the study into a folder; it is written once for all tests of a host, beside the host's disk."""
    digest = hashlib.sha256(settings.model_dump_json().encode()).hexdigest()
    written = host.folder / "studies" / digest / "sample"
    if not written.exists():
        write_study(written, settings)
    shutil.copytree(written, folder / "studies" / "sample")


def _settings(deployment: dict[str, Any], server: dict[str, Any]) -> StudySettings:
    settings = sample_settings().model_dump(mode="json", by_alias=True, exclude_unset=True)
    quick = {"port": PORT, "ready_timeout_s": 25.0, "stall_timeout_s": 20.0, "stop_timeout_s": 10.0}
    settings["server"] = {**quick, **server}
    settings["deployment"] = {"kind": "systemd", "unit": UNIT, "lease_s": 60.0, **deployment}
    return StudySettings.model_validate(settings)
