"""The disk of a test host: a writable layer in memory over this machine's own system, its private folders hidden."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.host.commands import run_command

MEMORY_DISK: Final = Path("/dev/shm")
SYSTEM_FOLDERS: Final = frozenset(
    [
        "bin",
        "boot",
        "dev",
        "etc",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "proc",
        "run",
        "sbin",
        "sys",
        "usr",
        "var",
    ]  # everything else at / is private
)
PRIVATE_FOLDERS: Final = (
    *("root", "home", "tmp", "var/tmp", "var/log", "var/cache", "mnt", "opt", "srv", "boot"),
    *("etc/systemd/system", "etc/pip", "etc/xdg", "etc/apt", "etc/cron.d", "etc/profile.d", "etc/sudoers.d"),
    *("etc/ssh/sshd_config.d", "usr/local/bin"),
)
MASKED_UNITS: Final = (
    *("apt-daily.timer", "apt-daily-upgrade.timer", "man-db.timer", "systemd-timesyncd.service"),
    *("e2scrub_all.timer", "fstrim.timer", "dpkg-db-backup.timer", "logrotate.timer"),
)


def find_private_folders() -> tuple[str, ...]:
    """Return the folders of this machine that a test host must not see, without their leading slash."""
    unusual = sorted(
        folder.name
        for folder in Path("/").iterdir()
        if folder.name not in SYSTEM_FOLDERS and folder.is_dir() and not folder.is_symlink()
    )
    return (*PRIVATE_FOLDERS, *(name for name in unusual if name not in PRIVATE_FOLDERS))


class RootDisk:
    """An overlay of ``/``: what the host writes stays in memory and is gone when the disk is removed.

    Attributes:
        root: where the overlay is mounted on this machine.
    """

    def __init__(self, name: str, visible: Sequence[Path]) -> None:
        """Mount it.

        Args:
            name: part of the folder's name.
            visible: paths that will be bound in; the folders above them have to let ordinary users through.
        """
        self.folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=MEMORY_DISK))
        self.root = self.folder / "root"
        upper, work = self.folder / "upper", self.folder / "work"
        for folder in (upper, work, self.root):
            folder.mkdir(mode=0o755)
        self.folder.chmod(0o755)
        for private in find_private_folders():
            original, copy = Path("/") / private, upper / private
            if original.is_dir():
                copy.mkdir(parents=True, exist_ok=True)
                copy.chmod(original.stat().st_mode & 0o7777)
                os.setxattr(copy, "trusted.overlay.opaque", b"y")
        for path in visible:
            for above in path.parents:
                copy = upper / above.relative_to("/")
                if copy.is_dir():
                    copy.chmod(copy.stat().st_mode | 0o111)
        (upper / "var/log/journal").mkdir(parents=True, exist_ok=True)  # the journal survives a reboot
        options = f"lowerdir=/,upperdir={upper},workdir={work}"
        run_command(["mount", "-t", "overlay", self.folder.name, "-o", options, self.root])

    def put(self, path: str, content: str | bytes, mode: int = 0o644) -> None:
        """Write a file, and the folders above it."""
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        target.chmod(mode)

    def install(self, name: str, authorized_key: str) -> str:
        """Make a system of its own of it: name, machine id, host key, sshd, no timers; return the public host key."""
        for path in ("etc/hostname", "etc/resolv.conf", *(f"etc/ssh/{key}" for key in _list_host_keys())):
            (self.root / path).unlink(missing_ok=True)
        self.put("/etc/machine-id", "")
        self.put("/etc/hosts", f"127.0.0.1 localhost\n127.0.1.1 {name}\n")
        key = self.root / "etc/ssh/ssh_host_ed25519_key"
        run_command(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", key])
        self.put(
            "/etc/ssh/sshd_config.d/lab.conf",
            "HostKey /etc/ssh/ssh_host_ed25519_key\nUseDNS no\nPasswordAuthentication no\nMaxStartups 100\n",
        )
        units = self.root / "etc/systemd/system"
        (units / "multi-user.target.wants").mkdir(parents=True, exist_ok=True)
        (units / "multi-user.target.wants/ssh.service").symlink_to("/lib/systemd/system/ssh.service")
        (units / "default.target").symlink_to("/lib/systemd/system/multi-user.target")
        for unit in MASKED_UNITS:
            (units / unit).symlink_to("/dev/null")
        self.authorize("root", "/root", authorized_key)
        return key.with_suffix(".pub").read_text().split()[1]

    def add_user(self, name: str, authorized_key: str) -> None:
        """Make an ordinary user who may log in."""
        run_command(["chroot", self.root, "useradd", "-m", "-s", "/bin/bash", name])
        self.authorize(name, f"/home/{name}", authorized_key)

    def authorize(self, user: str, home: str, authorized_key: str) -> None:
        """Let the owner of a key log in as a user."""
        self.put(f"{home}/.ssh/authorized_keys", authorized_key, 0o600)
        (self.root / home.lstrip("/") / ".ssh").chmod(0o700)
        run_command(["chroot", self.root, "chown", "-R", f"{user}:", f"{home}/.ssh"])

    def remove(self) -> None:
        """Unmount and forget it."""
        remove_disk(self.folder)


def remove_disk(folder: Path) -> None:
    """Unmount the overlay in a folder, if it is mounted, and delete the folder."""
    run_command(["umount", "-l", folder / "root"], check=False)
    shutil.rmtree(folder, ignore_errors=True)


def _list_host_keys() -> list[str]:
    return [path.name for path in Path("/etc/ssh").glob("ssh_host_*_key*")]
