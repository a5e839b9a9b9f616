"""Stands in for the command ``vllm`` in the comparison with other tuners: a server without a model, and its benchmark.

``serve`` listens after a moment and says that it is ready, or ends with the words of CUDA when the configuration does not fit.
``bench serve`` asks the server how fast it is and writes what vLLM's benchmark would. How fast is the law of
:func:`tokens_per_s`, a server errs by 2 % for as long as it lives, a measurement by 1 %, by chance of the variable
``PEER_SEED`` where it is set. Each start and each measurement is a line of the file that the variable ``PEER_LOG`` names.
Nothing but the standard library is imported.
"""

from __future__ import annotations

import json
import math
import os
import random
import sys
import time
import urllib.request
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

SEQUENCES = range(8, 257, 8)
TOKENS = range(1024, 16385, 1024)
MEMORY_PERCENT = range(70, 97, 2)
BASELINE = (128, 8192, 90)
"""Sequences, batched tokens and per cent of memory: the server's own defaults."""

_LOAD_S, _SLOW_LOAD_S = 0.2, 1.0
_SLOW_TOKENS = 12288
_BETWEEN, _INSIDE = 0.02, 0.01


def tokens_per_s(sequences: int, tokens: int, memory_percent: int) -> float:
    """Return the true speed: more requests at once pay until the cache is full; a batch wants tokens for all of them."""
    room = 9.0 * (memory_percent - 62)
    served = min(sequences, room)
    crowded = max(0.0, sequences / room - 1)
    wanted = math.log2(1024 + 28 * sequences)
    return 1600 * served / (served + 90) * math.exp(-0.6 * crowded - 0.05 * (math.log2(tokens) - wanted) ** 2)


def fits(sequences: int, tokens: int, memory_percent: int) -> bool:
    """Whether a configuration starts: what is not set aside must hold the largest batch."""
    return memory_percent + sequences / 40 + tokens / 2000 <= 97.5


def load_s(tokens: int) -> float:
    """Return how long a server takes until it listens: long where it must prepare for large batches."""
    return _SLOW_LOAD_S if tokens > _SLOW_TOKENS else _LOAD_S


def main(words: Sequence[str]) -> int:
    """Be ``vllm``, or its benchmark when called as one."""
    if words[0] == "serve":
        return _serve(_read_flags(words[2:]))
    return _bench(_read_flags(words))


def _read_flags(words: Sequence[str]) -> dict[str, str]:
    flags = {}
    for word, value in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("--"):
            name, _, inline = word[2:].partition("=")
            flags[name.replace("_", "-")] = inline or value
    return flags


def _draw(event: str, deviation: float) -> float:
    """Return a factor around 1, that of this event at this line of the log where there is a seed."""
    seed, log = os.environ.get("PEER_SEED"), Path(os.environ["PEER_LOG"])
    number = len(log.read_bytes().splitlines()) if log.exists() else 0
    rng = random.Random(None if seed is None else f"{seed}:{event}:{number}")  # noqa: S311  # chance, not secrecy
    return math.exp(rng.gauss(0, deviation))


def _note(**facts: object) -> None:
    with Path(os.environ["PEER_LOG"]).open("a", encoding="utf-8") as log:
        log.write(json.dumps({"at": time.time(), **facts}) + "\n")


def _serve(flags: dict[str, str]) -> int:
    sequences = int(float(flags.get("max-num-seqs", BASELINE[0])))
    tokens = int(float(flags.get("max-num-batched-tokens", BASELINE[1])))
    memory = round(100 * float(flags.get("gpu-memory-utilization", BASELINE[2] / 100)))
    configuration = [sequences, tokens, memory]
    is_fitting = fits(*configuration)
    port = int(flags.get("port", "8000"))
    _note(event="start", pid=os.getpid(), port=port, configuration=configuration, fits=is_fitting)
    time.sleep(load_s(tokens))
    if not is_fitting:
        sys.stderr.write("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")
        return 1
    speed = tokens_per_s(*configuration) * _draw("start", _BETWEEN)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            body = {
                "/v1/models": json.dumps({"object": "list", "data": [{"id": "model", "object": "model"}]}),
                "/metrics": "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n",
                "/speed": json.dumps({"speed": speed, "configuration": configuration}),
            }.get(self.path, "{}")
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    HTTPServer(("127.0.0.1", port), Handler).serve_forever()
    return 0


def _bench(flags: dict[str, str]) -> int:
    with urllib.request.urlopen(f"http://{flags['host']}:{flags['port']}/speed", timeout=5) as answer:
        told = json.load(answer)
    speed = told["speed"] * _draw("measured", _INSIDE)
    _note(event="measured", configuration=told["configuration"], tokens_per_s=speed)
    requests = int(flags.get("num-prompts", "50"))
    latency = {
        f"{kind}_{name}_ms": 1e5 / speed
        for kind in ("mean", "median", "p95", "p99")
        for name in ("ttft", "tpot", "itl", "e2el")
    }
    result = {
        "backend": "vllm",
        "model_id": "model",
        "num_prompts": requests,
        "completed": requests,
        "failed": 0,
        "duration": 200 * requests / speed,
        "total_input_tokens": 1000 * requests,
        "total_output_tokens": 200 * requests,
        "request_throughput": speed / 200,
        "output_throughput": speed,
        "total_token_throughput": 6 * speed,
        **latency,
    }
    folder = Path(flags["result-dir"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / flags["result-filename"]).write_text(json.dumps(result), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
