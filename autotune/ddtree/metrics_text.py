"""What ``/metrics`` says: Prometheus text with SGLang's names, counters kept by the HTTP process."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from autotune.ddtree.engine_link import EngineState
from autotune.ddtree.generation import Generation

_TTFT_BOUNDS_S: Final = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 10, 30, 60)
_GAP_BOUNDS_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 5)
_E2E_BOUNDS_S: Final = (0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 40, 60, 120, 300, 600)


class Histogram:
    """Counts of observed seconds below each bound.

    Args:
        bounds_s: upper bounds in ascending order.
    """

    def __init__(self, bounds_s: tuple[float, ...]) -> None:
        self._bounds_s = bounds_s
        self._counts = [0] * (len(bounds_s) + 1)
        self._sum_s = 0.0

    def observe(self, seconds: float, count: int = 1) -> None:
        """Add ``count`` observations of the same length."""
        self._counts[bisect_left(self._bounds_s, seconds)] += count
        self._sum_s += seconds * count

    def render(self, name: str, labels: str) -> Iterable[str]:
        """Yield the lines of this histogram."""
        total = 0
        for bound, count in zip([*map(str, self._bounds_s), "+Inf"], self._counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels},le="{bound}"}} {total}'
        yield f"{name}_sum{{{labels}}} {self._sum_s}"
        yield f"{name}_count{{{labels}}} {total}"


class ServerMetrics:
    """Counters over the life of the server, and their text.

    Args:
        model: label of every series.
    """

    def __init__(self, model: str) -> None:
        self._labels = f"model_name={json.dumps(model, ensure_ascii=False)}"
        self._prompt_tokens = 0
        self._generation_tokens = 0
        self._verify_calls = 0
        self._requests = 0
        self._aborted = 0
        self._ttft = Histogram(_TTFT_BOUNDS_S)
        self._gap = Histogram(_GAP_BOUNDS_S)
        self._e2e = Histogram(_E2E_BOUNDS_S)

    def advanced(self, generation: Generation, tokens: int, verify_steps: int, gap_s: float | None) -> None:
        """Count new tokens; a gap counts once for each token that came after it, divided among them."""
        self._generation_tokens += tokens
        self._verify_calls += verify_steps
        if gap_s is not None:
            self._gap.observe(gap_s / tokens, tokens)
        elif generation.first_token_s is not None:
            self._prompt_tokens += len(generation.request.prompt_ids)
            self._ttft.observe(generation.first_token_s - generation.started_s)

    def ended(self, generation: Generation, now_s: float) -> None:
        """Count a generation that ended."""
        if generation.finish is not None and generation.finish.kind in ("abort", "rejected"):
            self._aborted += 1
            return
        self._requests += 1
        self._e2e.observe(now_s - generation.started_s)

    def render(self, state: EngineState, block: int | None) -> str:
        """Return the whole text.

        Accept length and rate are left out while they are unknown: before the first verify, and without speculation.

        Args:
            state: the engine's load of this moment.
            block: block size, by which the accept rate is defined; ``None`` while decoding plainly.
        """
        stats = state.stats
        usage = stats.cache_tokens / stats.cache_capacity if stats.cache_capacity else 0.0
        gauges: list[tuple[str, str, float]] = [
            ("num_running_reqs", "Requests being decoded.", stats.running),
            ("num_queue_reqs", "Requests waiting for a slot.", stats.queued),
            ("num_used_tokens", "Context tokens in the cache.", stats.cache_tokens),
            ("token_usage", "Share of the cache in use.", usage),
            ("gen_throughput", "Generated tokens/s, last log interval.", state.throughput_tokens_per_s or 0.0),
            ("is_cuda_graph", "Whether steps are CUDA graphs.", 0),
        ]
        if block is not None and stats.verify_calls > 0:
            rate = stats.accepted_tokens / (stats.verify_calls * (block - 1))
            gauges += [
                ("spec_accept_length", "Tokens per verify.", stats.generated_tokens / stats.verify_calls),
                ("spec_accept_rate", "Accepted over proposed drafts.", rate),
            ]
        counters: list[tuple[str, str, int]] = [
            ("prompt_tokens_total", "Prompt tokens prefilled.", self._prompt_tokens),
            ("generation_tokens_total", "Tokens generated.", self._generation_tokens),
            ("num_requests_total", "Requests finished.", self._requests),
            ("num_aborted_requests_total", "Requests aborted.", self._aborted),
            ("num_retracted_requests_total", "Requests put back into the queue.", 0),
        ]
        if block is not None:
            counters.append(("spec_verify_calls_total", "Verify steps, summed over requests.", self._verify_calls))
        lines: list[str] = []
        for kind, rows in (("gauge", gauges), ("counter", counters)):
            for name, text, value in rows:
                lines += _head(name, text, kind)
                lines.append(f"sglang:{name}{{{self._labels}}} {value}")
        for name, text, histogram in (
            ("time_to_first_token_seconds", "Submission to first token.", self._ttft),
            ("inter_token_latency_seconds", "Time per token after the first.", self._gap),
            ("e2e_request_latency_seconds", "Submission to end.", self._e2e),
        ):
            lines += _head(name, text, "histogram")
            lines += histogram.render(f"sglang:{name}", self._labels)
        return "\n".join(lines) + "\n"


def _head(name: str, text: str, kind: str) -> list[str]:
    return [f"# HELP sglang:{name} {text}", f"# TYPE sglang:{name} {kind}"]
