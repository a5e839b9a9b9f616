"""Which cells does a first study measure? Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from autotune.initial_study.facts import Facts
from autotune.initial_study.families import EMBEDDED, Family

CONCURRENCY: Final = 32
"""The busy end of every study; the quiet one is 1."""

_ROOM_FOR_TEMPLATE: Final = 64
_LONG: Final = 16_384
_LONGEST: Final = 65_536
_LONG_STEP: Final = 4_096


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """A stage: its name, its cells as (context, concurrency), and the comment before it."""

    name: str
    cells: tuple[tuple[int, int], ...]
    comment: str


@dataclass(frozen=True, slots=True)
class Workload:
    """What is sent.

    Attributes:
        output_tokens: limit of an answer.
        repeats: of each cell.
        problems: of the coding evaluation; ``None`` is all of them.
        answer_tokens: limit of an answer to one.
        stages: in their order.
        left_out: one sentence for each cell that this server has no room for.
    """

    output_tokens: int
    repeats: int
    problems: int | None
    answer_tokens: int
    stages: tuple[PlannedStage, ...]
    left_out: tuple[str, ...]

    @property
    def longest(self) -> int:
        """Longest prompt in tokens."""
        return max(context for stage in self.stages for context, _ in stage.cells)


def plan_workload(facts: Facts, family: Family) -> Workload:
    """Choose contexts that this server has room for, busiest and most telling first."""
    others: tuple[int, ...]
    problems: int | None
    if family.space == EMBEDDED:
        output, main, others, repeats, problems, answer = 128, 128, (512,), 1, 40, 160
    else:
        output, main, others, repeats, problems, answer = 512, 1024, (60, 4096), 2, None, 768
    stages = [
        PlannedStage(
            "busy", ((main, CONCURRENCY),), "The busiest cell first: what crashes or is beaten shows here in seconds."
        ),
        PlannedStage("single", ((main, 1),), ""),
        *(
            PlannedStage(
                "short" if context < main else "long",
                ((context, CONCURRENCY), (context, 1)),
                "" if context < main else "Long contexts last: they take the most time.",
            )
            for context in others
        ),
    ]
    if family.space != EMBEDDED and facts.supports("--speculative-draft-window-size") is not False:
        long = _choose_long(facts)
        stages.append(
            PlannedStage(
                "window", ((long, 1),), "Longer than every window that is searched: elsewhere a window does nothing."
            )
        )
    return _fit(facts, stages, Workload(output, repeats, problems, answer, (), ()))


def _choose_long(facts: Facts) -> int:
    """At least 16k, longer where the journal shows that production is."""
    p90 = 0 if facts.lengths is None else facts.lengths.p90
    return min(max(_LONG, -(-p90 // _LONG_STEP) * _LONG_STEP), _LONGEST)


def _fit(facts: Facts, stages: list[PlannedStage], plan: Workload) -> Workload:
    """Leave out cells that are longer than the server takes, or hold more tokens than its cache."""
    limits = [facts.ask_number("context_length", "--context-length"), facts.ask_number("max_req_input_len")]
    longest = min((limit for limit in limits if limit is not None), default=None)
    capacity = facts.ask_number("max_total_num_tokens", "--max-total-tokens")
    kept: list[PlannedStage] = []
    left_out: list[str] = []
    for stage in stages:
        cells = []
        for context, concurrency in stage.cells:
            needs = context + plan.output_tokens + _ROOM_FOR_TEMPLATE
            if longest is not None and needs > longest:
                left_out.append(f"context {context}: the server takes {longest:.0f} tokens in all")
            elif capacity is not None and concurrency * needs > capacity:
                left_out.append(
                    f"context {context} at concurrency {concurrency}: its cache holds {capacity:.0f} tokens"
                )
            else:
                cells.append((context, concurrency))
        if cells:
            kept.append(PlannedStage(stage.name, tuple(cells), stage.comment))
    measured = {concurrency for stage in kept for _, concurrency in stage.cells}
    if measured != {1, CONCURRENCY}:  # an objective would be unknown: short prompts have to do
        missing = sorted({1, CONCURRENCY} - measured, reverse=True)
        kept.insert(0, PlannedStage("shortest", tuple((32, concurrency) for concurrency in missing), ""))
    return Workload(
        plan.output_tokens, plan.repeats, plan.problems, plan.answer_tokens, tuple(kept), tuple(dict.fromkeys(left_out))
    )
