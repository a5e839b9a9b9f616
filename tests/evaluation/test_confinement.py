"""The filter is run here on a small interpreter, so that both machines are tested on either."""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

import pytest

from autotune.evaluation.confinement import readable_paths, render_filter, shown_paths

ALLOW, REFUSE, MISSING = 0x7FFF0000, 0x00050001, 0x00050026
WORDS = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
PID = 4321
THREAD = 0x3D0F00
"""Flags with which glibc starts a thread."""
FORK = 0x1200011


def decide(machine: str, number: int, *arguments: int, word: int | None = None) -> int:
    """What the filter says about one system call."""
    program = list(struct.iter_unpack("HBBI", b"".join(render_filter(machine, PID))))
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number, WORDS[machine] if word is None else word, 0, *padded)
    accumulator = at = 0
    while True:
        code, if_true, if_false, value = program[at]
        at += 1
        if code == 0x06:
            return int(value)
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, value)
            continue
        holds = {0x15: accumulator == value, 0x45: bool(accumulator & value), 0x35: accumulator >= value}[code]
        at += if_true if holds else if_false


@pytest.mark.parametrize(
    ("x86", "arm", "arguments", "expected"),
    [
        (0, 63, (), ALLOW),  # read
        (1, 64, (), ALLOW),  # write
        (9, 222, (), ALLOW),  # mmap
        (202, 98, (), ALLOW),  # futex
        (231, 94, (), ALLOW),  # exit_group
        (41, 198, (2, 1, 0), REFUSE),  # socket
        (42, 203, (), REFUSE),  # connect
        (53, 199, (), REFUSE),  # socketpair
        (59, 221, (), REFUSE),  # execve
        (322, 281, (), REFUSE),  # execveat
        (62, 129, (PID, 9), REFUSE),  # kill
        (200, 130, (PID, 9), REFUSE),  # tkill
        (424, 424, (), REFUSE),  # pidfd_send_signal
        (101, 117, (), REFUSE),  # ptrace
        (310, 270, (), REFUSE),  # process_vm_readv
        (311, 271, (), REFUSE),  # process_vm_writev
        (165, 40, (), REFUSE),  # mount
        (272, 97, (), REFUSE),  # unshare
        (308, 268, (), REFUSE),  # setns
        (319, 279, (), REFUSE),  # memfd_create
        (321, 280, (), REFUSE),  # bpf
        (425, 425, (), REFUSE),  # io_uring_setup
        (437, 437, (), REFUSE),  # openat2
        (16, 29, (), REFUSE),  # ioctl
        (157, 167, (), REFUSE),  # prctl
        (302, 261, (), REFUSE),  # prlimit64
        (435, 435, (), MISSING),  # clone3: the C library then uses clone
        (56, 220, (THREAD,), ALLOW),
        (56, 220, (FORK,), REFUSE),
        (56, 220, (FORK | 1 << 40,), REFUSE),
        (234, 131, (PID, PID, 6), ALLOW),  # tgkill
        (234, 131, (PID + 1, PID + 1, 6), REFUSE),
        (257, 56, (0, 0, os.O_RDONLY | os.O_CLOEXEC), ALLOW),  # openat
        (257, 56, (0, 0, os.O_WRONLY), REFUSE),
        (257, 56, (0, 0, os.O_RDWR), REFUSE),
        (257, 56, (0, 0, os.O_CREAT), REFUSE),
        (257, 56, (0, 0, os.O_TRUNC), REFUSE),
        (72, 25, (3, 1), ALLOW),  # fcntl F_GETFD
        (72, 25, (3, 1030), ALLOW),  # F_DUPFD_CLOEXEC
        (72, 25, (3, 8), REFUSE),  # F_SETOWN
        (72, 25, (3, 10), REFUSE),  # F_SETSIG
        (72, 25, (3, 1031), REFUSE),  # F_SETPIPE_SZ
    ],
)
def test_the_filter_decides_alike_on_both_machines(x86, arm, arguments, expected):
    assert expected == decide("x86_64", x86, *arguments)
    assert expected == decide("aarch64", arm, *arguments)


@pytest.mark.parametrize(
    ("number", "arguments"), [(57, ()), (58, ()), (2, (0, os.O_WRONLY)), (85, ()), (0x40000000, ())]
)
def test_old_calls_of_x86_are_no_way_around(number, arguments):
    """fork, vfork, open for writing, creat, and the x32 table."""
    assert decide("x86_64", number, *arguments) == REFUSE


def test_reading_through_the_old_open_is_allowed():
    assert decide("x86_64", 2, 0, os.O_RDONLY) == ALLOW


@pytest.mark.parametrize("machine", WORDS)
def test_another_architecture_than_expected_is_refused_whole(machine):
    assert decide(machine, 0 if machine == "x86_64" else 63, word=0x40000003) == REFUSE


def test_installed_packages_and_the_secret_folder_cannot_be_read():
    library = Path(os.__file__).parent
    paths = [Path(path) for path in readable_paths(str(library / "json"))]

    assert library / "re" in paths or library / "re.py" in paths
    assert not {"site-packages", "dist-packages", "json"} & {path.name for path in paths if path.parent == library}
    assert Path("/") not in paths
    assert Path(sys.prefix) not in paths


def test_a_library_folder_that_holds_the_secret_is_left_out():
    paths = list(readable_paths(os.path.realpath("/usr/lib64")))

    assert "/usr/lib64" not in paths
    assert "/lib64" not in paths


def test_libraries_beside_a_python_of_its_own_can_be_read_and_nothing_else_there(tmp_path, monkeypatch):
    library = tmp_path / "lib" / "python3.11"
    (library / "json").mkdir(parents=True)
    for path in (tmp_path / "lib/libz.so.1", tmp_path / "lib/notes.txt", library / "os.py"):
        path.touch()
    monkeypatch.setattr(os, "__file__", str(library / "os.py"))

    paths = set(readable_paths("/nowhere"))

    assert {str(tmp_path / "lib/libz.so.1"), str(library / "json"), str(library / "os.py")} <= paths
    assert str(tmp_path / "lib/notes.txt") not in paths
    assert str(tmp_path / "lib") not in paths
    assert shown_paths()[:2] == [str(library), str(tmp_path / "lib")]


def test_what_the_system_has_installed_brings_no_libraries_of_its_own(monkeypatch):
    monkeypatch.setattr(os, "__file__", "/usr/lib/python3.11/os.py")

    assert "/usr/lib" not in shown_paths()
