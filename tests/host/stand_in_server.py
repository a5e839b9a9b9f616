"""A quick stand-in for a DDTree server, for faults that a real one does not produce on demand: flags, HTTP, log, GPU memory.

Runs on a test host with the system's Python and nothing else. ``/etc/stand-in-server.json`` holds a list of rules such
as ``{"fault": "crash", "budgets": [0]}``; the first whose ``budgets`` fit the server's own (0 is plain decoding; without
``budgets`` all do) and whose ``times`` are not used up decides what goes wrong. Faults: see :class:`Fault`.
Where it finds a package ``sglang``, each of its steps passes by the worker of that, see ``stand_in_worker.py``.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

RULES: Final = Path("/etc/stand-in-server.json")
STRUCK: Final = Path("/run/stand-in-server")
GPU_MEMORY: Final = Path("/run/fake-gpu")
ESCAPE: Final = Path("/sys/fs/cgroup/escaped")
GPUS: Final = 2
HELD_MB: Final = 80000
ESCAPEE_LIFE_S: Final = 900
WORKER: Final = "sglang.srt.speculative.ddtree_worker"

_OUT_OF_MEMORY: Final = """Scheduler hit an exception: Traceback (most recent call last):
  File "/opt/sglang/srt/model_executor/cuda_graph_runner.py", line 391, in capture
    self.capture_one_batch_size(bs, forward)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.10 GiB. GPU 0 has a total capacity of 94.97 GiB of which 1.20 GiB is free.
