"""A real SSH server on the loopback address with keys, known_hosts and a client configuration of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from autotune.deployment.guard import find_descendants
from tests.deployment.processes import free_port

_SERVER = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
MaxStartups 100
# bash reads no ~/.bashrc below another shell: the tester's own must not cost time or print.
SetEnv SHLVL=3
"""

_CLIENT = """\
Host loopback relayed
    HostName 127.0.0.1
    Port {port}
    IdentityFile {folder}/user_key
    IdentitiesOnly yes
    IdentityAgent none
    UserKnownHostsFile {folder}/known_hosts
    GlobalKnownHostsFile none
"""


class LoopbackSshd:
    """Started on entering, ended with all its sessions on leaving.

    Args:
        folder: receives keys and configuration.
        lines: more of the server's configuration.
    """

    destination = "loopback"

    def __init__(self, folder: Path, *lines: str) -> None:
        self.folder = folder
        self._lines = lines
        self.port = free_port()
        self.config = folder / "config"
        self.known_hosts = folder / "known_hosts"
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        program = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        if program is None:
            if os.environ.get("CI"):
                pytest.fail("there is no sshd: install openssh-server")
            pytest.skip("there is no sshd: install openssh-server")
        for name in ("host_key", "user_key"):
            make_key(self.folder / name)
        shutil.copy(self.folder / "user_key.pub", self.folder / "authorized_keys")
        self.know(self.folder / "host_key.pub")
        text = _SERVER.format(port=self.port, folder=self.folder)
        (self.folder / "sshd_config").write_text(text + "".join(f"{line}\n" for line in self._lines))
        self.config.write_text(_CLIENT.format(port=self.port, folder=self.folder))
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        with (self.folder / "sshd.log").open("wb") as log:
            self._server = subprocess.Popen(
                [program, "-D", "-e", "-f", str(self.folder / "sshd_config")], stdin=subprocess.DEVNULL, stderr=log
            )
        deadline = time.monotonic() + 10
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return self
            if self._server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "sshd.log").read_text())
            time.sleep(0.02)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            sessions = find_descendants(self._server.pid)
            self._server.terminate()
            self._server.wait()
            _kill(sessions)

    def know(self, public_key: Path, *, name: str | None = None) -> None:
        """Make a key the only one that the client knows."""
        key = " ".join(public_key.read_text().split()[:2])
        self.known_hosts.write_text(f"{name or f'[127.0.0.1]:{self.port}'} {key}\n")

    def write_config(self, name: str, *lines: str) -> str:
        """Write another client configuration: these lines count before those of the usual one."""
        path = self.folder / name
        path.write_text("Host *\n" + "".join(f"    {line}\n" for line in lines) + self.config.read_text())
        return str(path)

    def kill_sessions(self) -> None:
        """Kill the server's side of every connection, and nothing that was started over it."""
        assert self._server is not None
        children = find_descendants(self._server.pid)
        _kill([pid for pid in children if Path(f"/proc/{pid}/comm").read_text().startswith("sshd")])


def make_key(path: Path, passphrase: str = "") -> None:
    """Make a key pair of the kind that OpenSSH makes by default."""
    path.unlink(missing_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", str(path)], check=True)


def _kill(processes: list[int]) -> None:
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
