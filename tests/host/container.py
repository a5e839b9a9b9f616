"""One test host: a real Debian with systemd as PID 1, journald, sshd and an address of its own, booted in two seconds."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Self

from tests.host.commands import run_command
from tests.host.root_disk import RootDisk

if TYPE_CHECKING:
    from tests.host.lab import Lab

FileContent = str | bytes | tuple[str | bytes, int]
"""What a file holds, and its permission bits where they are not 0644."""

CONTROL_GROUPS: Final = Path("/sys/fs/cgroup")

SANDBOX_CALLS: Final = ("landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self")
"""What systemd-nspawn forbids and a machine does not: the sandbox of the coding evaluation needs it."""

# $1 is the name of the control group; two containers started from one group would share its "payload". With --keep-unit
# a reboot inside ends systemd-nspawn with 133 and leaves the next start to whoever called it. The keeper's input ends
# when whoever made the lab is gone, however that came; a signal at the death of a parent would come with that of a thread.
KEEPER: Final = r"""
name=$1; shift; stop=; child=
{ read -r _; kill -TERM $$; } <&0 2>/dev/null & watcher=$!
for hierarchy in $HIERARCHIES; do mkdir -p "$hierarchy/$name"; echo $$ > "$hierarchy/$name/cgroup.procs"; done
trap 'stop=1; kill -TERM $child 2>/dev/null' TERM INT HUP
while :; do
  "$@" </dev/null & child=$!
  while :; do wait $child; code=$?; kill -0 $child 2>/dev/null || break; done
  [ -z "$stop" ] && [ $code = 133 ] && continue
  kill $watcher 2>/dev/null
  exit $code
