"""What do a server's Prometheus metrics count, and what changed between two scrapes? Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

GENERATED = "generation_tokens_total"
VERIFIED = "spec_verify_calls_total"
RUNNING = "num_running_reqs"

_PREFIX = "sglang:"
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_LABELS = r'\{(?:[^"{}]|"(?:[^"\\]|\\.)*")*\}'
_SAMPLE = re.compile(
    rf"([a-zA-Z_:][a-zA-Z0-9_:]*)[ \t]*(?:{_LABELS}[ \t]*|(?<=[ \t]))({_NUMBER})(?:[ \t]+{_NUMBER})?[ \t]*(?:[ \t]#.*)?\r?",
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
    """Read samples of the text format, summed over their labels; names without the server's prefix.

    Lines that are no samples, and values that are not finite, are left out.

    >>> parse_metrics('# TYPE x counter' + chr(10) + 'sglang:x_total{rank="0"} 2' + chr(10) + 'sglang:x_total{rank="1"} 3.5')
    {'x_total': 5.5}
    """
    samples: dict[str, float] = {}
    for line in text.split("\n"):
        found = _SAMPLE.fullmatch(line)
        if found is None:
            continue
        value = float(found[2])
        if math.isfinite(value):
            name = found[1].removeprefix(_PREFIX)
            samples[name] = samples.get(name, 0.0) + value
    return samples


def subtract(before: Mapping[str, float], after: Mapping[str, float]) -> CounterDifference:
    """Say what was counted between two scrapes; a counter that fell was reset in between and says nothing."""
    return CounterDifference(_rise(before, after, GENERATED), _rise(before, after, VERIFIED))


def _rise(before: Mapping[str, float], after: Mapping[str, float], name: str) -> float | None:
    if name not in after:
        return None
    rise = after[name] - before.get(name, 0.0)
    return rise if rise >= 0 else None
