"""What the GPU tools print."""

from __future__ import annotations

import pytest

from autotune.deployment.gpu import (
    GpuProcess,
    find_busy,
    find_foreign,
    find_gpus_of,
    parse_nvidia,
    parse_rocm,
    read_gpu_memory,
)
from autotune.deployment.host import CommandOutput
from autotune.errors import HostError
from tests.deployment.scripted_host import ScriptedHost

NVIDIA = "0, GPU-a, 71234\n1, GPU-b, 3\n2, GPU-c, [N/A]\n"
PROCESSES = "GPU-a, 4711, 71000\nGPU-b, 4712, [N/A]\n"
ROCM = (
    "WARNING: AMD GPU device(s) is/are in a low-power state\n"
    '{"card0": {"VRAM Total Memory (B)": "206141652992", "VRAM Total Used Memory (B)": "314572800"},'
    ' "card1": {"VRAM Total Memory (B)": "206141652992", "VRAM Total Used Memory (B)": "10737418240"},'
    ' "system": {"Driver version": "6.7.0"}}\n'
)


def test_memory_and_processes_of_nvidia():
    memory = parse_nvidia(NVIDIA, PROCESSES)

    assert memory.used_mb == {"GPU-a": 71234, "GPU-b": 3}
    assert memory.names == {"GPU-a": "GPU 0", "GPU-b": "GPU 1", "GPU-c": "GPU 2"}
    assert memory.processes == (GpuProcess("GPU-a", 4711, 71000), GpuProcess("GPU-b", 4712, None))


def test_memory_of_rocm():
    memory = parse_rocm(ROCM)

    assert memory.used_mb == {"card0": 300, "card1": 10240}
    assert memory.names == {"card0": "GPU 0", "card1": "GPU 1"}


@pytest.mark.parametrize("text", ["", "No devices were found\n", "1, 2\n"])
def test_no_table_is_no_idle_gpu(text):
    with pytest.raises(HostError, match="no table"):
        parse_nvidia(text)
    with pytest.raises(HostError, match="no table"):
        parse_rocm(text)


def test_only_gpus_above_the_idle_level_are_busy():
    memory = parse_nvidia("0, a, 1024\n1, b, 1025\n2, c, 9000\n")

    assert find_busy(memory, frozenset(), 1024) == ("b", "c")
    assert find_busy(memory, frozenset({"a", "b"}), 1024) == ("b",)
    assert find_busy(memory, frozenset({"a"}), 1024) == ()


def test_the_gpus_of_a_service_are_those_its_processes_use():
    memory = parse_nvidia(NVIDIA, PROCESSES)

    assert find_gpus_of(memory, (4712, 1)) == {"GPU-b"}
    assert find_gpus_of(memory, ()) == frozenset()


def test_others_on_the_gpus_of_a_service_are_foreign_unless_what_they_hold_may_stay():
    memory = parse_nvidia("0, a, 90000\n1, b, 9000\n", "a, 1, 80000\na, 2, 9000\na, 3, 300\na, 4, [N/A]\nb, 5, 9000\n")

    assert [item.pid for item in find_foreign(memory, (1,), 1024)] == [2, 4]
    assert [item.pid for item in find_foreign(memory, (1,), 10_000)] == [4]
    assert [item.pid for item in find_foreign(memory, (), 1024)] == [1, 2, 4, 5], "a service that is off may use any"


def test_a_host_without_a_tool_is_unknown_not_idle():
    assert read_gpu_memory(ScriptedHost(lambda _command, _stdin: CommandOutput(127, b"", b"not found"))) is None


def test_a_tool_that_fails_is_the_hosts_fault():
    host = ScriptedHost(lambda _command, _stdin: CommandOutput(9, b"", b"NVIDIA-SMI has failed: driver"))

    with pytest.raises(HostError, match="NVIDIA-SMI has failed"):
        read_gpu_memory(host)


def test_rocm_is_asked_where_there_is_no_nvidia():
    host = ScriptedHost(
        lambda command, _stdin: (
            CommandOutput(127, b"", b"") if command[0] == "nvidia-smi" else CommandOutput(0, ROCM.encode(), b"")
        )
    )

    memory = read_gpu_memory(host)

    assert memory is not None
    assert memory.used_mb["card1"] == 10240
