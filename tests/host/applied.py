"""A finished study, the command line over it, and what a host looks like before and after: for tests of apply."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.host.container import Container
from tests.host.lab import Lab
from tests.host.service import PORT, UNIT
from tests.stored_study import sample_settings, write_study

DROP_IN: Final = f"/etc/systemd/system/{UNIT}.d/50-autotune.conf"
ARCHIVE: Final = f"/var/lib/autotune/{UNIT}"
RECOMMENDED: Final = ("--speculative-algorithm", "DDTREE", "--speculative-ddtree-budget", "8")

_LOOK: Final = """
import hashlib, json, os, sys
found = {}
for top in ("/etc/systemd/system", "/run/systemd/system", "/var/lib/autotune"):
    for folder, folders, files in os.walk(top):
        for name in [*folders, *files, "."]:
            path = os.path.normpath(os.path.join(folder, name))
            facts = os.lstat(path)
            content = open(path, "rb").read() if os.path.isfile(path) and not os.path.islink(path) else b""
            found[path] = [oct(facts.st_mode), facts.st_uid, facts.st_gid, hashlib.sha256(content).hexdigest()]
found.pop("/run/systemd/system", None)
print(json.dumps(found))
"""


def write_finished_study(folder: Path, destination: str | None, config: Path | None, **server: object) -> None:
    """Write the sample study, as if it had tuned the host's service; trial 3 is the recommended one, budget 8."""
    settings = sample_settings().model_dump(mode="json", by_alias=True, exclude_unset=True)
    settings["server"] = {
        "port": PORT,
        "ready_timeout_s": 20.0,
        "stall_timeout_s": 8.0,
        "stop_timeout_s": 10.0,
        **server,
    }
    settings["deployment"] = {"kind": "systemd", "unit": UNIT}
    if destination is not None:
        settings["deployment"] |= {"host": destination, "ssh_config": str(config)}
    write_study(folder / "studies" / "sample", type(sample_settings()).model_validate(settings))


def finished_study(folder: Path, lab: Lab, host: Container, user: str = "root", **server: object) -> Path:
    """Write the sample study for a user of the host, reached from this process, and return the folder to work in."""
    write_finished_study(folder, host.alias(user), lab.ssh_config(host, is_forwarded=True), **server)
    return folder


def autotune(folder: Path, *words: str, check: int | None = 0) -> subprocess.CompletedProcess[str]:
    """Run the command line in a folder to its end and compare its exit code; ``None`` for any."""
    done = subprocess.run(
        [sys.executable, "-m", "autotune", *words],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert check is None or done.returncode == check, f"exit code {done.returncode}:\n{done.stdout}{done.stderr}"
    return done


def environment(**more: str) -> dict[str, str]:
    """Return the variables with which this checkout is found from any folder."""
    return {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2]), **more}


def look(host: Container) -> Mapping[str, Sequence[object]]:
    """Return every unit file and everything of ours on the host, with mode, owner and a digest of its bytes."""
    found: dict[str, Sequence[object]] = json.loads(host.run(["/usr/bin/python3", "-c", _LOOK]).stdout)
    return found


def running_command(host: Container) -> list[str]:
    """Return the command line of the service's main process; empty when none runs."""
    line = f'pid=$(systemctl show -p MainPID --value {UNIT}); [ "$pid" = 0 ] || cat /proc/$pid/cmdline'
    return host.shell(line, check=False).split("\0")[:-1]


def active_state(host: Container) -> str:
    """Return how the service stands."""
    return host.shell(f"systemctl show -p ActiveState --value {UNIT}").strip()


def digest(data: bytes) -> str:
    """Return the digest as :func:`look` has it."""
    return hashlib.sha256(data).hexdigest()
