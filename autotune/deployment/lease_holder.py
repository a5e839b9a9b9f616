"""Who holds the lease of a service: what the file on the host says, whether that tuner lives, when its time is over."""

from __future__ import annotations

import getpass
import hashlib
import shlex
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from autotune.deployment.host import Host
from autotune.deployment.host_files import read_file
from autotune.deployment.host_record import read_machine
from autotune.deployment.process import Identity, identify, read_command
from autotune.deployment.systemd_away import ask_systemd

_HOST_MARK = "host-"
_LONGEST_COMMAND = 200
_LONGEST_STEM = 200


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """What a lease says.

    Attributes:
        token: what the fence compares; begins with ``host-`` once the host itself has taken over.
        unit: the service.
        holder: user, machine, process and command, for people.
        study: folder of the study on the holder's machine.
        taken_at: when, in UTC.
        timer: unit of the host's timer.
        place: machine, start of the machine and process namespace that the process id belongs to.
        process: the tuner.
    """

    token: str
    unit: str
    holder: str
    study: str
    taken_at: str
    timer: str
    place: tuple[str, str, str]
    process: Identity

    @property
    def plain_token(self) -> str:
        """The token that the lease was taken with."""
        return self.token.removeprefix(_HOST_MARK)

    @property
    def is_gone(self) -> bool:
        """Whether the tuner ran on this very machine and does not live any more; False when that cannot be known."""
        machine, start, namespace = _find_place()
        if not machine or machine != self.place[0]:
            return False
        if start != self.place[1]:
            return True
        return namespace == self.place[2] and not self.process.is_alive()

    @property
    def is_this_process(self) -> bool:
        """Whether this very process has taken the lease, whatever its token says now."""
        return self.process == identify_self() and self.place == _find_place()


def find_timer(unit: str, token: str) -> str:
    """Return the name of the timer of a lease; the token keeps a new one apart from one that is just ending.

    A long name of a unit is cut, since systemd allows 255 characters, and told apart by a digest.

    >>> find_timer("llm@0.service", "5d0e7a41c0ffee")
    'autotune-llm:0-5d0e7a41.timer'
    """
    stem = unit.removesuffix(".service").replace("@", ":").replace("\\", "_")
    if len(stem) > _LONGEST_STEM:
        stem = f"{stem[:_LONGEST_STEM]}-{hashlib.sha256(unit.encode()).hexdigest()[:8]}"
    return f"autotune-{stem}-{token[:8]}.timer"


def render_holder(token: str, unit: str, study: str, lease_s: float, timer: str) -> bytes:
    """Render the lease of this process; the token is its first line."""
    process = identify_self()
    machine, start, namespace = _find_place()
    command = shlex.join(read_command(process.pid)[:1] + tuple(sys.argv))[:_LONGEST_COMMAND]
    lines = {
        "token": token,
        "unit": unit,
        "holder": f"{getpass.getuser()}@{socket.gethostname()}, process {process.pid} ({command})",
        "study": study,
        "taken_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lease_s": f"{lease_s:g}",
        "timer": timer,
        "machine": machine,
        "start": start,
        "namespace": namespace,
        "pid": str(process.pid),
        "ticks": str(process.start_ticks),
    }
    return "".join(f"{key}={' '.join(value.split())}\n" for key, value in lines.items()).encode(errors="replace")


def parse_holder(data: bytes) -> LeaseHolder:
    """Read a lease; what is missing is empty, so that a damaged one still names whom it can."""
    lines = parse_lines(data)

    def number(key: str) -> int:
        return int(lines[key]) if lines.get(key, "").isdecimal() else 0

    return LeaseHolder(
        token=lines.get("token", ""),
        unit=lines.get("unit", ""),
        holder=lines.get("holder", "unknown"),
        study=lines.get("study", ""),
        taken_at=lines.get("taken_at", "unknown"),
        timer=lines.get("timer", ""),
        place=(lines.get("machine", ""), lines.get("start", ""), lines.get("namespace", "")),
        process=Identity(number("pid"), number("ticks")),
    )


def parse_lines(data: bytes) -> Mapping[str, str]:
    r"""Read ``key=value`` lines, undecodable bytes replaced.

    >>> dict(parse_lines(b"a=1\nb=x=y\n\n"))
    {'a': '1', 'b': 'x=y'}
    """
    pairs = (line.partition("=") for line in data.decode("utf-8", errors="replace").splitlines())
    return {key: value for key, separator, value in pairs if separator}


def read_holder(host: Host, folder: str) -> LeaseHolder | None:
    """Return the lease in a unit's folder on its host, or ``None`` when there is none."""
    data = read_file(host, f"{folder}/lease")
    return None if data is None else parse_holder(data)


def read_remaining_s(host: Host, timer: str) -> float | None:
    """Return the seconds until a lease ends unless it is renewed; ``None`` when its timer does not run.

    Raises:
        HostError: systemd does not say; that is no lease that is over.
    """
    if not timer:
        return None
    path = "/org/freedesktop/systemd1/unit/" + "".join(
        char if char.isascii() and char.isalnum() else f"_{byte:02x}"
        for char in timer
        for byte in (char.encode()[:1] if char.isascii() else char.encode())
    )
    if _ask_state(host, timer) != "active":
        return None
    command = ("busctl", "get-property", "org.freedesktop.systemd1", path, "org.freedesktop.systemd1.Timer")
    elapse = ask_systemd(host, (*command, "NextElapseUSecMonotonic")).text.split()
    uptime = host.run(("cat", "/proc/uptime"), is_idempotent=True).text.split()
    try:
        return max(int(elapse[1]) / 1e6 - float(uptime[0]), 0.0)
    except (IndexError, ValueError):
        return None


def is_restoring(host: Host, timer: str) -> bool:
    """Whether the host is putting the baseline back right now.

    Raises:
        HostError: systemd does not say.
    """
    service = f"{timer.removesuffix('.timer')}.service"
    return bool(timer) and _ask_state(host, service) in {"activating", "active", "deactivating"}


def _ask_state(host: Host, unit: str) -> str:
    command = ("systemctl", "show", "--property=ActiveState", "--value", "--", unit)
    return host.expect(command, ask_systemd(host, command)).text.strip()


def identify_self() -> Identity:
    """Return the identity of this process."""
    pid = int(Path("/proc/self").readlink().name)
    identity = identify(pid)
    return Identity(pid, 0) if identity is None else identity


def _find_place() -> tuple[str, str, str]:
    """Return where process ids of this process mean something; an unknown machine is empty.

    Clones of one image often share its id, and seem to be one machine that was started anew; their names differ.
    """
    try:
        identity = Path("/etc/machine-id").read_text(encoding="ascii").strip()
        machine = f"{identity}/{socket.gethostname()}" if identity else ""
    except (OSError, UnicodeDecodeError):
        machine = ""
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = ""
    return machine, read_machine(), namespace
