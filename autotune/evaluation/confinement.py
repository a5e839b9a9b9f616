"""What takes rights away from the process that runs generated code? Kernel layers, applied by the process to itself.

Works for root and for ordinary users, with the standard library alone. Five layers, all of them demanded, each sufficient
against some attack that the others leave open:

- resource limits: CPU time, address space, no core file, no byte written to a file;
- no new privileges, all capabilities dropped: being root means nothing any more;
- Landlock: no file is read outside Python's library, none is written or made anywhere, no signal leaves the process;
- seccomp, an allow list: no socket, no other process, no signal to another process, no file opened for writing;
- the parent's death ends the process.

Linux 5.13 or newer on x86-64 or ARM64; anything less raises OSError, which the sandbox reports as unavailable.
"""

# ruff: noqa: PTH112, PTH120, PTH208 - importing pathlib takes longer than the rest of this module

from __future__ import annotations

import ctypes
import errno
import os
import resource
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing and collections.abc would cost every judged program some milliseconds
    from collections.abc import Iterator, Sequence

_ALLOWED = """
    read:0:63 write:1:64 close:3:57 fstat:5:80 lseek:8:62 mmap:9:222 mprotect:10:226 munmap:11:215 brk:12:214
    rt_sigaction:13:134 rt_sigprocmask:14:135 rt_sigreturn:15:139 pread64:17:67 readv:19:65 writev:20:66 access:21:-
    pipe:22:- select:23:- sched_yield:24:124 mremap:25:216 madvise:28:233 dup:32:23 dup2:33:- dup3:292:24
    nanosleep:35:101 getpid:39:172 alarm:37:- pause:34:- exit:60:93 exit_group:231:94 uname:63:160 getcwd:79:17
    chdir:80:49 fchdir:81:50 rmdir:84:- unlink:87:- unlinkat:263:35 readlink:89:- readlinkat:267:78
    gettimeofday:96:169 time:201:- getrlimit:97:163 getrusage:98:165 sysinfo:99:179 times:100:153 getuid:102:174
    getgid:104:176 geteuid:107:175 getegid:108:177 getppid:110:173 getpgrp:111:- getpgid:121:155 getsid:124:156
    getgroups:115:158 sigaltstack:131:132 arch_prctl:158:- gettid:186:178 futex:202:98 sched_getaffinity:204:123
    getdents64:217:61 set_tid_address:218:96 clock_gettime:228:113 clock_getres:229:114 clock_nanosleep:230:115
    newfstatat:262:79 stat:4:- lstat:6:- faccessat:269:48 faccessat2:439:439 set_robust_list:273:99 pipe2:293:59
    poll:7:- ppoll:271:73 pselect6:270:72 epoll_create1:291:20 epoll_ctl:233:21 epoll_wait:232:- epoll_pwait:281:22
    eventfd2:290:19 getrandom:318:278 statx:332:291 rseq:334:293 statfs:137:43 fstatfs:138:44 membarrier:324:283
    setitimer:38:103 getitimer:36:102 rt_sigtimedwait:128:137 rt_sigpending:127:136 rt_sigsuspend:130:133
    restart_syscall:219:128 wait4:61:260 umask:95:166
"""
"""System calls that are always allowed, each as name:number on x86-64:number on ARM64."""

_MACHINES = {"x86_64": (0xC000003E, 1), "aarch64": (0xC00000B7, 2)}
"""Machine name -> architecture word that seccomp reports, column of the number in :data:`_ALLOWED`."""
_OPEN, _OPENAT, _CLONE, _TGKILL, _FCNTL, _CLONE3 = (2, -1), (257, 56), (56, 220), (234, 131), (72, 25), (435, 435)

_FCNTL_COMMANDS = (0, 1, 2, 3, 4, 1030)
"""Duplicating descriptors and reading or setting their flags; not F_SETOWN, which sends signals to others."""
_THREAD_FLAG = 0x10000
_WRITING_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_LARGEST_NUMBER = 0x40000000
"""Numbers from here on are x86-64's second system call table, which is refused whole."""

_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW, _REFUSE, _MISSING = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS

