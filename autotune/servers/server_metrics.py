"""What do a server's Prometheus metrics count, and what changed between two scrapes? Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

GENERATED = "generation_tokens_total"
VERIFIED = "spec_verify_calls_total"
RUNNING = "num_running_reqs"
QUEUED = "num_queue_reqs"

_PREFIXES = ("sglang:", "vllm:")
_ALIASES = {
    "spec_decode_num_drafts_total": VERIFIED,
    "num_requests_running": RUNNING,
    "num_requests_waiting": QUEUED,
}
"""What vLLM calls the same things."""

_RANKS = re.compile(r'(?:tp_rank|pp_rank|moe_ep_rank)="(?:[^"\\]|\\.)*",?')
"""Labels of processes that do the same work together: each of them counts all of it."""

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_LABELS = r'\{(?:[^"{}]|"(?:[^"\\]|\\.)*")*\}'
_SAMPLE = re.compile(
    rf"([a-zA-Z_:][a-zA-Z0-9_:]*)[ \t]*(?:({_LABELS})[ \t]*|(?<=[ \t]))({_NUMBER})(?:[ \t]+{_NUMBER})?[ \t]*(?:[ \t]#.*)?\r?",
    re.ASCII,
)
"""Name, labels, value, time and exemplar; a value that is not finite is no sample for us."""


@dataclass(frozen=True, slots=True)
class CounterDifference:
    """What a server counted between two scrapes; ``None`` for a counter that is missing or went backwards.

    Attributes:
        generated_tokens: tokens of all answers.
        verify_calls: verify steps, summed over requests.
    """

    generated_tokens: float | None
    verify_calls: float | None


def parse_metrics(text: str) -> Mapping[str, float]:
    """Read samples of the text format, summed over their labels; names without the server's prefix, vLLM's as SGLang's.

    Processes that work on the same requests (tensor and pipeline ranks) are not summed: the largest counts. Lines that
    are no samples, and values that are not finite, are left out.

    >>> line = 'sglang:x_total{dp_rank="%s",tp_rank="%s"} %s'
    >>> parse_metrics(chr(10).join(line % sample for sample in [(0, 0, 2), (0, 1, 2), (1, 0, 3.5)]))
    {'x_total': 5.5}
    """
    samples: dict[str, dict[str, float]] = {}
    for line in text.split("\n"):
        found = _SAMPLE.fullmatch(line)
        if found is None:
            continue
        value = float(found[3])
        if math.isfinite(value):
            name = found[1]
            for prefix in _PREFIXES:
                name = name.removeprefix(prefix)
            series = samples.setdefault(_ALIASES.get(name, name), {})
            labels = _RANKS.sub("", found[2] or "")
            series[labels] = max(value, series.get(labels, value))
    return {name: sum(series.values()) for name, series in samples.items()}


def subtract(before: Mapping[str, float], after: Mapping[str, float]) -> CounterDifference:
    """Say what was counted between two scrapes; a counter that fell was reset in between and says nothing."""
    return CounterDifference(_rise(before, after, GENERATED), _rise(before, after, VERIFIED))


def _rise(before: Mapping[str, float], after: Mapping[str, float], name: str) -> float | None:
    if name not in after:
        return None
    rise = after[name] - before.get(name, 0.0)
    return rise if rise >= 0 else None
