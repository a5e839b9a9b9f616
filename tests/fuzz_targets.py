"""Which readers of untrusted input are fuzzed, on what, and what must hold of them beside raising nothing?

One entry a reader and nothing else; the file is long because there are many readers.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import orjson
from hypothesis import strategies as st

from autotune.benchmark.chat_chunk import ChatChunk, Usage, explain_error, parse_chunk, parse_usage
from autotune.benchmark.chat_stream import ChatStream
from autotune.benchmark.native_chunk import NativeReader
from autotune.benchmark.request_record import Outcome, RequestRecord
from autotune.benchmark.saved_result import load_result
from autotune.benchmark.server_info import read_info
from autotune.benchmark.server_log import mean_accept_length, parse_line, parse_lines, parse_message
from autotune.benchmark.sse import SseDecoder, SseEvent
from autotune.benchmark.text_sanity import look_at_text
from autotune.benchmark.wire import _Connection
from autotune.deployment import gpu, gpu_activity
from autotune.deployment.journal import parse_entries
from autotune.deployment.port_owner import parse_owners
from autotune.deployment.unit_file import parse_service, parse_settings, split_words
from autotune.errors import AutotuneError
from autotune.evaluation.evalplus_file import load_tasks
from autotune.evaluation.extract import Extraction, extract_code, has_definition
from autotune.evaluation.saved_evaluation import load_evaluation
from autotune.initial_study import discovery
from autotune.initial_study.help_text import parse_help
from autotune.initial_study.request_lengths import read_lengths
from autotune.servers.server_metrics import parse_metrics, subtract
from autotune.servers.sglang_log import classify_failure, find_fatal_line, find_free_memory
from autotune.servers.sglang_traffic import count_in_loads, count_in_metrics


@dataclass(frozen=True, slots=True)
class Target:
    """One reader: ``check`` raises what nobody expects; errors of :mod:`autotune.errors` are expected."""

    name: str
    strategy: st.SearchStrategy[Any]
    check: Callable[[Any], None]


_MARKS = "\n\r\t \"'\\{}[]:,;`$%#<>|\0\x1b\ufeff\u2028\x85"
_LEAVES: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 7, 2**63, -(2**63) - 1, 10**400, 1e308, -0.0, 0.5, float("inf"), float("nan")),
    *("", "stop", "abort", "1", "the", "\ud800", "\x00", "中", [], {}),
)
_DEEPEST = 6


def texts(*pieces: str) -> st.SearchStrategy[str]:
    """Texts made of pieces that mean something to a reader, of beginnings of them, and of any characters in between.

    Drawn as bytes that say what comes next: that is far faster than drawing lists, and shrinks as well.
    """

    def build(program: bytes) -> str:
        steps, text = iter(program), []
        for step in steps:
            piece = pieces[step % len(pieces)]
            if step < 150:
                text.append(piece)
            elif step < 190:
                text.append(piece[: next(steps, 0) % (len(piece) + 1)])
            elif step < 230:
                text.append(_MARKS[step % len(_MARKS)])
            else:
                text.append(chr(next(steps, 65) | (next(steps, 0) << 8)))
        return "".join(text)

    return st.binary(max_size=40).map(build)


def raw(strategy: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
    """The same in UTF-8, mostly with bytes that are none in between."""
    return st.tuples(strategy, st.binary(max_size=5), st.integers(0, 300)).map(
        lambda parts: _insert(parts[0].encode("utf-8", "surrogatepass"), parts[1], parts[2])
    )


def _insert(data: bytes, more: bytes, at: int) -> bytes:
    return data[:at] + more + data[at:]


def values(*names: str) -> st.SearchStrategy[Any]:
    """JSON values whose objects have the names that a reader looks for, with whatever in them."""

    def build(steps: Iterator[int], depth: int) -> Any:
        step = next(steps, 0)
        if depth == _DEEPEST or step < 90:
            return _LEAVES[step % len(_LEAVES)]
        size = step % 5
        if step < 130:
            return [build(steps, depth + 1) for _ in range(size)]
        return {names[next(steps, 0) % len(names)]: build(steps, depth + 1) for _ in range(size)}

    return st.binary(max_size=60).map(lambda program: build(iter(program), 0))


CHUNK_NAMES = (
    *("choices", "delta", "content", "reasoning_content", "reasoning", "tool_calls", "function", "name", "arguments"),
    *("usage", "prompt_tokens", "completion_tokens", "prompt_tokens_details", "cached_tokens", "reasoning_tokens"),
    *(
        "completion_tokens_details",
        "finish_reason",
        "error",
        "message",
        "detail",
        "object",
        "meta_info",
        "spec_verify_ct",
    ),
)
WRAPPERS: tuple[Callable[[Any], Any], ...] = (
    lambda value: value,
    lambda delta: {"choices": [{"delta": delta}]},
    lambda choice: {"choices": [choice]},
    lambda usage: {"choices": [], "usage": usage},
)
CHUNKS = st.tuples(st.sampled_from(WRAPPERS), values(*CHUNK_NAMES)).map(
    lambda pair: json.dumps(pair[0](pair[1])).encode()
)
MARKS_OF_EVENTS = (
    b"data: [DONE]\n\n",
    b": ping\n\n",
    b"event: error\n",
    b"id: 1\n",
    b"data\n",
    b"\n",
    b"\r",
    b"\xef\xbb\xbf",
)
FRAMES = (b"data: %b\n\n", b"data: %b\n\n", b"data:%b\r\n\r\n", b"data: %b\r", b"%b\n", b"data: %b\nevent: error\n\n")
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(FRAMES), CHUNKS).map(lambda pair: pair[0] % pair[1]),
        st.sampled_from(MARKS_OF_EVENTS),
        st.binary(max_size=10),
    ),
    max_size=8,
).map(b"".join)
CUTS = st.binary(max_size=24).map(lambda sizes: [size % 40 + 1 for size in sizes])
NATIVE_NAMES = (
    "text",
    "output_ids",
    "meta_info",
    "completion_tokens",
    "finish_reason",
    "type",
    "spec_verify_ct",
    "error",
)
NATIVE_WRAPPERS: tuple[Callable[[Any], Any], ...] = (
    lambda value: value,
    lambda info: {"text": "the text", "meta_info": info},
    lambda text: {"text": text, "output_ids": [1], "meta_info": {"completion_tokens": 2}},
)
NATIVE_EVENTS = st.lists(
    st.tuples(st.sampled_from(NATIVE_WRAPPERS), values(*NATIVE_NAMES)).map(
        lambda pair: json.dumps(pair[0](pair[1])).encode()
    ),
    max_size=4,
)
HTTP = raw(
    texts(
        *("HTTP/1.1 200 OK\r\n", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.0 200 OK\r\n", "HTTP/1.1 204 No Content\r\n"),
        *(
            "Content-Length: 5\r\n",
            "Content-Length: 99999999999999999999\r\n",
            "Transfer-Encoding: chunked\r\n",
            "\r\n",
        ),
        *(
            "Transfer-Encoding: gzip, chunked\r\n",
            "Connection: close\r\n",
            "Connection: upgrade\r\nUpgrade: x\r\n",
            "5\r\nabcde\r\n",
        ),
        *("0\r\n\r\n", "0\r\nTrailer: x\r\n\r\n", "ffffffffffffffffff\r\n", "abcde", "1;a=b\r\nx\r\n"),
    )
)
METRICS = texts(
    *(
        "# HELP x y\n",
        "# TYPE x counter\n",
        "sglang:generation_tokens_total",
        "sglang:spec_verify_calls_total",
        "\n",
        " 12.0\n",
    ),
    *(
        '{tp_rank="0",dp_rank="1"} ',
        '{a="\\"}',
        " NaN\n",
        " +Inf\n",
        " 1e999\n",
        " -5\n",
        " 1_0\n",
        "vllm:num_requests_running",
    ),
    *("sglang:num_running_reqs 3.0\n", 'sglang:num_queue_reqs{x="y"} 2\n', " 12 1700000000000\n", ' 3 # {a="b"} 1\n'),
)
LOG = texts(
    *(
        "[2026-07-20 11:22:33 TP0] ",
        "Decode batch, ",
        "Decode batch. ",
        "Decode batch [12], ",
        "#running-req: 32, ",
        "#token: 9, ",
    ),
    *(
        "token usage: 0.00, ",
        "accept len: 6.10, ",
        "accept rate: 0.61, ",
        "cuda graph: True, ",
        "gen throughput (token/s): 429.69, ",
    ),
    *(
        "#queue-req: 0,",
        "accept len: nan",
        "accept len: 1e999, ",
        "#running-req: 99999999999999999999999, ",
        "\n",
        "\x1b[32m",
        "\x1b[",
    ),
    *(
        '{"MESSAGE": "Decode batch, #running-req: 1"}',
        '{"MESSAGE": [68, 101, 300, -1, null]}',
        "torch.OutOfMemoryError: CUDA",
        "Traceback",
    ),
    *(
        "RuntimeError: ",
        "Not enough memory",
        "error: unrecognized arguments: --x",
        "The server is fired up and ready to roll!",
    ),
)
ANSWER = texts(
    *(
        "```python\n",
        "```\n",
        "~~~\n",
        "````py\n",
        "```",
        "<think>",
        "</think>",
        "◁think▷",
        "◁/think▷",
        "<code>",
        "</code>",
    ),
    *(
        "def add(a, b):\n    return a + b\n",
        "def add(",
        "class add:\n    pass\n",
        "import os\n",
        "add = lambda a: a\n",
        "\n    ",
        "\t",
    ),
    *(
        "[PYTHON]\n",
        "[/PYTHON]\n",
        "> ```\n",
        "1. ```python\n",
        "Here is the code:\n",
        "add",
        "if __name__ == '__main__':\n    main()\n",
    ),
    *(
        "(" * 300,
        "-" * 200,
        '"""',
        "async def add():\n  yield\n",
        "@dec\n",
        "\\\n",
        "|im_end|>",
        "x = " + "(" * 120 + ")" * 120 + "\n",
    ),
)
UNIT = texts(
    *(
        "[Service]\n",
        "[Unit]\n",
        "ExecStart=",
        "ExecStart=\n",
        "Environment=",
        '"A=b c" ',
        "\\\n",
        "\\x41",
        "\\u0041",
        "\\101 ",
        "%h",
        "%%",
    ),
    *(
        "$NAME ",
        "${NAME}",
        "/usr/bin/python3 -m sglang.launch_server ",
        "--model-path /m ",
        "; ",
        "# why\n",
        "@-:+!",
        "'",
        '"',
        " \\; ",
        "\n",
    ),
    *(
        "/bin/bash -c 'exec x'\n",
        "--flag=1 ",
        "\\",
        "\\q",
        "\\xZZ",
        "\\U0010FFFF",
        "\\777",
        "EnvironmentFile=-/etc/x\n",
    ),
)
HELP = texts(
    *(
        "usage: x [-h]\n",
        "options:\n",
        "  --flag FLAG  what it is (default: 3)\n",
        "  -a, --all {x,y}\n",
        "    more text\n",
        "  --b [B]",
        "{",
        "}",
    ),
    *("  --c {a,b,c}  one [default: b]\n", "  --d  \n", "--", "  --e E [E ...]\n", ", ", "(default: ", "[", "]", "  "),
)