_READ_FILE, _READ_DIR, _REMOVE_DIR = 1 << 2, 1 << 3, 1 << 4
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_SIGKILL = 9
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _SYS_CAPSET = 1, 22, 38, {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION = 0x20080522

LIMITS, NO_RIGHTS, LANDLOCK, SECCOMP = "limits", "no rights", "Landlock", "seccomp"
"""The layers, as they are named in records."""
_MOST_THREADS = 64

_libc = ctypes.CDLL(None, use_errno=True)


def confine(
    *, cpu_s: int, memory_bytes: int, folder: str, secret: str | None, has_own_user: bool, accept_gaps: bool
) -> list[str]:
    """Take every right away from this process that a pure function does not need; there is no way back.

    Args:
        cpu_s: CPU time after which the kernel kills the process, in seconds.
        memory_bytes: address space.
        folder: the only place where something, an empty folder, may be removed.
        secret: the real path of a folder below which nothing may be read even if it lies inside Python's library; ``None``
            in a file tree that shows neither it nor installed packages.
        has_own_user: nobody else runs as this user, so that its processes and threads can be counted.
        accept_gaps: go on without the layers that the machine does not offer.

    Returns:
        The layers that hold.

    Raises:
        OSError: the kernel or the machine does not offer a layer, and gaps are not accepted.
    """
    machine = os.uname().machine

    def require_machine() -> None:
        if machine not in _MACHINES:
            raise OSError(errno.ENOSYS, f"no list of system calls for {machine}")

    layers = []
    for layer, take in (
        ("", die_with_parent),  # again: a change of user had ended it
        ("", require_machine),
        (LIMITS, lambda: _limit(cpu_s, memory_bytes, has_own_user)),
        (NO_RIGHTS, lambda: _drop_rights(machine)),
        (LANDLOCK, lambda: _restrict_files(folder, secret)),
        (SECCOMP, lambda: _filter_calls(machine)),
    ):
        try:
            take()
        except OSError:
            if not accept_gaps:
                raise
            continue
        layers += [layer] if layer else []
    return layers


def die_with_parent() -> None:
    """Let the kernel kill this process when the one that started it has died."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0), "death signal")


def _limit(cpu_s: int, memory_bytes: int, has_own_user: bool) -> None:
    limits = [
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
    ]
    if has_own_user:
        limits.append((resource.RLIMIT_NPROC, _MOST_THREADS))
    for name, limit in limits:
        _, most = resource.getrlimit(name)
        bound = limit if most == resource.RLIM_INFINITY else min(limit, most)
        resource.setrlimit(name, (bound, bound))


def _drop_rights(machine: str) -> None:
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
    nothing = (ctypes.c_uint32 * 6)()
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    _check(_libc.syscall(_SYS_CAPSET[machine], header, nothing), "dropping capabilities")


def readable_paths(secret: str) -> Iterator[str]:
    """Yield what a program may read: Python's library without installed packages, shared libraries, time zones."""
    library = os.path.dirname(os.__file__)
    has_secret = is_below(secret, library)  # then each part is looked at, which takes its time
    for name in os.listdir(library):
        path = f"{library}/{name}"
        if name not in ("site-packages", "dist-packages") and not (has_secret and is_below(secret, path)):
            yield path
    yield from (path for path in (*_own_libraries(), *_shared_paths()) if not is_below(secret, path))


def shown_paths() -> list[str]:
    """What a file tree of its own shows: the same, Python's library first and in one piece."""
    library = os.path.dirname(os.__file__)
    own = [os.path.dirname(library)] if any(_own_libraries()) else []
    return [library, *own, *_shared_paths()]


def _own_libraries() -> Iterator[str]:
    """Shared libraries that lie beside Python's own where it was not installed by the system, as conda does it."""
    parent = os.path.dirname(os.path.dirname(os.__file__))
    if parent not in ("/usr/lib", "/lib", "/usr/lib64", "/lib64"):
        yield from (f"{parent}/{name}" for name in os.listdir(parent) if ".so" in name)


def _shared_paths() -> Iterator[str]:
    """Shared libraries, time zones and two devices."""
    for parent in ("/usr/lib", "/lib"):
        for name in os.listdir(parent) if os.path.isdir(parent) else ():
            if "-linux-gnu" in name:
                yield f"{parent}/{name}"
    for path in ("/lib64", "/usr/lib64", "/usr/share/zoneinfo"):
        if os.path.isdir(path):
            yield path
    yield from ("/etc/ld.so.cache", "/dev/null", "/dev/urandom")


def is_below(path: str, folder: str) -> bool:
    """True when ``path``, a real path, lies in ``folder`` or is it."""
    return f"{path}/".startswith(f"{os.path.realpath(folder)}/")


def _restrict_files(folder: str, secret: str | None) -> None:
    abi = _libc.syscall(_CREATE_RULESET, None, 0, 1)
    if abi < 1:
        raise OSError(ctypes.get_errno(), "Landlock is not offered")
    files = (1 << 13) - 1
    for since, right in ((2, 1 << 13), (3, 1 << 14), (5, 1 << 15)):
        files |= right if abi >= since else 0
    network, scopes = 3 if abi >= 4 else 0, 3 if abi >= 6 else 0
    attributes = struct.pack("QQQ", files, network, scopes)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = _check(_libc.syscall(_CREATE_RULESET, attributes, size, 0), "Landlock rule set")
    _allow(ruleset, os.path.dirname(os.__file__), _READ_DIR)
    for path in shown_paths() if secret is None else readable_paths(secret):
        _allow(ruleset, path, _READ_FILE | (_READ_DIR if os.path.isdir(path) else 0))
    _allow(ruleset, folder, _READ_DIR | _REMOVE_DIR)
    _check(_libc.syscall(_RESTRICT_SELF, ruleset, 0), "Landlock")
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what cannot be opened need not be allowed
    try:
        _check(_libc.syscall(_ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, place), 0), f"Landlock rule for {path}")
    finally:
        os.close(place)