done
"""


class Container:
    """A host of the lab.

    Attributes:
        name: its host name.
        ip: its address inside the lab.
        host_key: its public ed25519 key, to be pinned.
        disk: its disk.
        root: the same, seen from this machine; ``/run`` and ``/tmp`` inside are others, see :meth:`inside`.
    """

    def __init__(
        self,
        lab: Lab,
        name: str,
        ip: str,
        *,
        files: Mapping[str, FileContent],
        enable: Sequence[str],
        users: Sequence[str],
        binds: Sequence[Path],
    ) -> None:
        """Make its disk and its network; :meth:`boot` starts it."""
        self._lab, self.name, self.ip, self._binds = lab, name, ip, tuple(binds)
        self.identifier = f"{lab.identifier}-{name}"
        self.users = tuple(users)
        self._keeper: subprocess.Popen[bytes] | None = None
        self._console: IO[bytes] | None = None
        self._has_network = False
        self.disk = RootDisk(self.identifier, binds)
        self.root = self.disk.root
        self.console_log = self.disk.folder / "console.log"
        self.host_key = self.disk.install(name, lab.public_key)
        for user in users:
            self.disk.add_user(user, lab.public_key)
            self.allow(user)
        for path, content in files.items():
            text, mode = content if isinstance(content, tuple) else (content, 0o644)
            self.disk.put(path, text, mode)
        if enable:
            run_command(["systemctl", f"--root={self.root}", "enable", *enable])

    @property
    def folder(self) -> Path:
        """Where its disk is kept."""
        return self.disk.folder

    # What it is made of.

    def put(self, path: str, content: str | bytes, mode: int = 0o644) -> None:
        """Write a file, on the disk or, once booted, below ``/run`` and ``/tmp`` too."""
        if path.startswith(("/run/", "/tmp/")):
            target = self.inside(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.encode() if isinstance(content, str) else content)
            target.chmod(mode)
        else:
            self.disk.put(path, content, mode)

    def inside(self, path: str) -> Path:
        """Return where this machine sees a path of the running host, mounts included."""
        return Path(f"/proc/{self.init_pid}/root") / path.lstrip("/")

    def allow(self, user: str, commands: Sequence[str] | None = None) -> None:
        """Let a user run these commands as root without a password, absolute paths with arguments; ``None`` is all."""
        allowed = "ALL" if commands is None else ", ".join(commands)
        text = f"{user} ALL=(ALL) NOPASSWD: {allowed}\n" if commands is None or commands else "# nothing\n"
        self.disk.put(f"/etc/sudoers.d/{user}", text, 0o440)

    # Its life.

    @property
    def init_pid(self) -> int:
        """The host's PID 1, as this machine numbers it.

        Raises:
            RuntimeError: the host does not run.
        """
        for pid in self._descend():
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().strip() == "systemd":
                    return pid
        raise RuntimeError(f"{self.name} does not run: {self.read_console()}")

    @property
    def is_running(self) -> bool:
        """Whether the container lives, from the start of its boot to the end of its shutdown."""
        return self._keeper is not None and self._keeper.poll() is None

    @property
    def boot_id(self) -> str | None:
        """What its kernel names this boot by; ``None`` while it is off or on the way down."""
        with contextlib.suppress(RuntimeError, OSError):
            return self.inside("/proc/sys/kernel/random/boot_id").read_text().strip()
        return None

    def boot(self, timeout_s: float = 30.0) -> Self:
        """Switch it on, again after :meth:`crash`, and wait until sshd answers."""
        if not self._has_network:
            self._has_network = True
            self._lab.record()
            self._lab.network.add_host(self.identifier, self.ip)
        self._console = self.console_log.open("ab")
        self._keeper = subprocess.Popen(
            [
                *("bash", "-c", KEEPER, "test-host", self.identifier),
                *("systemd-nspawn", "--quiet", "--boot", f"--directory={self.root}", f"--machine={self.identifier}"),
                *(f"--hostname={self.name}", f"--network-namespace-path=/run/netns/{self.identifier}"),
                *("--register=no", "--keep-unit", "--console=pipe", "--link-journal=no"),
                f"--system-call-filter={' '.join(SANDBOX_CALLS)}",
                *("--resolv-conf=off", "--timezone=off", *(f"--bind-ro={path}" for path in self._binds)),
            ],
            env={
                **os.environ,
                "HIERARCHIES": " ".join(str(path) for path in list_hierarchies()),
                "UNIFIED_CGROUP_HIERARCHY": "1",  # what a current distribution shows, whatever this machine has
            },
            stdin=subprocess.PIPE,
            stdout=self._console,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.wait_for_port(22, timeout_s)
        return self

    def wait_for_port(self, port: int, timeout_s: float = 30.0) -> None:
        """Wait until something listens; sshd has to greet as well.

        Raises:
            RuntimeError: the container ended.
            TimeoutError: nothing listens in time.
        """
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if not self.is_running:
                raise RuntimeError(f"{self.name} ended while it was waited for: {self.read_console()}")
            with contextlib.suppress(OSError), self._lab.network.connect(self.ip, port, 0.5) as connection:
                if port != 22 or connection.recv(4) == b"SSH-":
                    return
            time.sleep(0.03)
        raise TimeoutError(f"{self.name} does not listen on port {port} after {timeout_s:g} s: {self.read_console()}")

    def crash(self) -> None:
        """Cut the power: PID 1 is killed, and everything with it, at once; :meth:`boot` switches it on again."""
        os.kill(self.init_pid, signal.SIGKILL)
        if self._keeper is not None:
            self._keeper.wait(15)
        self._close_console()

    def link(self, is_up: bool) -> None:
        """Plug or pull its network cable."""
        self._lab.network.set_cable(self.ip, is_up)

    def stop(self, timeout_s: float = 15.0) -> None:
        """Shut it down; kill it when that takes too long."""
        if self._keeper is not None and self._keeper.poll() is None:
            self._keeper.terminate()  # the keeper passes it on, and systemd-nspawn tells PID 1 to power off
            try:
                self._keeper.wait(timeout_s)
            except subprocess.TimeoutExpired:
                for pid in self._descend():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                self._keeper.kill()
                self._keeper.wait(5)
        self._close_console()

    def remove(self) -> None:
        """Shut it down and leave nothing behind: disk, namespace, control groups."""
        self.stop()
        self.disk.remove()
        if self._has_network:
            run_command(["ip", "netns", "del", self.identifier], check=False)
            self._has_network = False
        remove_control_groups(self.identifier)

    # What runs on it.

    def ssh(self, command: str, *, user: str = "root", check: bool = True, timeout_s: float = 60.0) -> str:
        """Run a shell command as a user would, by OpenSSH from inside the lab; return what it printed."""
        config = self._lab.ssh_config(self)
        words = ["ssh", "-F", str(config), self.alias(user), command]
        return self._lab.run(words, check=check, timeout_s=timeout_s).stdout.decode()

    def alias(self, user: str = "root") -> str:
        """Return the name of the host in the lab's ssh configuration: ``gpu1``, or ``gpu1-ubuntu`` for a user."""
        return self.name if user == "root" else f"{self.name}-{user}"

    def run(
        self, command: Sequence[str], *, stdin: bytes = b"", check: bool = True, timeout_s: float = 60.0
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command on it as root without any network, quicker than ssh and with the cable pulled too."""
        enter = ["nsenter", "--target", str(self.init_pid), "--all", "--wdns=/", "--"]
        clean = ["env", "-i", "LC_ALL=C.UTF-8", "HOME=/root", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"]
        return run_command([*enter, *clean, *command], stdin=stdin, check=check, timeout_s=timeout_s)

    def shell(self, line: str, *, check: bool = True, timeout_s: float = 60.0) -> str:
        """Run a line of shell on it as root, without any network; return what it printed."""
        return self.run(["sh", "-c", line], check=check, timeout_s=timeout_s).stdout.decode("utf-8", errors="replace")

    def read_console(self) -> str:
        """Return the end of what the container printed."""
        with contextlib.suppress(OSError):
            return self.console_log.read_text(errors="replace")[-800:].strip()
        return ""

    def _descend(self) -> list[int]:
        """Return the keeper's descendants, parents first."""
        found: list[int] = []
        todo = [self._keeper.pid] if self._keeper is not None else []
        while todo:
            pid = todo.pop()
            with contextlib.suppress(OSError):
                children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
                found += children
                todo += children
        return found

    def _close_console(self) -> None:
        if self._keeper is not None and self._keeper.stdin is not None:
            self._keeper.stdin.close()
        if self._console is not None:
            self._console.close()
            self._console = None

    def __repr__(self) -> str:
        return f"Container({shlex.quote(self.name)}, {self.ip})"


def list_hierarchies() -> list[Path]:
    """Return where control groups are made: the unified hierarchy, beside systemd's own where both are mounted."""
    if (CONTROL_GROUPS / "cgroup.controllers").exists():
        return [CONTROL_GROUPS]
    return [path for name in ("systemd", "unified") if (path := CONTROL_GROUPS / name).is_dir()]


def end_control_groups(identifier: str, patience_s: float = 5.0) -> None:
    """Kill whatever runs in the control groups of a container, whoever started it, and wait for its end."""
    tops = [hierarchy / identifier for hierarchy in list_hierarchies()]
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        pids = {int(pid) for top in tops for path in top.rglob("cgroup.procs") for pid in path.read_text().split()}
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def remove_control_groups(identifier: str) -> None:
    """Remove the control groups of a container, innermost first, and what systemd-nspawn leaves where /run is on a disk."""
    for kind in ("propagate", "unix-export"):
        with contextlib.suppress(OSError):
            Path(f"/run/systemd/nspawn/{kind}/{identifier}").rmdir()
    for hierarchy in list_hierarchies():
        top = hierarchy / identifier
        folders: list[Path] = []
        with contextlib.suppress(FileNotFoundError):  # another process sweeps the same leftovers
            folders = sorted(top.rglob("*"), key=lambda path: len(path.parts), reverse=True)
        for folder in folders:
            if folder.is_dir():
                with contextlib.suppress(OSError):
                    folder.rmdir()
        with contextlib.suppress(OSError):
            top.rmdir()
