from __future__ import annotations

import pytest

from autotune.errors import ConfigurationRejected, OutOfMemory, ServerCrashed
from autotune.servers.sglang_log import classify_failure, find_fatal_line, strip_line


@pytest.mark.parametrize(
    "line",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 448.00 MiB. GPU 0 has a total capacity of 94 GiB",
        "torch.cuda.OutOfMemoryError: CUDA out of memory.",
        "[2026-01-01 10:00:00 TP3] RuntimeError: CUDA out of memory. Tried to allocate 1 GiB",
        "RuntimeError: CUDA error: out of memory",
        "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 20.00 MiB",
        "\x1b[31mRuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\x1b[0m\r",
        "DDTREE draft OOM when allocating 64 block tokens.",
        "MemoryError",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: 4 bytes",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    ],
)
def test_memory_that_ran_out_is_the_configurations_fault(line: str):
    """Case 8: several shapes of one cause, whatever is logged after it."""
    after = "Received sigquit from a child process. It usually means the child failed."

    error = classify_failure(["Load weight begin.", line, after], 1)

    assert type(error) is OutOfMemory
    assert strip_line(line) in error.log_lines


@pytest.mark.parametrize(
    ("lines", "exit_code", "reason"),
    [
        (
            ["usage: launch_server.py [-h]", "launch_server.py: error: unrecognized arguments: --speculative-x 1"],
            2,
            "unrecognized arguments: --speculative-x 1",
        ),
        (
            ["Usage: autotune serve [OPTIONS]", "Error: Invalid value for '--speculative-ddtree-budget': 'x'"],
            2,
            "Invalid value for '--speculative-ddtree-budget': 'x'",
        ),
        (
            [
                "Traceback (most recent call last):",
                '  File "/sglang/srt/server_args.py", line 900, in check_server_args',
                "ValueError: DDTREE requires page_size 1.",
            ],
            1,
            "DDTREE requires page_size 1.",
        ),
    ],
)
def test_refused_arguments_are_quoted(lines: list[str], exit_code: int, reason: str):
    error = classify_failure(lines, exit_code)

    assert type(error) is ConfigurationRejected
    assert error.message.endswith(reason)


@pytest.mark.parametrize(
    ("lines", "exit_code", "words"),
    [
        (["Load weight begin.", "RuntimeError: CUDA error: an illegal memory access"], 1, "illegal memory access"),
        (["ValueError: too many values to unpack"], 1, "too many values"),
        ([], 1, "ended with code 1"),
        ([], -9, "dmesg"),
        ([], -11, "signal 11"),
        (["Scheduler hit an exception: boom"], None, "fatal error"),
        (['[2026-01-01 10:00:00] Receive: prompt="torch.OutOfMemoryError: CUDA out of memory"', "boom"], 1, "boom"),
    ],
)
def test_anything_else_is_unexplained(lines: list[str], exit_code: int | None, words: str):
    error = classify_failure(lines, exit_code)

    assert type(error) is ServerCrashed
    assert words in error.message


def test_a_healthy_log_has_no_fatal_line():
    assert find_fatal_line(["[2026-01-01 10:00:00] Load weight end.", "Capture cuda graph begin."]) is None
