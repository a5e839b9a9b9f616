"""Real remote hosts on this machine, for tests that need systemd, sshd and a network: the lab. Root only.

A test asks for the fixtures of ``tests/host/conftest.py``::

    def test_something(lab: Lab, host: Container) -> None:
        host.put("/etc/systemd/system/x.service", UNIT)      # a file on the host, quick
        host.shell("systemctl daemon-reload")                 # a command on the host, without a network
        host.ssh("sudo -n id", user="ubuntu")                 # the same as a user would, by OpenSSH
        lab.run(["ssh", "-F", lab.ssh_config(host), "gpu1", "true"])   # any program inside the lab's network
        config = lab.ssh_config(host, is_forwarded=True)      # for code in this process: through 127.0.0.1
        port = lab.forward(host.ip, 30000)                    # the same for any other port
        host.link(False); host.crash(); host.boot()           # pull the cable, cut the power, switch on

Without fixtures: ``with Lab() as lab: host = lab.host("gpu1", users=("ubuntu",), binds=list_environment())``.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.host.commands import run_command
from tests.host.container import Container, FileContent, end_control_groups, remove_control_groups
from tests.host.network import LabNetwork, Relay
from tests.host.root_disk import remove_disk

RECORDS: Final = Path("/run/autotune-labs")
CHECKOUT: Final = Path(__file__).resolve().parents[2]


def list_environment() -> tuple[Path, ...]:
    """Return what a host must see to run this checkout: itself, the virtual environment, its Python where it is special.

    A Python below ``/usr`` is there already, because the hosts share this machine's system.
    """
    wanted = [CHECKOUT, Path(sys.prefix), Path(sys.base_prefix)]
    return tuple(
        path
        for number, path in enumerate(wanted)
        if not path.is_relative_to("/usr") and not any(path.is_relative_to(other) for other in wanted[:number])
    )


class Lab:
    """A network with hosts on it; use as a context manager, or :meth:`close` it.

    Attributes:
        identifier: in the names of everything it makes.
        key: private key that every user of every host accepts.
    """

    def __init__(self) -> None:
        sweep()
        self.identifier = f"at{os.getpid()}x{secrets.token_hex(2)}"
        self.folder = Path(tempfile.mkdtemp(prefix=f"{self.identifier}-"))
        self.key = self.folder / "id_ed25519"
        run_command(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "tuner", "-f", self.key])
        self._hosts: list[Container] = []
        self._made = 0
        self._relays: dict[tuple[str, int], Relay] = {}
        self.record()
        self.network = LabNetwork(self.identifier)
        atexit.register(self.close)

    @property
    def public_key(self) -> str:
        """The key's public half, a line of ``authorized_keys``."""
        return self.key.with_suffix(".pub").read_text()

    def host(
        self,
        name: str,
        *,
        files: Mapping[str, FileContent] | None = None,
        enable: Sequence[str] = (),
        users: Sequence[str] = (),
        binds: Sequence[Path] = (),
        boot: bool = True,
    ) -> Container:
        """Make a host and boot it.

        Args:
            name: its host name.
            files: written to its disk before it boots.
            enable: units that start with it.
            users: ordinary users with sudo for everything; see :meth:`Container.allow`.
            binds: paths of this machine that it sees read-only at the same place.
            boot: False to leave it switched off.
        """
        self._made += 1
        address = f"{self.network.prefix}.{10 + self._made}"
        host = Container(self, name, address, files=files or {}, enable=enable, users=users, binds=binds)
        self._hosts.append(host)
        self.record()
        return host.boot() if boot else host

    def run(
        self,
        command: Sequence[str | Path],
        *,
        stdin: bytes = b"",
        check: bool = True,
        timeout_s: float = 60.0,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a program inside the lab's network to its end."""
        return run_command(self.enter(command), stdin=stdin, check=check, timeout_s=timeout_s, environment=environment)

    def enter(self, command: Sequence[str | Path]) -> list[str]:
        """Return the command that runs a program inside the lab's network, for a ``Popen`` of one's own."""
        return ["ip", "netns", "exec", self.network.namespace, *(str(word) for word in command)]

    def list_processes(self) -> dict[int, tuple[str, ...]]:
        """Return the command of every process that runs inside the lab's network, but outside its hosts."""
        found: dict[int, tuple[str, ...]] = {}
        for pid in run_command(["ip", "netns", "pids", self.network.namespace], check=False).stdout.split():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{int(pid)}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
                found[int(pid)] = tuple(word.decode(errors="replace") for word in words)
        return found

    def connect(self, address: str, port: int, timeout_s: float = 10.0) -> socket.socket:
        """Open a TCP connection inside the lab for use in this process."""
        return self.network.connect(address, port, timeout_s)

    def forward(self, address: str, port: int) -> int:
        """Return a port of 127.0.0.1 that leads to a port inside the lab."""
        if (address, port) not in self._relays:
            self._relays[address, port] = Relay(self.network, address, port)
        return self._relays[address, port].port

    def known_hosts(self, host: Container) -> Path:
        """Return a file that pins the host's key."""
        path = self.folder / f"known_{host.name}"
        path.write_text(f"{host.ip} ssh-ed25519 {host.host_key}\n")
        return path

    def ssh_config(self, host: Container, *, is_forwarded: bool = False) -> Path:
        """Return an ssh configuration with the aliases of the host: ``gpu1`` is root, ``gpu1-ubuntu`` a user of it.

        Args:
            host: what the aliases lead to.
            is_forwarded: lead through 127.0.0.1, for a program that does not run inside the lab.
        """
        port = self.forward(host.ip, 22) if is_forwarded else 22
        address = "127.0.0.1" if is_forwarded else host.ip
        lines: list[str] = []
        for user in ("root", *host.users):
            lines += [
                f"Host {host.alias(user)}",
                f"  HostName {address}",
                f"  Port {port}",
                f"  User {user}",
                f"  HostKeyAlias {host.ip}",
            ]
        lines += [
            "Host *",
            f"  IdentityFile {self.key}",
            "  IdentitiesOnly yes",
            "  IdentityAgent none",
            "  BatchMode yes",
            "  LogLevel ERROR",
            f"  UserKnownHostsFile {self.known_hosts(host)}",
            "  GlobalKnownHostsFile /dev/null",
            "  StrictHostKeyChecking yes",
        ]
        path = self.folder / f"ssh_{'forwarded_' if is_forwarded else ''}{host.name}"
        path.write_text("\n".join(lines) + "\n")
        return path

    def record(self) -> None:
        """Write down what there is, for :func:`sweep` after a kill."""
        RECORDS.mkdir(exist_ok=True)
        record = {
            "owner": os.getpid(),
            "started": _read_start_ticks(os.getpid()),
            "namespaces": [f"{self.identifier}-lab", *(host.identifier for host in self._hosts)],
            "disks": [str(host.folder) for host in self._hosts],
            "folder": str(self.folder),
        }
        (RECORDS / f"{self.identifier}.json").write_text(json.dumps(record))

    def close(self) -> None:
        """Shut everything down and leave nothing behind; does nothing the second time."""
        atexit.unregister(self.close)
        for relay in self._relays.values():
            relay.close()
        self._relays.clear()
        while self._hosts:
            self._hosts[-1].remove()
            self._hosts.pop()
        self.network.remove()
        shutil.rmtree(self.folder, ignore_errors=True)
        (RECORDS / f"{self.identifier}.json").unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def sweep() -> list[str]:
    """Clean up after labs whose process was killed; return their identifiers."""
    swept: list[str] = []
    for path in sorted(RECORDS.glob("*.json")) if RECORDS.is_dir() else []:
        record = json.loads(path.read_text())
        if _read_start_ticks(record["owner"]) == record["started"]:
            continue
        for namespace in record["namespaces"]:
            end_control_groups(namespace)
            found = run_command(["ip", "netns", "pids", namespace], check=False).stdout.split()
            for pid in found:  # only what runs in a namespace that a lab made
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            run_command(["ip", "netns", "del", namespace], check=False)
        for disk in record["disks"]:
            remove_disk(Path(disk))
        for namespace in record["namespaces"]:
            remove_control_groups(namespace)
        shutil.rmtree(record["folder"], ignore_errors=True)
        path.unlink(missing_ok=True)
        swept.append(path.stem)
    return swept


def _read_start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; ``None`` when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", maxsplit=1)[1].split()[19])
    except OSError:
        return None


if __name__ == "__main__":
    for identifier in sweep():
        print("swept", identifier)
