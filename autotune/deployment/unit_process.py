"""What does the kernel of a host say about the processes of a service? ``/proc`` has the last word on what runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from autotune.deployment.host import Host
from autotune.deployment.unit import ProcessFacts
from autotune.errors import HostError, PermissionDenied

GONE: Final = (b"No such file or directory", b"No such process", b"No such device")
"""How what a command says about a file ends when there is none, or its process has ended meanwhile."""

_CLOCK_TICKS_PER_S: Final = 100


def read_process(host: Host, pid: int) -> ProcessFacts | None:
    """Ask the kernel about one process; ``None`` when there is none, or only its exit code is left.

    Raises:
        HostError: the kernel does not say.
    """
    stat = _read_proc(host, f"/proc/{pid}/stat", "/proc/stat")
    command = _read_proc(host, f"/proc/{pid}/cmdline")
    cgroup = _read_proc(host, f"/proc/{pid}/cgroup")
    if not stat or not command or cgroup is None:
        return None
    try:
        environ = _read_proc(host, f"/proc/{pid}/environ")
    except PermissionDenied:
        environ = None
    ticks = int(stat.rpartition(") ")[2].split()[19])
    booted_at = int(stat.partition("\nbtime ")[2].split()[0])
    return ProcessFacts(
        command=tuple(command.removesuffix("\0").split("\0")),
        environment=None if environ is None else split_assignments(environ.split("\0")),
        started_at=booted_at + ticks / _CLOCK_TICKS_PER_S,
        cgroup=_own_cgroup(cgroup),
    )


def list_cgroup_pids(host: Host, control_group: str) -> tuple[int, ...]:
    """Return every process of a control group and of those below it; empty when the group is gone.

    Args:
        host: the machine.
        control_group: as ``systemctl show`` names it, for example ``/system.slice/x.service``.

    Raises:
        HostError: it cannot be read.
    """
    if not control_group.strip("/"):
        return ()  # the root group would be the whole machine
    roots = [f"/sys/fs/cgroup{mount}{control_group}" for mount in ("", "/unified", "/systemd")]
    output = host.run(["find", *roots, "-name", "cgroup.procs", "-exec", "cat", "{}", "+"], is_idempotent=True)
    for line in output.stderr.splitlines():
        if not line.rstrip().endswith((*GONE, b"Operation not supported")):
            raise HostError(f"cannot list the processes of {control_group}: {output.complaint}", where=host.name)
    return tuple(sorted({int(word) for word in output.text.split()} - {0}))


def split_assignments(items: Sequence[str]) -> dict[str, str]:
    """Take ``NAME=value`` texts apart; what has no equals sign is left out, and the last of a name counts."""
    return {name: value for name, separator, value in (item.partition("=") for item in items) if separator}


def _read_proc(host: Host, *paths: str) -> str | None:
    """Read files of the kernel; ``None`` when the process is gone."""
    command = ("cat", "--", *paths)
    output = host.run(command, is_idempotent=True)
    if output.exit_code != 0 and not output.stderr.rstrip().endswith(GONE):
        output = host.run_as_root(command, is_idempotent=True)
    if output.exit_code == 0:
        return output.stdout.decode("utf-8", errors="backslashreplace")
    if output.stderr.rstrip().endswith(GONE):
        return None
    raise HostError(f"cannot read {paths[0]}: {output.complaint}", where=host.name)


def _own_cgroup(text: str) -> str:
    """Return where systemd has put the process: version 2 if it is in use, else the named hierarchy."""
    paths = {kind: path for _, kind, path in (line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2)}
    unified = paths.get("", "/")
    return unified if unified != "/" else paths.get("name=systemd", unified)
