"""Trial records for tests: figures that look like those of a real server, every number chosen by the test."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.settings import StudySettings, parse_settings
from autotune.trial import (
    BootRecord,
    Cell,
    CellMeasurement,
    Configuration,
    EvaluationMeasurement,
    Figure,
    Objectives,
    ProblemResult,
    TrialKind,
    TrialRecord,
    TrialState,
    Verdict,
)

STUDY = """
name = "test"
search_space = "ddtree"

[server]
proofs = ["best-first-tree"]

[baseline]
budget = 16
topk = 4

[benchmark]

[[benchmark.stages]]
name = "busy"
cells = [{ context = 128, concurrency = 32 }]

[[benchmark.stages]]
name = "single"
cells = [{ context = 128, concurrency = 1 }]
"""


def make_settings(text: str = STUDY, **changes: object) -> StudySettings:
    """Settings of a small study; keyword arguments replace whole sections, by field name."""
    return parse_settings(text, "test.toml").model_copy(update=changes)


def make_cell(
    concurrency: int,
    speed: float,
    *,
    context: int = 128,
    accept_length: float | None = 3.0,
    spread: float | None = None,
    prompts: Mapping[str, float] | None = None,
) -> CellMeasurement:
    """One finished cell; ``spread`` is half the interval as a share of the speed."""
    low, high = (None, None) if spread is None else (speed * (1 - spread), speed * (1 + spread))
    return CellMeasurement(
        cell=Cell(context, concurrency),
        requests=8,
        succeeded=8,
        output_tokens=1024,
        prompt_tokens=1024,
        cached_tokens=0,
        decode_tokens_per_s=Figure(speed, 2, low, high),
        total_tokens_per_s=Figure(speed * 0.9, 2),
        ttft_s=Figure(0.1, 8),
        tpot_s=Figure(0.01, 8),
        accept_length=None if accept_length is None else Figure(accept_length, 8),
        per_prompt_log_speed=prompts or {},
        duration_s=2.0,
    )


def make_evaluation(passed: int = 30, failed: int = 10, *, problem_set: str = "set-1") -> EvaluationMeasurement:
    """A coding evaluation in which the first ``passed`` problems passed."""
    results = tuple(
        ProblemResult(f"problem-{index}", Verdict.PASSED if index < passed else Verdict.WRONG)
        for index in range(passed + failed)
    )
    share = passed / (passed + failed)
    return EvaluationMeasurement(results, problem_set, Figure(share, passed + failed, 0.0, 1.0), 120.0, 3.0, 4.0)


def make_boot(pid: int = 4711) -> BootRecord:
    """Proof of a boot."""
    return BootRecord(pid, ("autotune", "serve"), {"SGLANG_DDTREE_MAX_TOPK": "4"}, {"topk": 4}, 3.5)


def make_trial(
    number: int,
    c1: float | None = 100.0,
    c32: float | None = 400.0,
    *,
    state: TrialState = TrialState.COMPLETE,
    kind: TrialKind = TrialKind.SEARCH,
    configuration: Configuration | None = None,
    accept_length: float | None = 3.0,
    pass_at_1: float | None = 0.75,
) -> TrialRecord:
    """A trial with one cell at each concurrency whose speed is given."""
    cells = [
        make_cell(concurrency, speed, accept_length=accept_length)
        for concurrency, speed in ((32, c32), (1, c1))
        if speed is not None
    ]
    return TrialRecord(
        number=number,
        kind=kind,
        state=state,
        configuration=configuration or {"budget": 16, "topk": 4, "window": None},
        cells=tuple(cells),
        evaluation=None if pass_at_1 is None else make_evaluation(round(40 * pass_at_1), 40 - round(40 * pass_at_1)),
        objectives=Objectives(
            None if c1 is None else Figure(c1, 2),
            None if c32 is None else Figure(c32, 2),
            None if pass_at_1 is None else Figure(pass_at_1, 40),
        ),
    )
