"""The server that ran before we came: written down, ended without leftovers, run again as it was."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from autotune.deployment import detach
from autotune.deployment.guarded_process import DEATH_PATIENCE_S
from autotune.deployment.host_record import FoundServer
from autotune.deployment.process import (
    Identity,
    find_tree,
    identify,
    read_command,
    read_environment,
    read_file_of_descriptor,
    read_umask,
)
from autotune.errors import HostError, RestoreError

_LOOK_AGAIN_S = 0.05


def describe_found(pid: int, fallback_log: Path) -> FoundServer:
    """Read everything that is needed to run a server again.

    Args:
        pid: its process.
        fallback_log: file for its output when it does not write to a file now.

    Raises:
        HostError: something cannot be read, so it must not be stopped.
    """
    identity, environment = identify(pid), read_environment(pid)
    try:
        cwd = str(Path(f"/proc/{pid}/cwd").readlink())
    except OSError:
        cwd = ""
    if identity is None or environment is None or not Path(cwd).is_dir():
        raise HostError(
            f"process {pid} could not be run again later, because its environment or folder cannot be read",
            hint="run the tuner as the user who runs the server",
        )
    output = read_file_of_descriptor(pid, 1) or str(fallback_log)
    return FoundServer(
        identity=identity,
        command=read_command(pid),
        environment=environment,
        cwd=cwd,
        umask=read_umask(pid),
        output=output,
        errors=read_file_of_descriptor(pid, 2) or output,
    )


def end_found(pid: int, patience_s: float) -> None:
    """End a found server and all that descends from it: SIGTERM to it, patience, SIGKILL to what is left.

    Only its own descendants are touched, never its process group, to which a shell or a script may belong.

    Raises:
        HostError: a process survives SIGKILL.
    """
    tree = {identity.pid: identity for identity in find_tree(pid)}
    if pid not in tree:
        return
    tree[pid].send(signal.SIGTERM)
    deadline = time.monotonic() + patience_s
    is_swept = False
    while any(item.is_alive() for item in tree.values()):
        for known in tuple(tree):
            tree |= {item.pid: item for item in find_tree(known) if item.pid not in tree}
        alive = [item for item in tree.values() if item.is_alive()]
        if time.monotonic() > deadline:
            for item in alive:
                item.send(signal.SIGKILL)
        elif not tree[pid].is_alive() and not is_swept:
            is_swept = True
            for item in alive:
                item.send(signal.SIGTERM)
        if time.monotonic() > deadline + DEATH_PATIENCE_S:
            raise HostError(
                f"processes survive SIGKILL: {', '.join(str(item.pid) for item in alive)}",
                hint="look at them with ps; a stuck driver may need a reboot",
            )
        time.sleep(_LOOK_AGAIN_S)


def run_again(found: FoundServer) -> Identity:
    """Start a found server as it ran before, detached, so that it outlives this process.

    Raises:
        RestoreError: it cannot be started; the message says how to do it by hand.
    """
    request = {name: value for name, value in asdict(found).items() if name != "identity"}
    answer = subprocess.run(
        [sys.executable, "-I", "-S", detach.__file__],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=False,
    )
    word, _, rest = answer.stdout.strip().partition(" ")
    identity = identify(int(rest)) if word == "started" else None
    if identity is None:
        raise RestoreError(
            f"the server that was found cannot be started again: {rest or answer.stderr.strip()}",
            hint=say_by_hand(found),
        )
    return identity


def say_by_hand(found: FoundServer) -> str:
    """Say how to start a found server without this program; its variables are left out, secrets may be among them."""
    return f"by hand: in {found.cwd} run {shlex.join(found.command)} with the variables of host.json"
