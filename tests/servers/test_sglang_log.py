from __future__ import annotations

import pytest

from autotune.errors import ConfigurationRejected, OutOfMemory, ServerCrashed
from autotune.servers.sglang_log import classify_failure, find_fatal_line, find_free_memory, strip_line


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
        "torch.AcceleratorError: CUDA error: out of memory",
        "[2026-01-01 10:00:00 TP0] Scheduler hit an exception: torch.OutOfMemoryError: CUDA out of memory. Tried",
        "Exception: Capture CUDA graph failed: CUDA out of memory",
        "ValueError: Not enough memory. Please increase --mem-fraction-static",
        "RuntimeError: HIP error: out of memory",
        "RuntimeError: CUDA driver error: out of memory",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "  what():  std::bad_alloc",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8.00 GiB",
        "OSError: [Errno 12] Cannot allocate memory",
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
        (["[2026-01-01 10:00:00 TP0] Scheduler hit an exception: boom"], None, "fatal error"),
        (["CUDA out of memory is what many people ask about"], 1, "ended with code 1"),
        (['[2026-01-01 10:00:00] Receive: prompt="torch.OutOfMemoryError: CUDA out of memory"', "boom"], 1, "boom"),
    ],
)
def test_anything_else_is_unexplained(lines: list[str], exit_code: int | None, words: str):
    error = classify_failure(lines, exit_code)

    assert type(error) is ServerCrashed
    assert words in error.message


def test_a_healthy_log_has_no_fatal_line():
    assert find_fatal_line(["[2026-01-01 10:00:00] Load weight end.", "Capture cuda graph begin."]) is None


@pytest.mark.parametrize(
    "line",
    [
        "Initialization failed. warmup error: status 500",
        "Received sigquit from a child process. It usually means the child failed.",
        "Scheduler hit an exception: Traceback (most recent call last):",
    ],
)
def test_only_the_servers_own_record_is_fatal(line: str):
    """A prompt that is logged over several lines may hold the same words."""
    assert find_fatal_line([line]) is None
    assert find_fatal_line([f"[2026-01-01 10:00:00 TP0] {line}"]) == line


@pytest.mark.parametrize("line", ["Initialization failed is what I see", "Scheduler hit an exception? asked the user"])
def test_half_a_phrase_is_not_fatal(line: str):
    assert find_fatal_line([f"[2026-01-01 10:00:00] {line}"]) is None


@pytest.mark.parametrize("exit_code", [0, -2, -15])
def test_a_server_that_was_told_to_end_did_not_run_out_of_memory(exit_code: int):
    assert type(classify_failure(["torch.OutOfMemoryError: CUDA out of memory."], exit_code)) is ServerCrashed


def test_memory_that_ran_out_long_before_the_end_is_not_its_cause():
    lines = [
        "[2026-01-01 10:00:00] The server is fired up and ready to roll!",
        "[2026-01-01 10:00:01] CUDA out of memory. Retracting requests.",
        *(f"[2026-01-01 10:01:00] Decode batch {step}" for step in range(100)),
        "RuntimeError: CUDA error: an illegal memory access was encountered",
    ]

    error = classify_failure(lines, 1)

    assert type(error) is ServerCrashed
    assert "illegal memory access" in error.message


@pytest.mark.parametrize(("was_ready", "words"), [(True, "while serving"), (False, "while starting")])
def test_when_memory_ran_out_is_said(was_ready: bool, words: str):
    before = ["[2026-01-01 10:00:00] The server is fired up and ready to roll!"] if was_ready else []

    error = classify_failure([*before, "torch.OutOfMemoryError: CUDA out of memory."], 1)

    assert type(error) is OutOfMemory
    assert words in error.message


CAPACITY = "max_total_num_tokens=903439, chunked_prefill_size=8192, context_len=131072, available_gpu_mem="


def test_free_memory_is_that_of_the_fullest_gpu():
    lines = [
        f"[2026-01-01 10:00:00 TP0] {CAPACITY}10.26 GB",
        f"[2026-01-01 10:00:00 TP1] {CAPACITY}9.87 GB",
        "[2026-01-01 10:00:09] The server is fired up and ready to roll!",
    ]

    assert find_free_memory(lines) == 9.87


@pytest.mark.parametrize(
    "line",
    [
        f"{CAPACITY}0.01 GB",
        f"[2026-01-01 10:00:00] Receive: obj='{CAPACITY}0.01 GB'",
        "[2026-01-01 10:00:00] max_total_num_tokens=903439, context_len=131072",
        "[2026-01-01 10:00:00] max_total_num_tokens=903439, available_gpu_mem=nan GB",
    ],
)
def test_what_does_not_say_free_memory_in_the_words_of_the_server_says_nothing(line: str):
    assert find_free_memory([line]) is None