def pieces(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """Cut data into pieces of the given sizes, the rest last."""
    cut, at = [], 0
    for size in cuts:
        cut.append(data[at : at + size])
        at += size
    return [*cut, data[at:]]


def check_sse(case: tuple[bytes, list[int]]) -> None:
    """The same events come out however the bytes are cut."""
    data, cuts = case

    def decode(parts: Sequence[bytes]) -> list[SseEvent]:
        decoder = SseDecoder()
        events = [event for part in parts for event in decoder.feed(part, 1.0)]
        return [*events, *decoder.finish(1.0)]

    assert decode(pieces(data, cuts)) == decode([data]) == decode([data[i : i + 1] for i in range(len(data))])


def check_chunk(data: bytes) -> None:
    """Every text can be written as UTF-8, counts are counts, and an error stands alone."""
    chunk = parse_chunk(data)
    explain_error(data)
    for text in (chunk.content, chunk.reasoning, chunk.tool_text, chunk.finish_reason or "", chunk.error or ""):
        text.encode()
    if chunk.usage is not None:
        check_counts(chunk.usage)
    assert chunk.error is None or chunk == ChatChunk(error=chunk.error)


def check_counts(usage: Usage) -> None:
    """A count is a whole number of zero or more, or not known."""
    assert all(count is None or (type(count) is int and count >= 0) for count in usage)


def check_native(events: list[bytes]) -> None:
    """As :func:`check_chunk`, for the events of one answer of ``/generate``."""
    reader = NativeReader()
    for data in events:
        chunk = reader.read(data)
        for text in (chunk.content, chunk.finish_reason or "", chunk.error or ""):
            text.encode()
        if chunk.usage is not None:
            check_counts(chunk.usage)


def check_usage(value: Any) -> None:
    """As :func:`check_counts`, for any JSON value."""
    usage = parse_usage(value)
    if usage is not None:
        check_counts(usage)


def check_stream(case: tuple[bytes, list[int]]) -> None:
    """One record however the bytes are cut, and it can be written."""
    data, cuts = case

    def record(parts: Sequence[bytes]) -> RequestRecord:
        stream = ChatStream()
        for part in parts:
            stream.feed(part, 1.0)
        return stream.close(prompt_id="p", repeat=0, seed=1, sent_at_s=0.0, ended_at_s=2.0, max_tokens=8)

    whole = record([data])
    assert record(pieces(data, cuts)) == whole
    assert whole.chunk_tokens is None or len(whole.chunk_tokens) == len(whole.chunk_at_s)
    assert whole.output_tokens is None or whole.output_tokens >= 0
    orjson.dumps(whole.to_json())


def check_wire(case: tuple[bytes, list[int]]) -> None:
    """An answer, or an error of httpx, and never a wait for ever."""
    data, cuts = case

    async def receive() -> None:
        connection = _Connection()
        connection.attach(_NoLink())
        sending = asyncio.ensure_future(connection.send(b"", b"", lambda _connection: None, lambda: None))
        await asyncio.sleep(0)
        for part in pieces(data, cuts):
            connection.receive(part, 1.0)
        connection.lose(None)
        _status, _headers, body = await sending
        await body.drain(lambda _data, _at_s: None)

    with contextlib.suppress(httpx.TransportError):
        asyncio.run(receive())


class _NoLink:
    is_closed = False

    async def write(self, data: bytes) -> None:
        del data

    def abort(self) -> None:
        self.is_closed = True


def check_metrics(case: tuple[str, str]) -> None:
    """Samples are finite."""
    before, after = case
    samples = parse_metrics(before)
    assert all(abs(value) < float("inf") for value in samples.values())
    subtract(samples, parse_metrics(after))
    count_in_metrics(before, after)


def check_log(case: tuple[str, bytes]) -> None:
    """Figures of a line are finite; every line can be read alone and with the others."""
    text, data = case
    lines: list[str | bytes] = [*text.split("\n"), *data.split(b"\n")]
    found = parse_lines(lines)
    assert found == [line for line in map(parse_line, lines) if line is not None]
    mean = mean_accept_length(found)
    assert mean is None or 1 <= mean < float("inf")
    plain = text.split("\n")
    find_fatal_line(plain)
    classify_failure(plain, 1)
    free_gb = find_free_memory(plain)
    assert free_gb is None or 0 <= free_gb < float("inf")


def check_code(case: tuple[str, str, str | None, bool]) -> None:
    """Code that is found is text that can be written."""
    content, reasoning, finish_reason, thinks = case
    found: Extraction = extract_code(content, "add", reasoning=reasoning, finish_reason=finish_reason, thinks=thinks)
    if found.code is not None:
        has_definition(found.code, "add")
    record = RequestRecord(
        "p", 0, 1, 0.0, 1.0, Outcome.OK, finish_reason=finish_reason, text=content, reasoning=reasoning
    )
    look_at_text([record, dataclasses.replace(record, prompt_id="q")])


def check_unit(text: str) -> None:
    """Words and settings, or an error of ours."""
    list(parse_settings(text))
    list(split_words(text, keep_unknown=True))
    parse_service(text)


def check_json_bodies(value: Any) -> None:
    """What a server says of itself and of its load."""
    read_info(value)
    count_in_loads(value)
    parse_message(value)


def check_journal(data: bytes) -> None:
    """Lines, or an error of ours."""
    parse_entries(data)


def check_tools(text: str) -> None:
    """What the tools of a host print."""
    gpu.parse_nvidia(text, text)
    gpu.parse_rocm(text)
    gpu_activity.parse_nvidia(text)
    gpu_activity.parse_rocm(text)
    discovery.parse_nvidia(text)
    discovery.parse_rocm(text)
    parse_owners(text)
    read_lengths(text.split("\n"))


def check_saved(data: bytes) -> None:
    """A file of results that somebody names is one, or an error of ours."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "saved.json"
        path.write_bytes(data)
        for load in (load_result, load_evaluation, load_tasks):
            with contextlib.suppress(AutotuneError):
                load(path)


def check_help(text: str) -> None:
    """Flags, whatever a program prints."""
    parse_help(text)


TOOLS = texts(
    *(
        "0, 81559 MiB, 1234 MiB\n",
        "GPU-1a2b, 4096, 81559\n",
        "1234, GPU-1a2b, 512 MiB\n",
        "[N/A]",
        "[Not Supported]",
        "NVIDIA H200, ",
        "\n",
        ", ",
    ),
    *(
        '{"card0": {"VRAM Total Memory (B)": "1", "VRAM Total Used Memory (B)": "x"}}',
        '{"card0": {}}',
        "{",
        "}",
        "[]",
        "null",
        '"card1": 3',
    ),
    *(
        'LISTEN 0 128 127.0.0.1:30000 0.0.0.0:* users:(("python",pid=12,fd=3))\n',
        "users:((",
        "pid=",
        "[::]:22",
        "*:80 ",
        "0x1f",
    ),
    *(
        "Prefill batch, #new-seq: 1, #new-token: 9, #cached-token: 0, #running-req: 1\n",
        "#new-token: 99999999999999999999",
        "1e999",
        "-1",
    ),
)
SAVED_NAMES = (
    *(
        "kind",
        "version",
        "cells",
        "cell",
        "context",
        "concurrency",
        "measurement",
        "value",
        "count",
        "low",
        "high",
        "results",
        "problem",
    ),
    *(
        "verdict",
        "task_id",
        "prompt",
        "entry_point",
        "canonical_solution",
        "base_input",
        "plus_input",
        "contract",
        "atol",
        "assertion",
    ),
)

INFO_WRAPPERS: tuple[Callable[[Any], Any], ...] = (
    lambda value: value,
    lambda state: {"internal_states": [state]},
    lambda args: {"server_args": args},
    lambda rank: {"loads": [rank]},
    lambda rank: [rank],
)
INFO_LEAVES = values(
    *("internal_states", "server_args", "avg_spec_accept_length", "speculative_num_draft_tokens", "version", "loads"),
    *("num_reqs", "num_waiting_reqs", "num_running_reqs", "dp_rank", "speculative_algorithm", "MESSAGE"),
)

INFO_VALUES = st.tuples(st.sampled_from(INFO_WRAPPERS), INFO_LEAVES).map(lambda pair: pair[0](pair[1]))

TARGETS = (
    Target("SSE", st.tuples(st.one_of(EVENTS, st.binary(max_size=80)), CUTS), check_sse),
    Target(
        "chat chunk",
        st.one_of(CHUNKS, raw(texts('{"choices":[{"delta":{"content":"', "\\ud800", '"}}]}', "{}", "[" * 50))),
        check_chunk,
    ),
    Target("event of /generate", NATIVE_EVENTS, check_native),
    Target("usage", values(*CHUNK_NAMES), check_usage),
    Target("chat stream", st.tuples(EVENTS, CUTS), check_stream),
    Target("HTTP wire", st.tuples(HTTP, CUTS), check_wire),
    Target("metrics text", st.tuples(METRICS, METRICS), check_metrics),
    Target("server log", st.tuples(LOG, raw(LOG)), check_log),
    Target("server's JSON", INFO_VALUES, check_json_bodies),
    Target(
        "code of an answer",
        st.tuples(ANSWER, st.one_of(st.just(""), ANSWER), st.sampled_from([None, "stop", "length"]), st.booleans()),
        check_code,
    ),
    Target("unit text", UNIT, check_unit),
    Target(
        "journal",
        raw(texts('{"MESSAGE":"x","__CURSOR":"s"}\n', '{"MESSAGE":[1,2]}\n', "{", "}", "\n", '"__CURSOR":1')),
        check_journal,
    ),
    Target("help text", HELP, check_help),
    Target("tools of a host", TOOLS, check_tools),
    Target(
        "saved results",
        st.one_of(values(*SAVED_NAMES).map(lambda value: json.dumps(value).encode()), st.binary()),
        check_saved,
    ),
)
