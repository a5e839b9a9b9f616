"""Why did this start fail? Read from the log lines of one boot of SGLang; pure, and blind to text inside prompts.

A line is taken at its word only where the program itself puts the word: after the time stamp at the start of the line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from autotune.errors import ConfigurationRejected, OutOfMemory, ServerCrashed, ServerError

_TAIL_LINES = 20
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_STAMP = re.compile(r"\[\d{4}-\d\d-\d\d[^\]]*\]\s*")
_ARGPARSE = re.compile(r"(?:[\w./-]+: )?error: (?P<why>.+)", re.IGNORECASE)
_REFUSAL = re.compile(r"(?:[\w.]+\.)?(?:ValueError|AssertionError|NotImplementedError|ConfigurationError): (?P<why>.+)")
_ARGUMENT_CODE = re.compile(r'File ".*(?:server_args|arg_groups|speculative_hook|flags)[^"]*", line \d+')
_MEMORY = re.compile(
    r"(?:Exception: |RuntimeError: |Capture (?:cuda )?graph failed: )*"
    r"(?:(?:torch\.)?(?:cuda\.)?OutOfMemoryError\b"
    r"|CUDA out of memory\b|CUDA error: out of memory\b|HIP out of memory\b"
    r"|MemoryError\b|Not enough memory\b"
    r"|DDTREE draft OOM\b"
    r"|\[enforce fail at [^\]]*\][^:]*: not enough memory\b"
    r"|.{0,80}DefaultCPUAllocator: (?:can't allocate|not enough) memory\b"
    r"|.{0,80}CUBLAS_STATUS_ALLOC_FAILED\b|.{0,80}cudaErrorMemoryAllocation\b)"
)
_FATAL = re.compile(
    r"Received sigquit from a child process|Initialization failed|Scheduler hit an exception"
    r"|Scheduler or DataParallelController|.{0,40}Errno 98\].*address already in use",
    re.IGNORECASE,
)
_EXCEPTION = re.compile(r"(?:[A-Za-z_][\w.]*)(?:Error|Exception|Interrupt)\b")


def strip_line(line: str) -> str:
    """Remove colours, the carriage return and the time stamp of one log line."""
    return _STAMP.sub("", _ESCAPE.sub("", line).strip("\r\n "), count=1)


def find_fatal_line(log_lines: Sequence[str]) -> str | None:
    """Return the first line after which a starting server cannot become ready any more."""
    return next((line for line in map(strip_line, log_lines) if _FATAL.match(line)), None)


def classify_failure(log_lines: Sequence[str], exit_code: int | None) -> ServerError:
    """Say why a boot failed: memory first, since it is also the cause of what follows it; then refused arguments.

    Args:
        log_lines: all lines of the boot.
        exit_code: of the process, negative for a signal; ``None`` while it lives.
    """
    lines = [strip_line(line) for line in log_lines]
    tail = tuple(lines[-_TAIL_LINES:])
    memory = next((line for line in lines if _MEMORY.match(line)), None)
    if memory is not None:
        return OutOfMemory(
            f"out of memory while starting: {memory}",
            hint="this configuration needs more memory than there is",
            log_lines=_with_tail(memory, tail),
        )
    refusal = _find_refusal(lines, exit_code)
    if refusal is not None:
        return ConfigurationRejected(
            f"the server refused its arguments: {refusal}",
            hint="the server's --help says what it takes",
            log_lines=_with_tail(refusal, tail),
        )
    cause = next((line for line in reversed(lines) if _EXCEPTION.match(line)), None) or find_fatal_line(lines)
    return ServerCrashed(
        f"{_say_end(exit_code)}; its last words: {cause or next((line for line in reversed(lines) if line), 'none')}",
        hint="see the end of its log",
        log_lines=tail,
    )


def _find_refusal(lines: Sequence[str], exit_code: int | None) -> str | None:
    """Return the sentence with which the server refused its arguments, if it did."""
    if exit_code is None:
        return None
    if exit_code == 2:
        match = next((found for found in map(_ARGPARSE.match, reversed(lines)) if found), None)
        if match is not None:
            return match["why"]
    if not any(_ARGUMENT_CODE.match(line) for line in lines):
        return None
    match = next((found for found in map(_REFUSAL.match, reversed(lines)) if found), None)
    return None if match is None else match["why"]


def _say_end(exit_code: int | None) -> str:
    if exit_code is None:
        return "the server reported a fatal error"
    if exit_code == -9:
        return "the process was killed by signal 9, perhaps by the kernel for want of memory (see dmesg)"
    if exit_code == -1:
        return "the process ended"
    return f"the process ended by signal {-exit_code}" if exit_code < 0 else f"the process ended with code {exit_code}"


def _with_tail(line: str, tail: tuple[str, ...]) -> tuple[str, ...]:
    return tail if line in tail else (line, *tail)
