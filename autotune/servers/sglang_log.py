"""Why did this start fail, or how much memory did it leave? Read from the log of one boot of SGLang; pure, and blind to prompts.

A line is taken at its word only where the program itself puts the word: after the time stamp at the start of the line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from autotune.errors import ConfigurationRejected, OutOfMemory, ServerCrashed, ServerError

_TAIL_LINES = 20
_NEAR_END_LINES = 400  # the tracebacks of all ranks of one start
_NEAR_END_SERVING_LINES = 60  # after that many lines a server has lived on
_LONGEST_LINE = 2000
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_STAMP = re.compile(r"\[\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[^\]]*\]\s*")
_READY = "The server is fired up and ready to roll!"
_ARGPARSE = re.compile(r"(?:[\w./-]+: )?error: (?P<why>.+)", re.IGNORECASE)
_REFUSAL = re.compile(r"(?:[\w.]+\.)?(?:ValueError|AssertionError|NotImplementedError|ConfigurationError): (?P<why>.+)")
_ARGUMENT_CODE = re.compile(r'File ".*(?:server_args|arg_groups|speculative_hook|flags)[^"]*", line \d+')
_MEMORY = re.compile(
    r"(?:Scheduler hit an exception: |Capture (?:cuda|CUDA) graph failed: |(?:[A-Za-z_][\w.]*Error|Exception): )*"
    r"(?:(?:[\w.]+\.)?(?:OutOfMemoryError|_?ArrayMemoryError|MemoryError)(?::|$)"
    r"|(?:CUDA|HIP) out of memory(?:[.:]|$)"
    r"|(?:CUDA|HIP)(?: driver| runtime)? error: out of memory\b"
    r"|[Nn]ot enough memory(?:[.:]|$)"
    r"|DDTREE draft OOM\b"
    r"|\[Errno 12\] Cannot allocate memory\b"
    r"|(?:terminate called after throwing an instance of '|what\(\):\s+)?std::bad_alloc\b"
    r"|\[enforce fail at [^\]]*\][^:]*: not enough memory\b"
    r"|.{0,80}DefaultCPUAllocator: (?:can't allocate|not enough) memory\b"
    r"|.{0,80}CUBLAS_STATUS_ALLOC_FAILED\b|.{0,80}cudaErrorMemoryAllocation\b)"
)
_FATAL = re.compile(
    r"Received sigquit from a child process?\.|Initialization failed\. warmup error:|Scheduler hit an exception: "
    r"|Scheduler or DataParallelController \d+ terminated with |.{0,40}Errno 98\].*address already in use"
)
_CAPACITY = re.compile(r"max_total_num_tokens=\d+, .{0,400}?\bavailable_gpu_mem=(?P<gb>\d{1,6}(?:\.\d{1,6})?) GB")
_ORDERLY_ENDS = (0, -2, -15)
_EXCEPTION = re.compile(r"(?:[A-Za-z_][\w.]*)(?:Error|Exception|Interrupt)\b")


def strip_line(line: str) -> str:
    """Remove colours, the carriage return and the time stamp of one log line."""
    return _split(line)[1]


def find_fatal_line(log_lines: Sequence[str]) -> str | None:
    """Return the first line after which a starting server cannot become ready any more.

    Only a record counts that the server stamped itself: the words of a prompt may say anything.
    """
    return next((text for is_stamped, text in map(_split, log_lines) if is_stamped and _FATAL.match(text)), None)


def find_free_memory(log_lines: Sequence[str]) -> float | None:
    """Return the memory in GB that is free on the fullest GPU when weights, cache and graphs are in place.

    It stands at the end of the line with which each scheduler says what it can hold (``max_total_num_tokens``), the last
    one before a server serves. ``None`` when no line says it.
    """
    found = [
        match["gb"]
        for is_stamped, text in map(_split, log_lines)
        if is_stamped and (match := _CAPACITY.match(text)) is not None
    ]
    return min(map(float, found), default=None)


def classify_failure(log_lines: Sequence[str], exit_code: int | None) -> ServerError:
    """Say why a boot failed: memory first, since it is also the cause of what follows it; then refused arguments.

    Args:
        log_lines: all lines of the boot.
        exit_code: of the process, negative for a signal; ``None`` while it lives.
    """
    records = [_split(line) for line in log_lines]
    lines = [text for _, text in records]
    tail = tuple(lines[-_TAIL_LINES:])
    was_ready = any(is_stamped and text.startswith(_READY) for is_stamped, text in records)
    near_end = lines[-(_NEAR_END_SERVING_LINES if was_ready else _NEAR_END_LINES) :]
    memory = None if exit_code in _ORDERLY_ENDS else next((line for line in near_end if _MEMORY.match(line)), None)
    if memory is not None:
        return OutOfMemory(
            f"out of memory while {'serving' if was_ready else 'starting'}: {memory}",
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
    cause = next((line for line in reversed(near_end) if _EXCEPTION.match(line)), None) or find_fatal_line(log_lines)
    return ServerCrashed(
        f"{_say_end(exit_code)}; its last words: {cause or next((line for line in reversed(lines) if line), 'none')}",
        hint="see the end of its log",
        log_lines=tail,
    )


def _split(line: str) -> tuple[bool, str]:
    """Return whether the server stamped a line, and the line without stamp, colours and what is too long to be read."""
    text = _ESCAPE.sub("", line[:_LONGEST_LINE]).strip("\r\n ")
    stamp = _STAMP.match(text)
    return (False, text) if stamp is None else (True, text[stamp.end() :])


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
