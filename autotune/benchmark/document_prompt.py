"""Prompts of the kind *long*: one long document, a log book with remarks, and a request about it."""

from __future__ import annotations

import random

from autotune.benchmark.prompt_kind import Messages
from autotune.benchmark.sentences import PEOPLE, write_text

_STATIONS = ("North", "Quarry", "Delta", "Pier", "Mill", "Ridge", "Canal", "Basin")
_EVENTS = (
    "pump {n} restarted after {m} minutes",
    "pressure {p} bar, valve {n} half open",
    "filter {n} changed, {m} litres lost",
    "sensor {n} read {p} and was calibrated",
    "delivery of {m} crates, {n} of them damaged",
    "alarm {n} acknowledged after {m} seconds",
    "inspection passed, next one in {m} days",
    "generator {n} ran for {p} hours",
)
_REQUESTS = (
    "Write a report on this log book: the commonest events at each station, the persons involved, and what should be done.",
    "Summarise the log book station by station, quote the entries that matter most, and explain why they do.",
    "List everything in the log book that points to a failure, with date and station, and rank it by urgency.",
)
_REMARK_EVERY = 6


def build_document(rng: random.Random, characters: int, answer_characters: int, lead: int) -> Messages:  # noqa: ARG001
    """Write a prompt of this kind; see :class:`autotune.benchmark.prompt_kind.Builder`."""
    request = rng.choice(_REQUESTS)
    parts = [f"Log book {lead + 1} of the water works, section {rng.randint(1, 99)}."]
    left = characters - len(parts[0]) - len(request) - 1
    day, misses = rng.randint(1, 300), 0
    while misses < 12:
        entry = write_text(rng, 240) if len(parts) % _REMARK_EVERY == 0 else _write_entry(rng, day)
        if len(entry) + 1 <= left:
            parts.append(entry)
            left -= len(entry) + 1
            day += rng.random() < 0.2
        else:
            misses += 1
            remark = write_text(rng, left - 1)
            if remark:
                parts.append(remark)
                left -= len(remark) + 1
    return [("user", "\n".join([*parts, request]))]


def _write_entry(rng: random.Random, day: int) -> str:
    event = rng.choice(_EVENTS).format(n=rng.randint(1, 24), m=rng.randint(2, 900), p=f"{rng.uniform(0.1, 30):.1f}")
    return (
        f"Day {day}, {rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}, {rng.choice(_STATIONS)} {rng.randint(1, 9)}: {event} "
        f"({rng.choice(PEOPLE)})"
    )
