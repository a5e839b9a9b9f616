"""The hook that logs drafts, on the host of a service: where it fits, put there, its log fetched, taken away again.

All of it lies in the folder of the lease, below ``/run``: the host's own restore removes it, and a reboot does.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from autotune.deployment.hook_fit import (
    SANDBOX_PROPERTIES,
    Sandbox,
    check_fit,
    find_environment_file,
    find_hook_folder,
    find_python_path,
    render_environment_file,
)
from autotune.deployment.host import Host
from autotune.deployment.host_files import make_folder, write_file
from autotune.deployment.lease import Lease
from autotune.deployment.systemd_away import ask_systemd
from autotune.deployment.unit import ProcessFacts, Unit
from autotune.draft_hook import FILE, KEPT_FREE_BYTES, LIMIT_BYTES, VARIABLES
from autotune.errors import HostError, MeasurementError, UnitUnsupportedError
from autotune.servers.base import DraftLogPlace, LaunchSpec

_LEAST_BYTES: Final = 16 * 2**20
"""A log that may not even grow so far is not begun."""
_CHUNK_BYTES: Final = 8 * 2**20
_CHUNK_TIMEOUT_S: Final = 120.0


def find_place(host: Host, unit: Unit, process: ProcessFacts | None) -> DraftLogPlace:
    """Return where a service can log its drafts; nothing is changed.

    Args:
        host: of the service.
        unit: the service.
        process: that runs it now, without the hook; ``None`` when none does.

    Raises:
        UnitUnsupportedError: it cannot; the message says why.
        HostError: the host does not say.
    """
    check_fit(unit, read_sandbox(host, unit.name))
    if host.run(("id", "-u", "--", unit.user), is_idempotent=True).exit_code != 0:
        raise UnitUnsupportedError(f"the host knows no user {unit.user}", where=unit.name)
    free_bytes = read_free_bytes(host)
    limit_bytes = min(LIMIT_BYTES, (free_bytes - KEPT_FREE_BYTES) // 2)
    if limit_bytes < _LEAST_BYTES:
        raise UnitUnsupportedError(f"only {free_bytes // 2**20} MiB are free below /run", where=host.name)
    folder = find_hook_folder(unit.name)
    return DraftLogPlace(f"{folder}/drafts.jsonl", folder, find_python_path(unit, process), limit_bytes)


def read_sandbox(host: Host, unit_name: str) -> Sandbox:
    """Ask systemd what a service sees of its host's files.

    Raises:
        HostError: it does not say.
    """
    options = [f"--property={name}" for name in SANDBOX_PROPERTIES]
    command = ("systemctl", "show", *options, "--", unit_name)
    output = host.expect(command, ask_systemd(host, command))
    return Sandbox(dict(line.partition("=")[::2] for line in output.text.splitlines()))


def read_free_bytes(host: Host) -> int:
    """Return how much room is left below ``/run``.

    Raises:
        HostError: the host does not say.
    """
    command = ("stat", "-f", "-c", "%a %S", "--", "/run")
    output = host.expect(command, host.run(command, is_idempotent=True))
    blocks, block_bytes = output.text.split()
    return int(blocks) * int(block_bytes)


class PlacedHook:
    """The hook of one service.

    Args:
        host: connected.
        lease: every change goes through it.
        unit_name: of the service.
    """

    def __init__(self, host: Host, lease: Lease, unit_name: str) -> None:
        self._host = host
        self._lease = lease
        self._unit_name = unit_name
        self._folder = find_hook_folder(unit_name)
        self._log_path = f"{self._folder}/drafts.jsonl"

    def place(self, launch: LaunchSpec, user: str) -> None:
        """Put the hook, its variables and an empty log there, before the service is started with it.

        The log is the one file that the service may write; the folder is root's, so that nothing can take its place.
        It is readable for the group of the user as whom the tuner reads.

        Args:
            launch: whose variables name the hook.
            user: as whom the service runs.

        Raises:
            LeaseLostError: nothing was written.
            HostError: it cannot be written.
        """
        run_as_root = self._lease.run_as_root
        variables = {name: launch.environment.get(name) or "" for name in VARIABLES}
        text = render_environment_file(variables, self._unit_name)
        group = self._host.run(("id", "-g"), is_idempotent=True).text.strip()
        make_folder(run_as_root, self._folder)
        write_file(run_as_root, f"{self._folder}/{FILE.name}", FILE.read_bytes())
        write_file(run_as_root, find_environment_file(self._unit_name), text.encode(), 0o600)
        owner = ("-o", user, "-g", group or "root", "-m", "0640")
        command = ("install", *owner, "--", "/dev/stdin", self._log_path)
        output = run_as_root(command, is_idempotent=True)
        if output.exit_code != 0:
            raise HostError(f"{shlex.join(command)} failed: {output.complaint}", where=self._host.name)

    def remove(self) -> None:
        """Take all of it away; what is not there is no error.

        Raises:
            LeaseLostError: nothing was removed.
            HostError: it is still there.
        """
        command = ("rm", "-r", "-f", "--", self._folder)
        self._host.expect(command, self._lease.run_as_root(command, is_idempotent=True))

    def fetch(self, path: Path, limit_bytes: int) -> None:
        """Append to a file of this machine what it lacks of the log.

        Args:
            path: holds the beginning of the log, or is not there yet.
            limit_bytes: the file grows no larger, whatever the service has written.

        Raises:
            MeasurementError: the log is not there, or cannot be read.
            SshError: as :meth:`Host.run`.
        """
        with path.open("ab") as file:
            while (start := file.tell()) < limit_bytes:
                count = min(_CHUNK_BYTES, limit_bytes - start)
                words = (f"if={self._log_path}", "bs=1M", f"skip={start}", f"count={count}", "status=none")
                command = ("dd", *words, "iflag=skip_bytes,count_bytes,fullblock")
                output = self._host.run(command, timeout_s=_CHUNK_TIMEOUT_S, is_idempotent=True)
                if output.exit_code != 0:
                    raise MeasurementError(
                        f"the log of drafts cannot be read: {output.complaint}",
                        where=f"{self._log_path} on {self._host.name}",
                        hint="see whether somebody has removed it, or restarted the host",
                    )
                file.write(output.stdout)
                if len(output.stdout) < count:
                    return
