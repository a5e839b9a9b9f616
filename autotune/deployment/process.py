"""What is known about processes on this machine, read from ``/proc``: who they are, what runs them, who listens."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

_LISTEN = "0A"


@dataclass(frozen=True, slots=True)
class Identity:
    """One process, told apart from a later one that got the same id.

    Attributes:
        pid: process id.
        start_ticks: when it started, in clock ticks since the machine booted.
    """

    pid: int
    start_ticks: int

    def is_alive(self) -> bool:
        """True while the very same process runs; an ended process that nobody collected counts as gone."""
        stat = _read_stat(self.pid)
        return stat is not None and stat.start_ticks == self.start_ticks and stat.state not in ("Z", "X")

    def send(self, number: int) -> None:
        """Send a signal if the very same process still runs."""
        if self.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


@dataclass(frozen=True, slots=True)
class Listener:
    """A socket that accepts connections on a port.

    Attributes:
        pid: the process that holds it; ``None`` when it belongs to somebody whose processes we may not look into.
        user: numeric id of the user who made it.
    """

    pid: int | None
    user: int


@dataclass(frozen=True, slots=True)
class _Stat:
    state: str
    parent: int
    start_ticks: int


def identify(pid: int) -> Identity | None:
    """Return the identity of a living process, or ``None`` when there is none with this id."""
    stat = _read_stat(pid)
    return None if stat is None or stat.state in ("Z", "X") else Identity(pid, stat.start_ticks)


def read_command(pid: int) -> tuple[str, ...]:
    """Return the argument vector; empty when the process is gone or may not be looked at."""
    try:
        data = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ()
    return tuple(os.fsdecode(part) for part in data.removesuffix(b"\0").split(b"\0")) if data else ()


def read_environment(pid: int) -> dict[str, str] | None:
    """Return the variables a process was started with, or ``None`` when they may not be read."""
    try:
        data = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    pairs = (os.fsdecode(part).partition("=") for part in data.split(b"\0") if b"=" in part)
    return {name: value for name, _, value in pairs}


def read_parent(pid: int) -> int | None:
    """Return the id of the parent, or ``None`` when the process is gone."""
    stat = _read_stat(pid)
    return None if stat is None else stat.parent


def shares_network(pid: int) -> bool:
    """Whether a process has our ports: one in a container may have a network of its own. True when it may not be known."""
    try:
        return Path(f"/proc/{pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink()
    except OSError:
        return True


def read_umask(pid: int) -> int | None:
    """Return the file mode mask of a process, or ``None`` when it is unknown."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1], 8) for line in lines if line.startswith("Umask:")), None)


def read_file_of_descriptor(pid: int, descriptor: int) -> str | None:
    """Return the path of the regular file behind a descriptor, or ``None`` when it is something else."""
    try:
        path = Path(f"/proc/{pid}/fd/{descriptor}").readlink()
        return str(path) if path.is_file() else None
    except OSError:
        return None


def list_processes() -> list[int]:
    """Return the ids of all processes, oldest id first."""
    return sorted(int(entry) for entry in os.listdir("/proc") if entry.isdigit())  # noqa: PTH208  # names suffice


def find_tree(root: int) -> list[Identity]:
    """Return a process and all its living descendants, parents before children; empty when it is gone."""
    children: dict[int, list[int]] = {}
    for pid in list_processes():
        stat = _read_stat(pid)
        if stat is not None:
            children.setdefault(stat.parent, []).append(pid)
    order = [root]
    for pid in order:
        order += children.get(pid, [])
    return [identity for identity in map(identify, order) if identity is not None]


def find_ancestors(pid: int) -> list[int]:
    """Return a process and its ancestors, nearest first, without the first process of the machine."""
    chain: list[int] = []
    current: int | None = pid
    while current is not None and current > 1 and current not in chain:
        chain.append(current)
        current = read_parent(current)
    return chain


def find_listener(host: str, port: int) -> Listener | None:
    """Return who accepts connections on an address, or ``None`` when nobody does.

    Args:
        host: numeric IPv4 or IPv6 address, or a name; a socket on all addresses counts for each of them.
        port: TCP port.
    """
    wanted = _resolve(host)
    sockets = [
        (inode, user)
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for address, local_port, inode, user in _read_listening(table)
        if local_port == port and _collides(address, wanted)
    ]
    if not sockets:
        return None
    owners = _find_owners({inode for inode, _ in sockets})
    inode, user = next(((i, u) for i, u in sockets if i in owners), sockets[0])
    return Listener(owners.get(inode), user)


def _resolve(host: str) -> set[str]:
    """Return the numeric addresses of a host name."""
    try:
        return {str(item[4][0]) for item in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError:
        return {host}


def _collides(address: str, wanted: set[str]) -> bool:
    """True when a socket on ``address`` keeps one of the wanted addresses from being bound."""
    wildcards = {"0.0.0.0", "::"}  # noqa: S104
    plain = address.removeprefix("::ffff:")
    return plain in wildcards or plain in wanted or bool(wanted & wildcards)


def _read_listening(table: str) -> list[tuple[str, int, int, int]]:
    """Return address, port, inode and user of each listening socket of one table."""
    try:
        lines = Path(table).read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return []
    found = []
    for line in lines:
        fields = line.split()
        if len(fields) > 9 and fields[3] == _LISTEN:
            address, _, port = fields[1].partition(":")
            found.append((_decode_address(address), int(port, 16), int(fields[9]), int(fields[7])))
    return found


def _decode_address(text: str) -> str:
    """Turn the table's words of host byte order into a numeric address."""
    words = [int(text[start : start + 8], 16) for start in range(0, len(text), 8)]
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    return socket.inet_ntop(family, struct.pack(f"={len(words)}I", *words))


def _find_owners(inodes: set[int]) -> dict[int, int]:
    """Return the process that holds each socket, as far as we may look; the lowest id where several share it."""
    owners: dict[int, int] = {}
    links = {f"socket:[{inode}]": inode for inode in inodes}
    for pid in list_processes():
        try:
            entries = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208  # thousands of names, no use for objects
        except OSError:
            continue
        for entry in entries:
            with contextlib.suppress(OSError):
                inode = links.get(os.readlink(f"/proc/{pid}/fd/{entry}"))  # noqa: PTH115  # same
                if inode is not None:
                    owners.setdefault(inode, pid)
    return owners


def _read_stat(pid: int) -> _Stat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = text.rpartition(b")")[2].split()
    return _Stat(fields[0].decode(), int(fields[1]), int(fields[19]))