def _filter_calls(machine: str) -> None:
    instructions = b"".join(render_filter(machine, os.getpid()))
    code = ctypes.create_string_buffer(instructions, len(instructions))
    program = struct.pack("HxxxxxxP", len(instructions) // 8, ctypes.addressof(code))
    _check(_libc.prctl(_PR_SET_SECCOMP, 2, program, 0, 0), "seccomp filter")


def render_filter(machine: str, pid: int) -> Iterator[bytes]:
    """Yield the instructions of the seccomp filter, 8 bytes each.

    Args:
        machine: ``x86_64`` or ``aarch64``.
        pid: of this process, the only one that may be signalled.
    """
    word, column = _MACHINES[machine]
    yield _instruction(_LOAD, 4)
    yield _instruction(_EQUAL, word, 1, 0)
    yield _instruction(_RETURN, _REFUSE)
    yield _instruction(_LOAD, 0)
    yield _instruction(_AT_LEAST, _LARGEST_NUMBER, 0, 1)
    yield _instruction(_RETURN, _REFUSE)
    for entry in _ALLOWED.split():
        number = entry.split(":")[column]
        if number != "-":
            yield from _when(int(number), [_instruction(_RETURN, _ALLOW)])
    arms = column - 1
    yield from _when(_CLONE3[arms], [_instruction(_RETURN, _MISSING)])
    yield from _when(_CLONE[arms], _when_argument(0, [_instruction(_ANY_BIT, _THREAD_FLAG, 0, 1)]))
    yield from _when(_TGKILL[arms], _when_argument(0, [_instruction(_EQUAL, pid, 0, 1)]))
    for call, argument in ((_OPEN[arms], 1), (_OPENAT[arms], 2)):
        if call >= 0:
            yield from _when(call, _when_argument(argument, [_instruction(_ANY_BIT, _WRITING_FLAGS, 1, 0)]))
    commands = [
        _instruction(_EQUAL, command, len(_FCNTL_COMMANDS) - 1 - index, 0 if command != _FCNTL_COMMANDS[-1] else 1)
        for index, command in enumerate(_FCNTL_COMMANDS)
    ]
    yield from _when(_FCNTL[arms], _when_argument(1, commands))
    yield _instruction(_RETURN, _REFUSE)


def _when(number: int, then: Sequence[bytes]) -> Iterator[bytes]:
    """Do ``then``, which must return, for one system call; the accumulator holds the number."""
    yield _instruction(_EQUAL, number, 0, len(then))
    yield from then


def _when_argument(index: int, tests: Sequence[bytes]) -> list[bytes]:
    """Load the low half of an argument and allow the call when the tests fall through, else refuse it."""
    return [
        _instruction(_LOAD, 16 + 8 * index),
        *tests,
        _instruction(_RETURN, _ALLOW),
        _instruction(_RETURN, _REFUSE),
    ]


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result