"""


class Fault(Enum):
    """What goes wrong; ``seconds`` of the rule says when or for how long, where that matters."""

    CRASH = "crash"
    """Ends at once with a traceback that explains nothing."""
    REFUSE = "refuse"
    """Refuses its arguments."""
    SILENT = "silent"
    """Lives, says nothing and never listens."""
    UNREADY = "unready"
    """Answers 503 for ever, and goes on logging."""
    OUT_OF_MEMORY = "out of memory"
    """Ends after ``seconds`` of loading, as a server does whose graphs do not fit."""
    DIES = "dies"
    """Ends in the middle of the first chat answer."""
    ESCAPES = "escapes"
    """Leaves a process in another control group, which holds GPU memory."""
    DRAINS = "drains"
    """Takes ``seconds`` to end when asked to."""
    SLOW = "slow"
    """Takes ``seconds`` to load."""
    SLOW_STEPS = "slow steps"
    """Takes ``seconds`` more for each step of an answer."""


@dataclass(frozen=True)
class Rule:
    """The fault of this start, if there is one."""

    fault: Fault | None = None
    seconds: float = 0.0


def read_rule(budget: int) -> Rule:
    """Return what goes wrong in this start."""
    try:
        rules: list[dict[str, Any]] = json.loads(RULES.read_text())
    except FileNotFoundError:
        return Rule()
    STRUCK.mkdir(exist_ok=True)
    for number, rule in enumerate(rules):
        struck = STRUCK / str(number)
        times = int(struck.read_text()) if struck.exists() else 0
        if budget in rule.get("budgets", [budget]) and times < rule.get("times", times + 1):
            struck.write_text(str(times + 1))
            return Rule(Fault(rule["fault"]), float(rule.get("seconds", 0.0)))
    return Rule()


def parse_arguments() -> argparse.Namespace:
    """Read the flags of a DDTree server; an unknown one is refused, as there."""
    parser = argparse.ArgumentParser(prog="launch_server", allow_abbrev=False)
    parser.add_argument("--model-path", default="/models/stand-in")
    parser.add_argument("--served-model-name", default="stand-in")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--tp-size", type=int, default=GPUS)
    parser.add_argument("--enable-metrics", action="store_true")
    parser.add_argument("--speculative-algorithm", choices=["DDTREE"])
    parser.add_argument("--speculative-ddtree-budget", type=int)
    parser.add_argument("--speculative-num-draft-tokens", type=int)
    parser.add_argument("--speculative-draft-window-size", type=int)
    return parser.parse_args()


def log(text: str) -> None:
    """Print one stamped line."""
    print(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}] {text}", flush=True)


def hold_gpu_memory(pid: int) -> None:
    """Let the stand-in nvidia-smi see a process on every GPU for as long as it lives."""
    GPU_MEMORY.mkdir(exist_ok=True)
    (GPU_MEMORY / str(pid)).write_text("".join(f"{gpu} {HELD_MB}\n" for gpu in range(GPUS)))


def escape() -> None:
    """Leave a process behind in a control group of its own, deaf to SIGTERM, holding GPU memory."""
    ESCAPE.mkdir(exist_ok=True)
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    (ESCAPE / "cgroup.procs").write_text(str(os.getpid()))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    hold_gpu_memory(os.getpid())
    time.sleep(ESCAPEE_LIFE_S)
    os._exit(0)


class Engine:
    """What the server has done so far.

    Attributes:
        fault: what goes wrong.
        budget: nodes of the draft tree; 0 is plain decoding.
    """

    def __init__(self, arguments: argparse.Namespace, rule: Rule) -> None:
        self.arguments, self.fault = arguments, rule.fault
        self.budget = count_budget(arguments)
        self.tokens_per_step = 1 + min(self.budget, 12) // 4
        self.step_s = 0.004 + 0.00002 * self.budget + (rule.seconds if rule.fault is Fault.SLOW_STEPS else 0.0)
        self.is_ready = False
        self._lock = threading.Lock()
        self._module: Any = importlib.import_module(WORKER) if importlib.util.find_spec("sglang") else None
        self._worker: Any = self._module and self._module.DDTreeWorker(0, self.budget)
        self._begun = 0
        self.running = self.generated = self.prompted = self.verified = 0

    def count(self, *, running: int = 0, generated: int = 0, prompted: int = 0, verified: int = 0) -> None:
        """Add to the counters."""
        with self._lock:
            self.running += running
            self.generated += generated
            self.prompted += prompted
            self.verified += verified

    def begin(self, prompt: str) -> Any:
        """Return a request as the worker knows it; ``None`` where there is no worker."""
        with self._lock:
            self._begun += 1
            return self._module and self._module.Request(f"request-{self._begun}", max(len(prompt) // 4, 1))

    def draft(self, request: Any) -> None:
        """Let the worker draft for a request."""
        if request is not None:
            with self._lock:
                self._worker.take_step(request)

    def commit(self, request: Any, tokens: int) -> None:
        """Let a request go on by so many tokens, or end it with none."""
        if request is not None:
            with self._lock:
                text = request.output_ids
                text += [self._module.token_at(len(text) + more) for more in range(tokens)]
                request.is_over = not tokens

    def describe(self) -> dict[str, Any]:
        """Return what ``/server_info`` says."""
        accept = self.generated / self.verified if self.verified else None
        state = {} if accept is None else {"avg_spec_accept_length": accept}
        return {**vars(self.arguments), "version": "0.0.0", "internal_states": [state]}

    def render_metrics(self) -> str:
        """Return what ``/metrics`` says."""
        values = {
            "num_running_reqs": self.running,
            "num_queue_reqs": 0,
            "generation_tokens_total": self.generated,
            "prompt_tokens_total": self.prompted,
        }
        if self.budget:
            values["spec_verify_calls_total"] = self.verified
        return "".join(f'sglang:{name}{{model_name="stand-in"}} {float(value)}\n' for name, value in values.items())


class Handler(BaseHTTPRequestHandler):
    """The few endpoints that a tuner needs."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes: the second must not wait for an acknowledgement
    engine: Engine

    def log_message(self, *_: Any) -> None:
        """Stay quiet."""

    def do_GET(self) -> None:
        """Answer what only reads."""
        name = self.engine.arguments.served_model_name
        path = self.path.partition("?")[0]
        if path in ("/server_info", "/get_server_info"):
            self.answer(200, self.engine.describe())
        elif path == "/v1/models":
            self.answer(200, {"object": "list", "data": [{"id": name, "object": "model"}]})
        elif path in ("/model_info", "/get_model_info"):
            self.answer(200, {"model_path": self.engine.arguments.model_path, "is_generation": True})
        elif path in ("/health", "/health_generate"):
            self.answer(200 if self.engine.is_ready else 503, {})
        elif path == "/metrics" and self.engine.arguments.enable_metrics:
            self.answer(200, self.engine.render_metrics())
        elif path == "/flush_cache":
            self.answer(400 if self.engine.running else 200, {})
        else:
            self.answer(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        """Answer requests for tokens."""
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if self.path.partition("?")[0] == "/flush_cache":
            self.answer(400 if self.engine.running else 200, {})
        elif not self.engine.is_ready:
            self.answer(503, {"detail": "loading"})
        elif self.path == "/generate":
            count = int(body.get("sampling_params", {}).get("max_new_tokens", 16))
            for _ in self.generate(count, "x"):
                pass
            self.answer(200, {"text": " a + b", "meta_info": {"completion_tokens": count}})
        elif self.path == "/v1/chat/completions":
            self.chat(body)
        else:
            self.answer(404, {"detail": "Not Found"})

    def generate(self, count: int, prompt: str) -> Any:
        """Yield the number of tokens of each step."""
        engine = self.engine
        engine.count(running=1, prompted=len(prompt) // 4)
        request = engine.begin(prompt)
        try:
            while count > 0:
                engine.draft(request)
                time.sleep(engine.step_s)
                step = min(engine.tokens_per_step, count)
                count -= step
                engine.commit(request, step)
                engine.count(generated=step, verified=1 if engine.budget else 0)
                yield step
        finally:
            engine.commit(request, 0)
            engine.count(running=-1)

    def chat(self, body: dict[str, Any]) -> None:
        """Answer a chat, streamed or not."""
        engine = self.engine
        count = int(body.get("max_tokens") or body.get("max_completion_tokens") or 16)
        prompt = json.dumps(body.get("messages", ""))
        usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": count}
        usage["total_tokens"] = sum(usage.values())
        base = {"id": "x", "object": "chat.completion.chunk", "model": engine.arguments.served_model_name}
        if not body.get("stream"):
            text = "".join(" word" * step for step in self.generate(count, prompt))
            message = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "length"}
            self.answer(200, {**base, "object": "chat.completion", "choices": [message], "usage": usage})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for step in self.generate(count, prompt):
            self.send_event({**base, "choices": [{"index": 0, "delta": {"content": " word" * step}}]})
            if engine.fault is Fault.DIES:
                log("Scheduler hit an exception: RuntimeError: an illegal memory access was encountered")
                os._exit(1)
        self.send_event({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
        self.send_event({**base, "choices": [], "usage": usage})
        self.send_chunk(b"data: [DONE]\n\n")
        self.send_chunk(b"")

    def send_event(self, event: dict[str, Any]) -> None:
        """Send one event of a stream."""
        self.send_chunk(b"data: " + json.dumps(event).encode() + b"\n\n")

    def send_chunk(self, data: bytes) -> None:
        """Send one chunk; the empty one is the end."""
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def answer(self, status: int, body: Any) -> None:
        """Send a whole answer."""
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Server(ThreadingHTTPServer):
    """Takes many connections at once."""

    request_queue_size = 256
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """A client that went away is no news."""


def count_budget(arguments: argparse.Namespace) -> int:
    """Return the nodes of the draft tree; 0 is plain decoding."""
    return 0 if arguments.speculative_algorithm is None else (arguments.speculative_ddtree_budget or 0)


def main() -> int:
    """Load, serve, end at SIGTERM when the running requests are done."""
    arguments = parse_arguments()
    rule = read_rule(count_budget(arguments))
    log(f"server_args={vars(arguments)}")
    if rule.fault is Fault.CRASH:
        print("Traceback (most recent call last):\nRuntimeError: the gods are angry", file=sys.stderr, flush=True)
        return 1
    if rule.fault is Fault.REFUSE:
        print("launch_server: error: argument --speculative-ddtree-budget: no such budget", file=sys.stderr, flush=True)
        return 2
    hold_gpu_memory(os.getpid())
    if rule.fault is Fault.ESCAPES:
        escape()
    if rule.fault is Fault.SILENT:
        time.sleep(86400)
    log("Load weight begin.")
    if rule.fault in (Fault.SLOW, Fault.OUT_OF_MEMORY):
        time.sleep(rule.seconds)
    if rule.fault is Fault.OUT_OF_MEMORY:
        log(_OUT_OF_MEMORY)
        log("Received sigquit from a child process. It usually means the child failed.")
        return 1
    Handler.engine = engine = Engine(arguments, rule)
    server = Server((arguments.host, arguments.port), Handler)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    if rule.fault is Fault.UNREADY:
        while not ended.wait(1.0):
            log("still warming up")
        return 0
    engine.is_ready = True
    log("The server is fired up and ready to roll!")
    ended.wait()
    engine.is_ready = False
    if rule.fault is Fault.DRAINS:
        time.sleep(rule.seconds)
    while engine.running:
        time.sleep(0.01)
    return 0


if __name__ == "__main__":
    sys.exit(main())
