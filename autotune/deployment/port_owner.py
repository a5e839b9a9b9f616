"""Who listens on a port of a host, and is it a process of the service? Asked of ``ss``, which tells control groups."""

from __future__ import annotations

import re
from dataclasses import dataclass

from autotune.deployment.host import Host
from autotune.errors import HostError

_WILDCARDS = frozenset({"0.0.0.0", "::", "*"})  # noqa: S104
_USER = re.compile(r'\("(?P<name>(?:[^"\\]|\\.)*)",pid=(?P<pid>\d+),')
_GROUP = re.compile(r"(?:^|\s)cgroup:(?P<path>\S+)")


@dataclass(frozen=True, slots=True)
class PortOwner:
    """A socket that accepts connections.

    Attributes:
        address: it is bound to.
        port: TCP port.
        pids: processes that hold it; empty when we may not know.
        control_group: that it was made in; ``None`` when unknown.
    """

    address: str
    port: int
    pids: tuple[int, ...]
    control_group: str | None

    def belongs_to(self, control_group: str, pids: tuple[int, ...]) -> bool:
        """Whether it is a socket of a service.

        Args:
            control_group: of the service; empty when none of its processes run.
            pids: processes in it.
        """
        if any(pid in pids for pid in self.pids):
            return True
        if self.pids or self.control_group is None or not control_group:
            return False
        return self.control_group == control_group or self.control_group.startswith(f"{control_group}/")


def find_port_owner(host: Host, address: str, port: int) -> PortOwner | None:
    """Return who accepts connections on an address of the host, or ``None`` when nobody does.

    Args:
        host: connected.
        address: that the server of the study listens on; a socket on all addresses counts for each.
        port: TCP port.

    Raises:
        HostError: the host has no ``ss``, or it fails.
    """
    command = ("ss", "--no-header", "--listening", "--tcp", "--numeric", "--processes")
    selector = f"sport = :{port}"
    output = host.run((*command, "--cgroup", selector), is_idempotent=True)
    if output.exit_code != 0:  # an ss that does not know control groups
        output = host.run((*command, selector), is_idempotent=True)
    if output.exit_code != 0:
        raise HostError(
            f"it cannot be seen who listens on port {port}: {output.complaint}",
            where=host.name,
            hint="install ss there (package iproute2)",
        )
    owners = [owner for owner in parse_owners(output.text) if owner.port == port and _collides(owner.address, address)]
    return next((owner for owner in owners if owner.pids or owner.control_group), owners[0] if owners else None)


def parse_owners(text: str) -> tuple[PortOwner, ...]:
    """Read what ``ss -Hltnp --cgroup`` prints.

    >>> parse_owners('LISTEN 0 5 127.0.0.1%lo:80 0.0.0.0:* users:(("a b",pid=7,fd=3)) cgroup:/system.slice/x.service')
    (PortOwner(address='127.0.0.1', port=80, pids=(7,), control_group='/system.slice/x.service'),)
    """
    owners = []
    for line in text.splitlines():
        fields = line.split(maxsplit=4)
        if len(fields) < 5 or fields[0] != "LISTEN":
            continue
        local, _, port = fields[3].rpartition(":")
        rest = fields[4]
        group = _GROUP.search(rest)
        path = None if group is None or group["path"].startswith("unreachable") else group["path"]
        owners.append(
            PortOwner(
                address=local.strip("[]").partition("%")[0].removeprefix("::ffff:"),
                port=int(port),
                pids=tuple(sorted({int(match["pid"]) for match in _USER.finditer(rest)})),
                control_group=path,
            )
        )
    return tuple(owners)


def _collides(bound: str, wanted: str) -> bool:
    """Whether a socket on one address keeps a server from another: a name is not resolved here and collides with all."""
    is_numeric = re.fullmatch(r"[0-9.]+|[0-9A-Fa-f:]+", wanted) is not None
    return bound in _WILDCARDS or wanted in _WILDCARDS or bound == wanted or not is_numeric
