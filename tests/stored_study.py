"""A small study made through the real study API, with invented figures that follow a simple law."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path

from autotune.clock import SystemClock
from autotune.settings import StudySettings
from autotune.study import Study
from autotune.suggestion import Suggestion
from autotune.trial import (
    BootRecord,
    Cell,
    CellMeasurement,
    Configuration,
    EvaluationMeasurement,
    Figure,
    ProblemResult,
    TrialKind,
    TrialState,
    Verdict,
)

EVIL = "<script>alert('x')</script> & \x1b[31mred\x1b[0m | `code` [link](javascript:alert(1))"
"""What a log line or a model's answer may hold."""

SECRET = "hunter2-sk-123"


def sample_settings(name: str = "sample") -> StudySettings:
    """Return a study of two stages with a secret in the server's environment."""
    cells = [{"context": 128, "concurrency": 32}], [{"context": 128, "concurrency": 1}]
    return StudySettings.model_validate(
        {
            "name": name,
            "server": {"command": ["/opt/serve me/bin", "--api-key", SECRET], "environment": {"HF_TOKEN": SECRET}},
            "baseline": {"budget": 16, "topk": 4, "window": "none"},
            "benchmark": {
                "stages": [{"name": name, "cells": cells[index]} for index, name in enumerate(("busy", "single"))]
            },
            "evaluation": {"problems": 10},
        }
    )


class _TenSecondsAStep(SystemClock):
    """Moves by ten seconds whenever a duration is asked for; the time of day stands."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def monotonic(self) -> float:
        self._seconds += 10.0
        return self._seconds

    def now(self) -> dt.datetime:
        return dt.datetime(2026, 3, 1, 22, 0, tzinfo=dt.UTC)


def write_study(directory: Path, settings: StudySettings | None = None) -> None:
    """Write nine trials: baseline, plain, chain, four trees (one of them pruned), a refused one, a second baseline."""
    settings = settings or sample_settings()
    with Study.open(settings, directory, clock=_TenSecondsAStep()) as study:
        baseline = study.suggest_baseline()
        _run(study, baseline, 1.0, 1.0, passed=7)
        _run(study, _listed(study, {"budget": 0}), 0.5, 0.9, passed=7)
        _run(study, _listed(study, {"budget": 7, "topk": 1}), 0.8, 1.1, passed=7)
        _run(study, _listed(study, {"budget": 8, "topk": 4}), 1.1, 1.2, passed=8)
        _run(study, _listed(study, {"budget": 20, "topk": 4, "window": 256}), 1.3, 0.95, passed=6)
        pruned = _open(study, _listed(study, {"budget": 64, "topk": 8}))
        study.record_cell(pruned, _cell(Cell(128, 32), 0.4, 3.0))
        study.prune(pruned, "after stage busy even an optimistic C=1 would be dominated by trial 4")
        refused = _open(study, _listed(study, {"budget": 50, "topk": 8}))
        study.mark_infeasible(refused, f"out of memory while loading: {EVIL}")
        lost = _open(study, _listed(study, {"budget": 51, "topk": 8}))
        study.fail(lost, "the server ended with exit code -9 and nobody knows why")
        _run(study, baseline, 1.02, 0.99, passed=7)


def leave_open(directory: Path) -> None:
    """Begin one more trial and leave it open, as a study that is running has it."""
    with Study.open(sample_settings(), directory) as study:
        _open(study, _listed(study, {"budget": 12, "topk": 2}))


def _listed(study: Study, values: Configuration) -> Suggestion:
    return Suggestion(study.space.resolve(values), TrialKind.LISTED)


def _open(study: Study, suggestion: Suggestion) -> int:
    number = study.begin(suggestion)
    study.set_state(number, TrialState.DEPLOYING)
    rendering = study.space.render_flags(suggestion.configuration)
    study.record_boot(
        number,
        BootRecord(
            pid=4000 + number,
            command=(*study.settings.server.command, *rendering.arguments),
            environment={name: value for name, value in rendering.environment.items() if value is not None},
            effective_flags={"speculative_ddtree_budget": suggestion.configuration["budget"], "api_key": SECRET},
            ready_after_s=2.5,
            version="ddtree 0.1.0",
        ),
    )
    study.set_state(number, TrialState.MEASURING)
    return number


def _run(study: Study, suggestion: Suggestion, factor_c1: float, factor_c32: float, *, passed: int) -> None:
    number = _open(study, suggestion)
    accept_length = None if suggestion.configuration["budget"] == 0 else 3.0
    study.record_cell(number, _cell(Cell(128, 32), factor_c32, accept_length))
    study.record_cell(number, _cell(Cell(128, 1), factor_c1, accept_length))
    study.record_evaluation(number, _evaluation(passed))
    study.complete(number)


def _cell(cell: Cell, factor: float, accept_length: float | None) -> CellMeasurement:
    speed = (100.0 if cell.concurrency == 1 else 800.0) * factor
    count = max(cell.concurrency, 8)
    prompts = {
        f"p{index}": math.log(speed / cell.concurrency) + 0.02 * (-1) ** index * (1 + index % 3 * factor)
        for index in range(count)
    }
    return CellMeasurement(
        cell=cell,
        requests=count,
        succeeded=count,
        output_tokens=100 * count,
        prompt_tokens=128 * count,
        cached_tokens=0,
        decode_tokens_per_s=Figure(speed, count, 0.97 * speed, 1.03 * speed),
        total_tokens_per_s=Figure(0.8 * speed, count, 0.78 * speed, 0.82 * speed),
        ttft_s=Figure(0.05, count),
        tpot_s=Figure(cell.concurrency / speed, count),
        accept_length=None if accept_length is None else Figure(accept_length, count),
        per_prompt_log_speed=prompts,
        duration_s=4.0,
    )


def _evaluation(passed: int) -> EvaluationMeasurement:
    results = tuple(
        ProblemResult(f"lists-{index}", Verdict.PASSED)
        if index < passed
        else ProblemResult(f"lists-{index}", Verdict.WRONG if index % 2 else Verdict.TRUNCATED, EVIL)
        for index in range(10)
    )
    share = passed / 10
    return EvaluationMeasurement(
        results, "5f3c", Figure(share, 10, share - 0.25, min(share + 0.2, 1.0)), 90.0, 3.0, 5.0
    )
