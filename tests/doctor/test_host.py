"""Judgements on the machine of the service, by value."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.deployment.gpu import GpuMemory, GpuProcess
from autotune.deployment.lease_holder import LeaseHolder, parse_holder
from autotune.deployment.port_owner import PortOwner
from autotune.doctor.finding import Level
from autotune.doctor.host import (
    MIB,
    Disk,
    Gpus,
    Leftovers,
    find_gpu_errors,
    is_mounted_read_only,
    judge_disks,
    judge_gpus,
    judge_kernel_log,
    judge_leftovers,
    judge_port,
)
from autotune.errors import HostBusyError, PortTakenError, UnitStateError

GROUP = "/system.slice/sglang.service"
NOTHING = Leftovers(None, None, None, (), has_drop_in=False, restored="")


def holder(machine: str = "another") -> LeaseHolder:
    return parse_holder(f"token=a\nunit=x\nholder=ann@desk, process 7\nstudy=/s\nmachine={machine}\n".encode())


def test_a_host_without_leftovers_is_ok():
    assert judge_leftovers(NOTHING, "kimi").level is Level.OK


def test_a_holder_of_another_machine_is_believed_to_live_and_is_named():
    found = Leftovers(holder(), 400.0, HostBusyError("ann@desk works on x", hint="wait"), (), True, "")

    judged = judge_leftovers(found, "kimi")

    assert (judged.level, judged.branch) == (Level.PROBLEM, HostBusyError)
    assert "ann@desk" in judged.found


def test_a_tuner_on_another_unit_of_the_host_is_named():
    judged = judge_leftovers(Leftovers(None, None, None, ("llm.service",), False, ""), "kimi")

    assert (judged.level, judged.branch) == (Level.PROBLEM, HostBusyError)
    assert "llm.service" in judged.found


def test_our_drop_in_without_a_tuner_is_a_problem_with_the_command_that_mends_it():
    judged = judge_leftovers(Leftovers(None, None, None, (), True, ""), "kimi")

    assert (judged.level, judged.branch) == (Level.PROBLEM, UnitStateError)
    assert "autotune restore kimi" in (judged.advice or "")


def test_a_host_that_restored_itself_says_when():
    judged = judge_leftovers(Leftovers(None, None, None, (), False, "2026-01-01 lease over"), "kimi")

    assert judged.level is Level.WARNING
    assert "2026-01-01 lease over" in judged.found


@pytest.mark.parametrize(
    ("owner", "is_up", "level"),
    [
        (None, False, Level.OK),
        (None, True, Level.WARNING),
        (PortOwner("0.0.0.0", 30000, (7,), None), True, Level.OK),
        (PortOwner("0.0.0.0", 30000, (), GROUP), True, Level.OK),
        (PortOwner("0.0.0.0", 30000, (9,), "/system.slice/x.service"), True, Level.PROBLEM),
        (PortOwner("0.0.0.0", 30000, (), None), True, Level.PROBLEM),
    ],
)
def test_the_port_belongs_to_the_service_or_to_nobody(owner, is_up, level):
    judged = judge_port(owner, GROUP, (7, 8), "0.0.0.0:30000", is_up=is_up)

    assert judged.level is level
    assert level is not Level.PROBLEM or judged.branch is PortTakenError


@pytest.mark.parametrize(
    ("run", "log", "level"),
    [
        (Disk("/run", 100 * MIB, False), Disk("/var/log", 900 * MIB, False), Level.OK),
        (Disk("/run", 1 * MIB, False), Disk("/var/log", 900 * MIB, False), Level.PROBLEM),
        (Disk("/run", 100 * MIB, True), Disk("/var/log", 900 * MIB, False), Level.PROBLEM),
        (Disk("/run", 100 * MIB, False), Disk("/var/log", 9 * MIB, False), Level.WARNING),
    ],
)
def test_drop_in_and_journal_need_room(run, log, level):
    assert judge_disks((run, log)).level is level


def test_the_last_mount_over_a_path_counts():
    mounts = "/dev/sda / ext4 ro 0 0\ntmpfs /run tmpfs rw 0 0\ntmpfs /run/user tmpfs ro 0 0\n"

    assert not is_mounted_read_only(mounts, "/run")
    assert is_mounted_read_only(mounts, "/var/log")
    assert is_mounted_read_only(mounts + "tmpfs /run tmpfs ro 0 0\n", "/run")
    assert not is_mounted_read_only("", "/run")


NAMES = {"a": "GPU 0", "b": "GPU 1"}


@pytest.mark.parametrize(
    ("memory", "pids", "is_up", "level"),
    [
        (None, (), True, Level.WARNING),
        (GpuMemory({"a": 80000, "b": 3}, NAMES, (GpuProcess("a", 7, 79000),)), (7,), True, Level.OK),
        (GpuMemory({"a": 3, "b": 3}, NAMES), (), False, Level.OK),
        (GpuMemory({"a": 80000, "b": 3}, NAMES), (), False, Level.PROBLEM),
        (
            GpuMemory({"a": 80000, "b": 3}, NAMES, (GpuProcess("a", 7, 70000), GpuProcess("a", 9, 9000))),
            (7,),
            True,
            Level.PROBLEM,
        ),
        (
            GpuMemory({"a": 80000, "b": 9000}, NAMES, (GpuProcess("a", 7, 70000), GpuProcess("b", 9, 9000))),
            (7,),
            True,
            Level.OK,
        ),
        (
            GpuMemory({"a": 80000}, NAMES, (GpuProcess("a", 7, 70000), GpuProcess("a", 9, 300))),
            (7,),
            True,
            Level.OK,
        ),
    ],
)
def test_memory_of_others_on_the_gpus_of_the_service_is_a_problem(memory, pids, is_up, level):
    assert judge_gpus(Gpus(memory, pids), 1024, is_up=is_up).level is level


KERNEL = """\
2026-01-01T00:00:00 gpu1 kernel: NVRM: loading NVIDIA UNIX x86_64 Kernel Module
2026-01-01T00:00:01 gpu1 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.
2026-01-01T00:00:02 gpu1 kernel: amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1
2026-01-01T00:00:03 gpu1 kernel: usb 1-1: new device named Xid
"""


def test_errors_of_gpus_are_found_among_the_lines_of_the_kernel():
    lines = find_gpu_errors(KERNEL)

    assert [line[17:19] for line in lines] == ["01", "02"]
    assert judge_kernel_log(lines).level is Level.WARNING
    assert judge_kernel_log(()).level is Level.OK
    assert judge_kernel_log(None).level is Level.SKIPPED


def test_an_apply_that_never_ended_is_a_problem_with_its_way_out():
    half_done = UnitStateError("an apply of trial 3 never ended", hint="run `autotune rollback kimi`")

    judged = judge_leftovers(replace(NOTHING, half_done=half_done), "kimi")

    assert judged.level is Level.PROBLEM
    assert "never ended" in judged.found
    assert "rollback kimi" in str(judged.advice)
