"""What world does a judged program see? Namespaces: processes, network and files of its own, and nobody else's user.

Runs in the child process, before :mod:`autotune.evaluation.confinement` takes the rights away that this needs. Every
step that the machine does not allow is left out and not named in the result: Landlock and seccomp, which are demanded,
hold without it. What it adds is a second wall, and what they cannot do: not even names, sizes and times of files
outside can be asked for, and a program that broke them would find no process, no network and no file of the host.
"""

# ruff: noqa: PTH101, PTH102, PTH103, PTH110, PTH112, PTH114, PTH116, PTH120, PTH211 - pathlib loads too slowly here

from __future__ import annotations

import ctypes
import errno
import os
import struct
from _signal import signal as set_handler  # type: ignore[import-not-found]  # what `signal` adds to it loads too slowly

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

PROCESSES, NETWORK, FILES, USER = "processes of its own", "no network", "files of its own", "a user of its own"
"""The layers that this module may add."""

_NEW_USER = 0x10000000
_NEW_ALL = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x20000000 | 0x40000000
"""Mounts, control groups, host name, IPC, processes, network."""
_READ_ONLY, _NO_SUID, _NO_DEVICES, _BIND, _RECURSIVE, _PRIVATE, _DETACH = 1, 2, 4, 4096, 16384, 1 << 18, 2
_SIGKILL, _SIGTERM = 9, 15
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_FIRST_UID, _LAST_UID_OFFSET, _NOBODY = 0x70000000, 0x0FFFFFFF, 65534
"""Users that no system gives to anybody; each process gets one of its own."""
_LINKS = ("/lib", "/lib64", "/usr/lib64")

_libc = ctypes.CDLL(None, use_errno=True)


def enter(root: str, readable: Sequence[str]) -> list[str]:
    """Leave the host's world as far as the machine allows; the next process that is forked is inside wholly.

    Args:
        root: an existing empty folder, where the new root is put together.
        readable: folders and files that are shown, read-only, under their names; the first is Python's library.

    Returns:
        The layers that hold.
    """
    uid, gid = os.getuid(), os.getgid()
    if _libc.unshare(_NEW_ALL) != 0:
        if _libc.unshare(_NEW_ALL | _NEW_USER) != 0:
            return []
        try:
            _write("/proc/self/setgroups", "deny")
            _write("/proc/self/uid_map", f"{uid} {uid} 1")
            _write("/proc/self/gid_map", f"{gid} {gid} 1")
        except OSError:
            return [PROCESSES, NETWORK]
    layers = [PROCESSES, NETWORK]
    try:
        _mount(None, "/", None, _RECURSIVE | _PRIVATE)
        _build(root, readable)
        _move_into(root)
    except OSError:
        os.chdir("/")
        return layers
    return [*layers, FILES]


def run_inside(report_fd: int) -> None:
    """Return in a new process that is the first of its world; the old one waits and ends as the new one does.

    SIGTERM to the old one kills the new one and lets the old one take leave of it, so that no zombie is left to a parent
    that expects none.
    """
    child = os.fork()
    if child == 0:
        return
    set_handler(_SIGTERM, lambda _number, _frame: os.kill(child, _SIGKILL))
    os.close(report_fd)
    _, status = os.waitpid(child, 0)
    number = os.waitstatus_to_exitcode(status)
    if number < 0:
        _libc.signal(-number, None)  # the interpreter's own handling ends here
        os.kill(os.getpid(), -number)
    os._exit(max(number, 0))


def become_nobody(library: str) -> bool:
    """Take a user id that nobody else has, where this process may and that user could still read Python's library."""
    if os.geteuid() != 0 or not _is_open_to_all(library):
        return False
    for uid in (_FIRST_UID + os.getppid() * 64 % _LAST_UID_OFFSET + os.getpid() % 64, _NOBODY):
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        except OSError:
            continue
        return True
    return False


def _is_open_to_all(path: str) -> bool:
    """True when everybody may read a folder and its first module, and walk to it."""
    if os.stat(f"{path}/os.py").st_mode & 4 == 0:
        return False
    while len(path) > 1:
        if os.stat(path).st_mode & 5 != 5:
            return False
        path = os.path.dirname(path)
    return True


def _build(root: str, readable: Sequence[str]) -> None:
    _mount("tmpfs", root, "tmpfs", _NO_SUID | _NO_DEVICES, "size=1m,nr_inodes=1k,mode=755")
    for link in _LINKS:
        if os.path.islink(link) and not os.path.lexists(root + link):
            os.makedirs(os.path.dirname(root + link), exist_ok=True)
            os.symlink(os.path.relpath(os.path.realpath(link), os.path.dirname(link)), root + link)
    shown: set[str] = set()
    for name in readable:
        path = os.path.realpath(name) if _lies_behind_link(name) else name
        if path in shown:
            continue
        shown.add(path)
        if os.path.isdir(path):
            os.makedirs(root + path, exist_ok=True)
        elif not os.path.exists(path):
            continue
        else:
            os.makedirs(os.path.dirname(root + path), exist_ok=True)
            os.close(os.open(root + path, os.O_CREAT | os.O_WRONLY, 0o444))
        _mount(path, root + path, None, _BIND | _RECURSIVE)
    for name in ("site-packages", "dist-packages"):
        hidden = f"{root}{readable[0]}/{name}"
        if os.path.isdir(hidden):
            _mount("tmpfs", hidden, "tmpfs", _NO_SUID | _NO_DEVICES, "size=4k,nr_inodes=1,mode=755")
    os.makedirs(f"{root}/box", exist_ok=True)
    attributes = struct.pack("QQQQ", _READ_ONLY | _NO_SUID, 0, 0, 0)
    _check(_libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, root.encode(), _AT_RECURSIVE, attributes, len(attributes)))
    _mount("tmpfs", f"{root}/box", "tmpfs", _NO_SUID | _NO_DEVICES, "size=4k,nr_inodes=4,mode=777")
    os.mkdir(f"{root}/box/work", 0o777)
    os.chmod(f"{root}/box/work", 0o777)  # noqa: S103 - of a file tree that nobody else sees


def _lies_behind_link(path: str) -> bool:
    """True when a link that the new root has too leads to it."""
    return any(os.path.islink(link) and f"{path}/".startswith(f"{link}/") for link in _LINKS)


def _move_into(root: str) -> None:
    os.chdir(root)
    _check(_libc.syscall(_PIVOT_ROOT[os.uname().machine], b".", b"."))
    _check(_libc.umount2(b".", _DETACH))
    os.chdir("/box/work")


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    words = [None if word is None else word.encode() for word in (source, target, kind, options)]
    _check(_libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno() or errno.EPERM
        raise OSError(number, os.strerror(number))


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
