"""What ``--json`` prints of a study: plain data with stable names; unknown is null (pure)."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from autotune.confirmation.wording import describe_verdict
from autotune.export.findings import Findings, accept_length
from autotune.export.proof import judge_proof
from autotune.export.wording import known_bounds

if TYPE_CHECKING:
    from autotune.confirmation.verdict import Verdict
    from autotune.interval import LogRatio
    from autotune.study_view import StudyView
    from autotune.trial import Figure, TrialRecord


def study_document(view: StudyView, findings: Findings, directory: str) -> dict[str, Any]:
    """Return everything that ``autotune status --json`` prints."""
    noise, time, choice = findings.noise, findings.time, findings.choice
    proof = None if choice is None else judge_proof(choice.trial, findings)
    return {
        "study": view.settings.name,
        "directory": directory,
        "counted": view.counted,
        "states": {state.value: count for state, count in sorted(findings.states.items(), key=lambda i: i[0].value)},
        "baseline": None if findings.baseline is None else _objectives(findings.baseline),
        "recommendation": choice
        and {
            "trial": choice.trial.number,
            "configuration": dict(choice.trial.configuration),
            "reason": choice.reason,
            "proof": proof and {"is_proven": proof.is_proven, "verdict": proof.verdict, "why": proof.why},
            "gain_c1": _figure(findings.gains_c1.get(choice.trial.number)),
            "gain_c32": _figure(findings.gains_c32.get(choice.trial.number)),
        },
        "confirmations": [confirmation_document(verdict) for verdict in findings.confirmations],
        "front": [[trial.number for trial in point.trials] for point in findings.front],
        "noise": noise
        and {
            "boots": noise.boots,
            "spread": noise.spread,
            "inside": noise.inside,
            "smallest_gain": noise.smallest_gain,
        },
        "time": {
            "boots": time.boots,
            "adopted": time.adopted,
            "total_s": time.total_s,
            "waiting_s": time.waiting_s,
            "measuring_s": time.measuring_s,
            "evaluating_s": time.evaluating_s,
        },
        "trials": [_trial(trial, findings) for trial in view.trials],
    }


def confirmation_document(verdict: Verdict) -> dict[str, Any]:
    """Return everything that a confirmation says; gains are shares of the baseline's speed, with the bounds of the last look."""
    return {
        "number": verdict.plan.number,
        "rule": verdict.plan.rule,
        "alpha": verdict.plan.alpha,
        "rounds": verdict.rounds,
        "planned_rounds": verdict.plan.rounds,
        "boots": verdict.boots,
        "baseline_boots": verdict.baseline_boots,
        "is_decided": verdict.is_decided,
        "recommended": verdict.recommended,
        "sentence": describe_verdict(verdict),
        "soak": verdict.soak
        and {"trial": verdict.soak.trial, "is_survived": verdict.soak.is_survived, "reason": verdict.soak.reason},
        "leaders": [
            {
                "trial": leader.trial,
                "outcome": leader.outcome.value,
                "reason": leader.reason,
                "boots": leader.boots,
                "level": leader.level,
                "gain": _log_gain(leader.gain),
                "gain_c1": _log_gain(leader.gain_c1),
                "gain_c32": _log_gain(leader.gain_c32),
                "worst": leader.worst
                and {
                    "context": leader.worst[0].context,
                    "concurrency": leader.worst[0].concurrency,
                    "gain": _log_gain(leader.worst[1]),
                },
            }
            for leader in verdict.leaders
        ],
    }


def _log_gain(gain: LogRatio | None) -> dict[str, float | None] | None:
    """Return a gain; its bounds only where they hold what lies between boots."""
    if gain is None:
        return None
    low, high = (gain.low, gain.high) if gain.degrees else (None, None)
    return {
        "value": math.expm1(gain.value),
        "low": None if low is None else math.expm1(low),
        "high": None if high is None else math.expm1(high),
    }


def _trial(trial: TrialRecord, findings: Findings) -> dict[str, Any]:
    return {
        "number": trial.number,
        "kind": trial.kind.value,
        "state": trial.state.value,
        "configuration": dict(trial.configuration),
        "reason": trial.reason,
        "objectives": _objectives(findings.shown(trial)),
        "confirmation": trial.confirmation and asdict(trial.confirmation),
        "gain_c1": _figure(findings.gains_c1.get(trial.number)),
        "gain_c32": _figure(findings.gains_c32.get(trial.number)),
        "accept_length_c1": accept_length(trial, 1),
        "accept_length_c32": accept_length(trial, 32),
        "is_on_front": findings.is_on_front(trial),
        "drift": list(findings.drifts.get(trial.number, ())),
        "condition": trial.condition
        and {
            "canary_tokens_per_s": [_figure(canary) for canary in trial.condition.canaries],
            "gpus": [asdict(gpu) for gpu in trial.condition.gpus],
        },
        "cells": [
            {
                "context": cell.cell.context,
                "concurrency": cell.cell.concurrency,
                "decode_tokens_per_s": _figure(cell.decode_tokens_per_s),
                "total_tokens_per_s": _figure(cell.total_tokens_per_s),
                "ttft_s": _figure(cell.ttft_s),
                "tpot_s": _figure(cell.tpot_s),
                "prefill_tokens_per_s": _figure(cell.prefill_tokens_per_s),
                "latencies": cell.latencies and asdict(cell.latencies),
                "accept_length": _figure(cell.accept_length),
                "step_time_s": _figure(cell.step_time_s),
                "requests": cell.requests,
                "succeeded": cell.succeeded,
                "notes": list(cell.notes),
            }
            for cell in trial.cells
        ],
        "started_at": trial.started_at,
        "ended_at": trial.ended_at,
        "duration_s": trial.duration_s,
    }


def _objectives(trial: TrialRecord) -> dict[str, Any]:
    return {
        "tokens_per_s_c1": _figure(trial.objectives.tokens_per_s_c1),
        "tokens_per_s_c32": _figure(trial.objectives.tokens_per_s_c32),
        "pass_at_1": _share(trial.objectives.pass_at_1),
    }


def _figure(figure: Figure | None) -> dict[str, float | int | None] | None:
    """Return a positive figure, without an interval that it cannot have."""
    if figure is None:
        return None
    low, high = known_bounds(figure) or (None, None)
    return {"value": figure.value, "count": figure.count, "low": low, "high": high}


def _share(figure: Figure | None) -> dict[str, float | int | None] | None:
    if figure is None:
        return None
    return {"value": figure.value, "count": figure.count, "low": figure.low, "high": figure.high}
